package environment

import (
	"net"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/appthrust/capt/internal/local/controlplane"
)

// The names of the programs besides the control plane.
const (
	ClusterAPI = "cluster-api"
	Manager    = "manager"
	Charts     = "charts"
	Page       = "page"
)

// The names of ports.
const (
	clusterAPIWebhooks    = "cluster-api-webhooks"
	clusterAPIHealth      = "cluster-api-health"
	clusterAPIDiagnostics = "cluster-api-diagnostics"
	managerWebhooks       = "manager-webhooks"
	managerHealth         = "manager-health"
	managerDiagnostics    = "manager-diagnostics"
	chartsPort            = "charts"
	pagePort              = "page"
)

var portNames = []string{
	clusterAPIWebhooks, clusterAPIHealth, clusterAPIDiagnostics, managerWebhooks, managerHealth, managerDiagnostics, chartsPort, pagePort,
}

// inheritedVariables are passed from the caller's environment to the manager, and so to
// Terraform, which may have to download providers and modules.
var inheritedVariables = []string{
	"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "no_proxy", "all_proxy",
	"SSL_CERT_FILE", "SSL_CERT_DIR", "TF_CLI_CONFIG_FILE",
}

// plan is an environment resolved on this machine.
type plan struct {
	*files
	environment *Environment
	ports       map[string]int
	// clusterAPIKinds and kinds are the paths at which the API server serves the
	// kinds of Cluster API and CAPT.
	clusterAPIKinds, kinds []string
}

func (p *plan) host(port string) string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(p.ports[port]))
}

// programs returns the programs to run besides the control plane.
func (p *plan) programs(kubeconfig string) ([]controlplane.Program, error) {
	clusterAPI, err := p.clusterAPIProgram(kubeconfig)
	if err != nil {
		return nil, err
	}
	manager, err := p.managerProgram(kubeconfig)
	if err != nil {
		return nil, err
	}
	programs := []controlplane.Program{clusterAPI, manager}
	if dir := p.charts(); dir != "" {
		path, err := p.part(Charts)
		if err != nil {
			return nil, err
		}
		programs = append(programs, controlplane.Program{
			Name: Charts, Path: path, Args: []string{"serve", "--dir=" + dir, "--address=" + p.host(chartsPort)},
			ReadyURL: "http://" + p.host(chartsPort) + "/healthz",
		})
	}
	if p.environment.Page {
		path, err := p.captProgram("captctl")
		if err != nil {
			return nil, err
		}
		programs = append(programs, controlplane.Program{
			Name: Page, Path: path, Args: []string{"ui", "--no-browser", "--port=" + strconv.Itoa(p.ports[pagePort]), "--link-file=" + p.environment.linkFile()},
			Env: []string{"KUBECONFIG=" + kubeconfig}, Files: []string{path}, ReadyURL: "http://" + p.host(pagePort) + "/",
		})
	}
	return programs, nil
}

func (p *plan) clusterAPIProgram(kubeconfig string) (controlplane.Program, error) {
	path, err := p.part(ClusterAPI)
	if err != nil {
		return controlplane.Program{}, err
	}
	return controlplane.Program{
		Name: ClusterAPI, Path: path,
		Args: []string{
			"--leader-elect=false",
			"--webhook-port=" + strconv.Itoa(p.ports[clusterAPIWebhooks]),
			"--webhook-cert-dir=" + p.environment.webhookDir(),
			"--health-addr=" + p.host(clusterAPIHealth),
			"--diagnostics-address=" + p.host(clusterAPIDiagnostics),
			"--insecure-diagnostics=true",
			"--feature-gates=ClusterTopology=true",
			"--v=2",
		},
		Env:      []string{"KUBECONFIG=" + kubeconfig, "POD_NAMESPACE=capi-system", "POD_NAME=capi", "POD_UID=0"},
		Needs:    p.clusterAPIKinds,
		ReadyURL: "http://" + p.host(clusterAPIHealth) + "/readyz",
	}, nil
}

func (p *plan) managerProgram(kubeconfig string) (controlplane.Program, error) {
	path, err := p.captProgram("manager")
	if err != nil {
		return controlplane.Program{}, err
	}
	tofu, err := p.part(tofu)
	if err != nil {
		return controlplane.Program{}, err
	}
	// The local templates search PATH for localcluster.
	env := []string{
		"KUBECONFIG=" + kubeconfig,
		"PATH=" + strings.Join([]string{p.bin, p.parts, os.Getenv("PATH")}, string(os.PathListSeparator)),
	}
	for _, name := range inheritedVariables {
		if value := os.Getenv(name); value != "" {
			env = append(env, name+"="+value)
		}
	}
	return controlplane.Program{
		Name: Manager, Path: path,
		Args: append([]string{
			"--executor=process",
			"--terraform-binary=" + tofu,
			"--work-dir=" + p.environment.workDir(),
			"--hide=" + p.environment.managementDir(),
			"--max-runs=4",
			// Workload clusters, charts and the emulated AWS are on this machine.
			"--allowed-cidrs=127.0.0.0/8,::1/128",
			"--webhook-host=127.0.0.1",
			"--webhook-port=" + strconv.Itoa(p.ports[managerWebhooks]),
			"--webhook-cert-dir=" + p.environment.webhookDir(),
			"--health-addr=" + p.host(managerHealth),
			"--diagnostics-address=" + p.host(managerDiagnostics),
			"--insecure-diagnostics=true",
			"--shutdown-timeout=4s",
			"-v=2",
		}, p.environment.ManagerArgs...),
		Env:   env,
		Needs: slices.Concat(p.kinds, p.clusterAPIKinds),
		// A rebuilt manager is restarted.
		Files:    []string{path},
		ReadyURL: "http://" + p.host(managerHealth) + "/readyz",
	}, nil
}

// webhookServer returns the webhook server of a port.
func (p *plan) webhookServer(port string, ca []byte) webhookServer {
	return webhookServer{url: "https://" + p.host(port), ca: ca}
}

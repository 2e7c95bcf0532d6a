package environment

import (
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/appthrust/capt/internal/local/controlplane"
)

// Names of the programs beside the control plane.
const (
	ClusterAPI = "cluster-api"
	Manager    = "manager"
	Charts     = "charts"
)

// Names of ports.
const (
	clusterAPIWebhooks    = "cluster-api-webhooks"
	clusterAPIHealth      = "cluster-api-health"
	clusterAPIDiagnostics = "cluster-api-diagnostics"
	managerWebhooks       = "manager-webhooks"
	managerHealth         = "manager-health"
	managerDiagnostics    = "manager-diagnostics"
	chartsPort            = "charts"
)

var portNames = []string{
	clusterAPIWebhooks, clusterAPIHealth, clusterAPIDiagnostics, managerWebhooks, managerHealth, managerDiagnostics, chartsPort,
}

// passed are the variables of the caller's environment that reach the manager,
// and so Terraform, which may have to fetch providers and modules.
var passed = []string{
	"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "no_proxy", "all_proxy",
	"SSL_CERT_FILE", "SSL_CERT_DIR", "TF_CLI_CONFIG_FILE",
}

// plan is what an environment is to be on this machine.
type plan struct {
	*files
	environment *Environment
	ports       map[string]int
	// clusterAPIKinds and kinds are the paths at which kinds are served.
	clusterAPIKinds, kinds []string
}

func (p *plan) host(port string) string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(p.ports[port]))
}

// programs are what runs beside the control plane.
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
	path, err := p.own("manager")
	if err != nil {
		return controlplane.Program{}, err
	}
	tofu, err := p.part("tofu")
	if err != nil {
		return controlplane.Program{}, err
	}
	// The local templates find their program on the PATH.
	env := []string{
		"KUBECONFIG=" + kubeconfig,
		"PATH=" + strings.Join([]string{p.bin, p.parts, os.Getenv("PATH")}, string(os.PathListSeparator)),
	}
	for _, name := range passed {
		if value := os.Getenv(name); value != "" {
			env = append(env, name+"="+value)
		}
	}
	return controlplane.Program{
		Name: Manager, Path: path,
		Args: []string{
			"--executor=process",
			"--terraform-binary=" + tofu,
			"--work-dir=" + p.environment.workDir(),
			"--max-runs=4",
			"--webhook-port=" + strconv.Itoa(p.ports[managerWebhooks]),
			"--webhook-cert-dir=" + p.environment.webhookDir(),
			"--health-addr=" + p.host(managerHealth),
			"--diagnostics-address=" + p.host(managerDiagnostics),
			"--insecure-diagnostics=true",
			"--shutdown-timeout=4s",
			"-v=2",
		},
		Env:   env,
		Needs: slices.Concat(p.kinds, p.clusterAPIKinds),
		// One that was built anew is started again.
		Files:    []string{path},
		ReadyURL: "http://" + p.host(managerHealth) + "/readyz",
	}, nil
}

// webhooksOf is where a program serves its webhooks.
func (p *plan) webhooksOf(port string, authority []byte) address {
	return address{url: fmt.Sprintf("https://%s", p.host(port)), authority: authority}
}

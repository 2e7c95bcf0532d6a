// Package clusterctl tests the files of a release with the real clusterctl, on real API
// servers, against a repository on disk.
//
// There are no nodes, and no cert-manager runs: only its CRDs are installed. The tests
// do what these would do. They run the programs of the Deployments as processes, with
// the arguments and the service accounts of the Deployments, as long as the Deployments
// want a replica, and connect the webhooks to them.
package clusterctl

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/appthrust/capt/internal/kubernetes/scheme"
	"github.com/appthrust/capt/internal/testenv"
)

// testTimeout is how long an operation may take on a busy machine.
const testTimeout = 3 * time.Minute

// server is a management cluster.
type server struct {
	*WithT
	t          *testing.T
	ctx        context.Context
	client     client.Client
	env        *envtest.Environment
	kubeconfig string
	// dir contains logs, certificates and the working directories of the managers.
	dir string
	// config is the configuration of clusterctl, and settings are variables of its environment.
	config   string
	settings []string
	// executor is that of the infrastructure provider. There are no nodes for Jobs.
	executor string
	// managers are the running managers of CAPT, by namespace.
	managers map[string]*manager
	// servings are the addresses of their webhook servers. They stay the same, as those
	// of Services do.
	servings map[string]serving
	// programs are all programs that were started, and logs their logs.
	programs []*program
	logs     []string
}

// newServer starts an API server without any CRDs.
func newServer(t *testing.T, config string) *server {
	t.Helper()
	s := &server{WithT: NewWithT(t), t: t, ctx: t.Context(), dir: t.TempDir(), config: config, executor: "process", managers: map[string]*manager{}, servings: map[string]serving{}}
	s.kubeconfig = filepath.Join(s.dir, "kubeconfig")
	s.startAPI("")
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		for _, path := range s.logs {
			text, _ := os.ReadFile(path)
			t.Logf("%s:\n%s", path, text[max(0, len(text)-4000):])
		}
	})
	return s
}

// startAPI starts etcd and an API server, with the data of a directory if there is one.
func (s *server) startAPI(data string) {
	s.t.Helper()
	assets, err := testenv.Assets()
	s.Expect(err).NotTo(HaveOccurred())
	env := &envtest.Environment{BinaryAssetsDirectory: assets, ControlPlaneStartTimeout: 2 * time.Minute, ControlPlaneStopTimeout: time.Minute}
	env.ControlPlane.Etcd = &envtest.Etcd{DataDir: data}
	s.t.Cleanup(func() { _ = env.Stop() })
	rest, err := env.Start()
	s.Expect(err).NotTo(HaveOccurred())
	rest.QPS = -1
	known := scheme.New()
	s.Expect(apiextensionsv1.AddToScheme(known)).To(Succeed())
	s.Expect(admissionv1.AddToScheme(known)).To(Succeed())
	s.Expect(appsv1.AddToScheme(known)).To(Succeed())
	s.client, err = client.New(rest, client.Options{Scheme: known})
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(os.WriteFile(s.kubeconfig, env.KubeConfig, 0o600)).To(Succeed())
	s.env = env
}

// crash ends the management cluster at once: its managers, the API server and etcd.
func (s *server) crash() {
	s.t.Helper()
	for _, p := range s.programs {
		_ = p.cmd.Process.Kill()
		<-p.done
	}
	clear(s.managers)
	s.Expect(s.env.Stop()).To(Succeed())
}

// clusterctl runs clusterctl and returns its output. Meanwhile the managers follow their
// Deployments.
func (s *server) clusterctl(args ...string) string {
	s.t.Helper()
	program, err := testenv.Part("clusterctl")
	s.Expect(err).NotTo(HaveOccurred())
	cmd := exec.CommandContext(s.ctx, program, append(args, "--config", s.config)...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+s.kubeconfig, "CLUSTERCTL_DISABLE_VERSIONCHECK=true", "XDG_CONFIG_HOME="+s.dir, "AWS_REGION=eu-central-1", "ENDPOINT_PUBLIC_CIDRS=203.0.113.0/24")
	cmd.Env = append(cmd.Env, s.settings...)
	out := s.follow(cmd)
	s.waitRollout()
	s.t.Logf("clusterctl %s\n%s", strings.Join(args, " "), out[:min(len(out), 3000)])
	return out
}

// follow runs a command and returns its output. Meanwhile the managers follow their
// Deployments.
func (s *server) follow(cmd *exec.Cmd) string {
	s.t.Helper()
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	s.Expect(cmd.Start()).To(Succeed())
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	for {
		select {
		case err := <-done:
			s.Expect(err).NotTo(HaveOccurred(), "%s: %s", strings.Join(cmd.Args, " "), out.String())
			return out.String()
		case <-time.After(100 * time.Millisecond):
			s.followDeployments()
		}
	}
}

// program is a process that stands in for the pods of a Deployment.
type program struct {
	cmd  *exec.Cmd
	done chan struct{}
}

// stop ends the process, and reports whether it ended by itself when it was told to.
func (p *program) stop() bool {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
		return true
	case <-time.After(testTimeout):
		_ = p.cmd.Process.Kill()
		<-p.done
		return false
	}
}

func (s *server) start(name string, cmd *exec.Cmd) *program {
	s.t.Helper()
	path := filepath.Join(s.dir, fmt.Sprintf("%s-%d.log", name, len(s.logs)))
	log, err := os.Create(path)
	s.Expect(err).NotTo(HaveOccurred())
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	s.Expect(cmd.Start()).To(Succeed(), "run `make build` first")
	p := &program{cmd: cmd, done: make(chan struct{})}
	s.logs, s.programs = append(s.logs, path), append(s.programs, p)
	go func() { _ = cmd.Wait(); _ = log.Close(); close(p.done) }()
	s.t.Cleanup(func() { p.stop() })
	return p
}

// serving is an address of a webhook server with its certificate.
type serving struct {
	port, dir string
	ca        []byte
}

func (s *server) newServing() serving {
	s.t.Helper()
	certificate, key, err := cert.GenerateSelfSignedCertKey("127.0.0.1", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	s.Expect(err).NotTo(HaveOccurred())
	dir, err := os.MkdirTemp(s.dir, "certs-")
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(os.WriteFile(filepath.Join(dir, "tls.crt"), certificate, 0o600)).To(Succeed())
	s.Expect(os.WriteFile(filepath.Join(dir, "tls.key"), key, 0o600)).To(Succeed())
	_, port, err := net.SplitHostPort(s.address())
	s.Expect(err).NotTo(HaveOccurred())
	return serving{port: port, dir: dir, ca: certificate}
}

// serving returns the webhook server of the manager in a namespace.
func (s *server) serving(namespace string) serving {
	s.t.Helper()
	if _, ok := s.servings[namespace]; !ok {
		s.servings[namespace] = s.newServing()
	}
	return s.servings[namespace]
}

func (s *server) address() string {
	s.t.Helper()
	address, err := testenv.FreeAddress()
	s.Expect(err).NotTo(HaveOccurred())
	return address
}

// connect does what a Service and cert-manager do: it routes the webhooks of a
// namespace to a process, and makes the API server trust it.
func (s *server) connect(namespace string, to serving) {
	s.t.Helper()
	route := func(c *admissionv1.WebhookClientConfig) {
		if c.Service != nil && c.Service.Namespace == namespace {
			url := "https://127.0.0.1:" + to.port + *c.Service.Path
			*c = admissionv1.WebhookClientConfig{URL: &url, CABundle: to.ca}
		}
	}
	var validating admissionv1.ValidatingWebhookConfigurationList
	s.Expect(s.client.List(s.ctx, &validating)).To(Succeed())
	for i := range validating.Items {
		for j := range validating.Items[i].Webhooks {
			route(&validating.Items[i].Webhooks[j].ClientConfig)
		}
		s.Expect(s.client.Update(s.ctx, &validating.Items[i])).To(Succeed())
	}
	var mutating admissionv1.MutatingWebhookConfigurationList
	s.Expect(s.client.List(s.ctx, &mutating)).To(Succeed())
	for i := range mutating.Items {
		for j := range mutating.Items[i].Webhooks {
			route(&mutating.Items[i].Webhooks[j].ClientConfig)
		}
		s.Expect(s.client.Update(s.ctx, &mutating.Items[i])).To(Succeed())
	}
	var crds apiextensionsv1.CustomResourceDefinitionList
	s.Expect(s.client.List(s.ctx, &crds)).To(Succeed())
	for i := range crds.Items {
		conversion := crds.Items[i].Spec.Conversion
		if conversion == nil || conversion.Webhook == nil || conversion.Webhook.ClientConfig.Service == nil || conversion.Webhook.ClientConfig.Service.Namespace != namespace {
			continue
		}
		url := "https://127.0.0.1:" + to.port + *conversion.Webhook.ClientConfig.Service.Path
		conversion.Webhook.ClientConfig = &apiextensionsv1.WebhookClientConfig{URL: &url, CABundle: to.ca}
		s.Expect(s.client.Update(s.ctx, &crds.Items[i])).To(Succeed())
	}
}

// startClusterAPI runs the core provider.
func (s *server) startClusterAPI() {
	s.t.Helper()
	path, err := testenv.Part("cluster-api")
	s.Expect(err).NotTo(HaveOccurred())
	to := s.newServing()
	s.connect("capi-system", to)
	cmd := exec.Command(path, "--leader-elect=false", "--webhook-port="+to.port, "--webhook-cert-dir="+to.dir,
		"--health-addr="+s.address(), "--diagnostics-address="+s.address(), "--insecure-diagnostics=true", "--feature-gates=ClusterTopology=true")
	cmd.Env = append(os.Environ(), "KUBECONFIG="+s.kubeconfig, "POD_NAMESPACE=capi-system", "POD_NAME=capi", "POD_UID=0")
	s.start("cluster-api", cmd)
}

// forbidden returns the requests of the managers that RBAC denied.
func (s *server) forbidden() []string {
	var lines []string
	for _, path := range s.logs {
		text, err := os.ReadFile(path)
		s.Expect(err).NotTo(HaveOccurred())
		for line := range strings.Lines(string(text)) {
			if strings.Contains(line, "forbidden") {
				lines = append(lines, filepath.Base(path)+": "+line)
			}
		}
	}
	return lines
}

package fleet

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	"github.com/appthrust/capt/internal/testenv"
)

const (
	// managerNamespace has the lease of the manager.
	managerNamespace = "capt-system"
	// scrapeInterval is shorter than that of most Prometheus servers, which is 15 to 60 seconds.
	scrapeInterval = 5 * time.Second
	// shippedCores is GOMAXPROCS in a container with the CPU limit of the manifests: the Go
	// runtime rounds the limit up, to two at least.
	shippedCores = 2
)

// installation is what the manager needs beside the CRDs.
type installation struct {
	env     *testenv.Environment
	account *testenv.Account
	// container is that of the manifests, and hooks where its webhooks are called.
	container corev1.Container
	hooks     *envtest.WebhookInstallOptions
	// token is that of a Prometheus.
	token string
	limit uint64
}

// install installs the webhooks, and an account that may read the metrics.
func install(t *testing.T, env *testenv.Environment) *installation {
	t.Helper()
	g := NewWithT(t)
	objects, err := testenv.Kustomize("config/default")
	g.Expect(err).NotTo(HaveOccurred())
	objects = slices.DeleteFunc(objects, func(obj *unstructured.Unstructured) bool {
		return !strings.HasSuffix(obj.GetKind(), "WebhookConfiguration") && obj.GetName() != "capt-metrics-reader"
	})
	in := &installation{env: env, container: shippedContainer(t)}
	in.account, err = env.ManagerAccount()
	g.Expect(err).NotTo(HaveOccurred())
	in.limit = uint64(in.container.Resources.Limits.Memory().Value())
	in.hooks, err = env.Install(t.Context(), objects)
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = in.hooks.Cleanup() })
	prometheus := metav1.ObjectMeta{Namespace: managerNamespace, Name: "prometheus"}
	for _, obj := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: managerNamespace}},
		&corev1.ServiceAccount{ObjectMeta: prometheus},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: prometheus.Name},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "capt-metrics-reader"},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: prometheus.Namespace, Name: prometheus.Name}},
		},
	} {
		g.Expect(client.IgnoreAlreadyExists(env.Client.Create(t.Context(), obj))).To(Succeed())
	}
	in.token, err = env.Token(t.Context(), prometheus.Namespace, prometheus.Name)
	g.Expect(err).NotTo(HaveOccurred())
	return in
}

// shippedContainer returns the container of the manager in the manifests.
func shippedContainer(t *testing.T) corev1.Container {
	t.Helper()
	g := NewWithT(t)
	text := testenv.ReadFile(t, "config/manager/manager.yaml")
	var deployment appsv1.Deployment
	g.Expect(yaml.Unmarshal(text, &deployment)).To(Succeed())
	g.Expect(deployment.Spec.Template.Spec.Containers).To(HaveLen(1))
	return deployment.Spec.Template.Spec.Containers[0]
}

// managerProcess is a running manager, which is scraped.
type managerProcess struct {
	cmd         *exec.Cmd
	group       *group
	diagnostics string
	token       string
	http        *http.Client
	done        chan struct{}

	mutex sync.Mutex
	// scrapes counts the answers, and metrics is the last one.
	scrapes int
	metrics []byte
	problem error
}

// start starts the manager with the arguments and the memory limit of the manifests, apart from
// its addresses and from what more overrides. Its runs do not count towards the limit.
func (in *installation) start(t *testing.T, more ...string) *managerProcess {
	t.Helper()
	g := NewWithT(t)
	root, err := testenv.Root()
	g.Expect(err).NotTo(HaveOccurred())
	health, err := testenv.FreeAddress()
	g.Expect(err).NotTo(HaveOccurred())
	diagnostics, err := testenv.FreeAddress()
	g.Expect(err).NotTo(HaveOccurred())
	args := append(slices.Clone(in.container.Args),
		"--health-addr="+health, "--diagnostics-address="+diagnostics, "--leader-elect-namespace="+managerNamespace,
		"--webhook-port="+strconv.Itoa(in.hooks.LocalServingPort), "--webhook-cert-dir="+in.hooks.LocalServingCertDir,
		"--allowed-cidrs=127.0.0.0/8,::1/128")
	log, err := os.CreateTemp(in.env.Dir, "manager-*.log")
	g.Expect(err).NotTo(HaveOccurred())
	group := newGroup(t, in.limit)
	args = append(args, "--runner-binary="+group.outsider(t, filepath.Join(root, "bin", "runner")))
	command := group.command(filepath.Join(root, "bin", "manager"), append(args, more...))
	m := &managerProcess{
		cmd: exec.Command(command[0], command[1:]...), group: group, diagnostics: "https://" + diagnostics, token: in.token, done: make(chan struct{}),
		http: &http.Client{Timeout: time.Minute, Transport: &http.Transport{
			TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, // It is on loopback.
		}},
	}
	m.cmd.Env = append(os.Environ(), "KUBECONFIG="+in.account.Kubeconfig, fmt.Sprintf("GOMAXPROCS=%d", shippedCores))
	if !group.exists() {
		m.cmd.Env = append(m.cmd.Env, fmt.Sprintf("GOMEMLIMIT=%d", in.limit/10*8))
	}
	m.cmd.Stdout, m.cmd.Stderr = log, log
	g.Expect(m.cmd.Start()).To(Succeed(), "run `make build` first")
	go func() { _ = m.cmd.Wait(); close(m.done) }()
	t.Cleanup(func() {
		m.stop()
		_ = log.Close()
		if text, err := os.ReadFile(log.Name()); err == nil && t.Failed() {
			t.Logf("manager:\n%s", text[max(0, len(text)-8000):])
		}
	})
	g.Eventually(func(g Gomega) {
		answer, err := http.Get("http://" + health + "/readyz")
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(answer.Body.Close()).To(Succeed())
		g.Expect(answer.StatusCode).To(Equal(http.StatusOK))
	}, testTimeout, 200*time.Millisecond).Should(Succeed())
	go m.scrape()
	go group.observe(m.done)
	return m
}

func (m *managerProcess) stop() {
	_ = m.cmd.Process.Signal(syscall.SIGTERM)
	<-m.done
}

// scrape reads the metrics as Prometheus does, until the manager ends.
func (m *managerProcess) scrape() {
	ticker := time.NewTicker(scrapeInterval)
	defer ticker.Stop()
	for {
		text, err := m.read()
		select {
		case <-m.done:
			return
		default:
		}
		m.mutex.Lock()
		if err == nil {
			m.scrapes, m.metrics = m.scrapes+1, text
		}
		m.problem = errors.Join(m.problem, err)
		m.mutex.Unlock()
		select {
		case <-m.done:
			return
		case <-ticker.C:
		}
	}
}

func (m *managerProcess) read() ([]byte, error) {
	request, err := http.NewRequest(http.MethodGet, m.diagnostics+"/metrics", http.NoBody)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+m.token)
	answer, err := m.http.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the metrics answer %s", answer.Status)
	}
	return io.ReadAll(answer.Body)
}

// scraped returns the number of scrapes, all of which must have succeeded.
func (m *managerProcess) scraped(t *testing.T) int {
	t.Helper()
	m.mutex.Lock()
	defer m.mutex.Unlock()
	g := NewWithT(t)
	g.Expect(m.problem).NotTo(HaveOccurred())
	g.Expect(m.scrapes).To(BeNumerically(">", 0))
	return m.scrapes
}

// sum returns the sum of a metric over all series with a label in the last scrape.
func (m *managerProcess) sum(metric, label string) (sum float64) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	scanner := bufio.NewScanner(bytes.NewReader(m.metrics))
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		name, rest, _ := strings.Cut(scanner.Text(), "{")
		labels, value, _ := strings.Cut(rest, "} ")
		if name != metric || !strings.Contains(labels, label) {
			continue
		}
		if number, err := strconv.ParseFloat(value, 64); err == nil {
			sum += number
		}
	}
	return sum
}

// awaitSettled waits until the manager has reconciled so many control planes and workspaces, and
// has nothing left to do.
func (m *managerProcess) awaitSettled(t *testing.T, clusters, workspaces int) {
	t.Helper()
	NewWithT(t).Eventually(func(g Gomega) {
		g.Expect(m.sum("controller_runtime_reconcile_total", `controller="captcontrolplane"`)).To(BeNumerically(">=", clusters))
		g.Expect(m.sum("controller_runtime_reconcile_total", `controller="workspacetemplateapply"`)).To(BeNumerically(">=", workspaces))
		g.Expect(m.sum("workqueue_depth", "") + m.sum("controller_runtime_active_workers", "")).To(BeZero())
	}, testTimeout, time.Second).Should(Succeed())
}

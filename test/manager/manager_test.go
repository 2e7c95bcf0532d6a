// Package manager tests the manager's own binary: probes, metrics, webhooks,
// leader election and flags.
package manager

import (
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/testenv"
	"github.com/appthrust/capt/internal/testenv/waits"
)

var env *testenv.Environment

func TestMain(m *testing.M) { os.Exit(testenv.Run(m, &env)) }

// testTimeout is how long an operation may take on a busy machine.
const testTimeout = waits.Timeout

// command returns the manager with the programs it needs.
func command(g *WithT, work string, args ...string) *exec.Cmd {
	root, err := testenv.Root()
	g.Expect(err).NotTo(HaveOccurred())
	tofu, err := testenv.Part("tofu")
	g.Expect(err).NotTo(HaveOccurred())
	cmd := exec.Command(filepath.Join(root, "bin", "manager"), append([]string{
		"--executor=process", "--terraform-binary=" + tofu, "--work-dir=" + work,
		"--health-addr=0", "--diagnostics-address=0", "--webhook-port=0",
	}, args...)...)
	account, err := env.ManagerAccount()
	g.Expect(err).NotTo(HaveOccurred())
	cmd.Env = append(os.Environ(), "KUBECONFIG="+account.Kubeconfig)
	return cmd
}

// start runs the manager until the test ends.
func start(t *testing.T, args ...string) *exec.Cmd {
	g := NewWithT(t)
	work := t.TempDir()
	cmd := command(g, work, args...)
	log, err := os.Create(filepath.Join(work, "manager.log"))
	g.Expect(err).NotTo(HaveOccurred())
	cmd.Stdout, cmd.Stderr = log, log
	g.Expect(cmd.Start()).To(Succeed(), "run `make build` first")
	done := make(chan struct{})
	go func() { _ = cmd.Wait(); close(done) }()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		<-done
		if t.Failed() {
			text, _ := os.ReadFile(log.Name())
			t.Logf("manager:\n%s", text[max(0, len(text)-8000):])
		}
	})
	return cmd
}

// logOf returns the log of a manager that start has started.
func logOf(cmd *exec.Cmd) func() (string, error) {
	return func() (string, error) {
		text, err := os.ReadFile(cmd.Stdout.(*os.File).Name())
		return string(text), err
	}
}

func get(url, token string) (status int, body string) {
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, url, nil)
	if err != nil {
		return 0, err.Error()
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	c := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}, Timeout: 10 * time.Second}
	resp, err := c.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text)
}

func status(url, token string) func() int {
	return func() int { code, _ := get(url, token); return code }
}

func TestManager_answersProbes(t *testing.T) {
	g := NewWithT(t)
	health, err := testenv.FreeAddress()
	g.Expect(err).NotTo(HaveOccurred())
	start(t, "--health-addr="+health)
	for _, path := range []string{"healthz", "readyz"} {
		g.Eventually(status("http://"+health+"/"+path, ""), testTimeout).Should(Equal(http.StatusOK), path)
	}
}

// A rollout must not replace a manager that works by one that cannot read what it needs.
func TestManager_isNotReadyWithoutPermissions(t *testing.T) {
	g := NewWithT(t)
	ns := env.Namespace(t)
	health, err := testenv.FreeAddress()
	g.Expect(err).NotTo(HaveOccurred())
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	g.Expect(clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"c": {Server: env.Config.Host, CertificateAuthorityData: env.Config.CAData}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"c": {Token: account(g, ns, "manager")}},
		Contexts:       map[string]*clientcmdapi.Context{"c": {Cluster: "c", AuthInfo: "c"}},
		CurrentContext: "c",
	}, kubeconfig)).To(Succeed())
	args := []string{"--kubeconfig=" + kubeconfig, "--namespace=" + ns, "--health-addr=" + health}
	first := start(t, args...)
	g.Eventually(status("http://"+health+"/healthz", ""), testTimeout).Should(Equal(http.StatusOK))
	g.Eventually(logOf(first), testTimeout).Should(ContainSubstring("forbidden"))
	g.Expect(status("http://"+health+"/readyz", "")()).To(Equal(http.StatusInternalServerError))
	g.Expect(first.Process.Signal(syscall.SIGTERM)).To(Succeed())
	g.Eventually(func() error { return first.Process.Signal(syscall.Signal(0)) }, testTimeout).Should(MatchError(os.ErrProcessDone), "it ends when it is told to")

	start(t, args...)
	g.Eventually(status("http://"+health+"/readyz", ""), testTimeout).Should(Equal(http.StatusInternalServerError))
	g.Expect(env.Client.Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: ns + "-manager"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: ns, Name: "manager"}},
	})).To(Succeed())
	g.Eventually(status("http://"+health+"/readyz", ""), testTimeout).Should(Equal(http.StatusOK))
}

func TestManager_servesMetricsToThoseWhoMay(t *testing.T) {
	g := NewWithT(t)
	ns := env.Namespace(t)
	address, err := testenv.FreeAddress()
	g.Expect(err).NotTo(HaveOccurred())
	start(t, "--diagnostics-address="+address)
	url := "https://" + address + "/metrics"

	reader, stranger := account(g, ns, "reader"), account(g, ns, "stranger")
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: ns + "-metrics"},
		Rules:      []rbacv1.PolicyRule{{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}}},
	}
	g.Expect(env.Client.Create(t.Context(), role)).To(Succeed())
	g.Expect(env.Client.Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: ns + "-metrics"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: ns, Name: "reader"}},
	})).To(Succeed())

	g.Eventually(status(url, ""), testTimeout).Should(Equal(http.StatusUnauthorized), "anonymous clients read no metrics")
	g.Expect(status(url, stranger)()).To(Equal(http.StatusForbidden), "unauthorised clients read no metrics")
	g.Eventually(status(url, reader), testTimeout).Should(Equal(http.StatusOK))
	_, body := get(url, reader)
	g.Expect(body).To(ContainSubstring("capt_runs_in_flight"))
}

// account makes a service account and returns a token of it.
func account(g *WithT, namespace, name string) string {
	ctx := context.Background()
	sa := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	g.Expect(env.Client.Create(ctx, sa)).To(Succeed())
	token := &authenticationv1.TokenRequest{}
	g.Expect(env.Client.SubResource("token").Create(ctx, sa, token)).To(Succeed())
	return token.Status.Token
}

func TestManager_servesWebhooks(t *testing.T) {
	g := NewWithT(t)
	root, err := testenv.Root()
	g.Expect(err).NotTo(HaveOccurred())
	hooks := &envtest.WebhookInstallOptions{Paths: []string{filepath.Join(root, "config", "webhook", "manifests.yaml")}}
	g.Expect(testenv.ServeOnFreePort(hooks)).To(Succeed())
	g.Expect(hooks.PrepWithoutInstalling()).To(Succeed())
	health, err := testenv.FreeAddress()
	g.Expect(err).NotTo(HaveOccurred())
	start(t, "--webhook-port="+strconv.Itoa(hooks.LocalServingPort), "--webhook-cert-dir="+hooks.LocalServingCertDir,
		"--health-addr="+health)
	g.Eventually(status("http://"+health+"/readyz", ""), testTimeout).Should(Equal(http.StatusOK), "ready means that webhooks are served")
	g.Expect(hooks.Install(env.Config)).To(Succeed())
	t.Cleanup(func() { g.Expect(removeWebhooks(hooks)).To(Succeed()) })

	bad := &infrav1.WorkspaceTemplate{
		ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace(t), Name: "bad"},
		Spec: infrav1.WorkspaceTemplateSpec{Template: infrav1.WorkspaceTemplateDefinition{Spec: infrav1.WorkspaceSpec{
			ForProvider: infrav1.ModuleParameters{Source: infrav1.ModuleSourceInline, Module: "resource {"},
		}}},
	}
	g.Eventually(func() error { return env.Client.Create(t.Context(), bad.DeepCopy(), client.DryRunAll) }, testTimeout).
		Should(MatchError(ContainSubstring("spec.template.spec.forProvider.module")), "the API server learns about a webhook a moment later")
}

func removeWebhooks(hooks *envtest.WebhookInstallOptions) error {
	for _, h := range hooks.ValidatingWebhooks {
		if err := client.IgnoreNotFound(env.Client.Delete(context.Background(), h)); err != nil {
			return err
		}
	}
	for _, h := range hooks.MutatingWebhooks {
		if err := client.IgnoreNotFound(env.Client.Delete(context.Background(), h)); err != nil {
			return err
		}
	}
	return hooks.Cleanup()
}

func TestManager_electsALeader(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	ns := env.Namespace(t)
	args := []string{
		"--leader-elect", "--leader-elect-namespace=" + ns, "--namespace=" + ns,
		// A busy machine needs time to renew the lease.
		"--leader-elect-lease-duration=15s", "--leader-elect-renew-deadline=10s", "--leader-elect-retry-period=500ms",
	}
	holder := func() string {
		lease := &coordinationv1.Lease{}
		if err := env.Client.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: "capt-manager-leader"}, lease); err != nil || lease.Spec.HolderIdentity == nil {
			return ""
		}
		return *lease.Spec.HolderIdentity
	}
	first := start(t, args...)
	g.Eventually(holder, testTimeout).ShouldNot(BeEmpty())
	leader := holder()
	g.Eventually(logOf(start(t, args...)), testTimeout).Should(MatchRegexp("(?i)attempting to acquire leader lease"))
	g.Expect(first.Process.Kill()).To(Succeed())
	g.Eventually(holder, testTimeout).ShouldNot(Or(BeEmpty(), Equal(leader)), "another takes over")
}

func TestManager_refusesFlagsThatCannotWork(t *testing.T) {
	tests := []struct {
		name    string
		args    []string
		message string
	}{
		{"executor", []string{"--executor=magic"}, `--executor is "magic": set it to process or job`},
		{"binary", []string{"--terraform-binary=/nowhere/tofu"}, `--terraform-binary is "/nowhere/tofu", which is not an executable`},
		{"runs", []string{"--max-runs=0"}, "--max-runs is 0: set it to at least 1"},
		{"runs of a namespace", []string{"--max-runs-per-namespace=-1"}, "--max-runs-per-namespace is -1: set it to at least 1"},
		{"key", []string{"--seal-key-secret=name"}, `--seal-key-secret is "name": set it to NAMESPACE/NAME`},
		{"image", []string{"--executor=job"}, "--executor=job requires --runner-image: set it to the runner's image of this release, ghcr.io/appthrust/capt-runner:v"},
		{"concurrency", []string{"--concurrency=0"}, "--concurrency is 0: set it to at least 1"},
		{"burst", []string{"--kube-api-qps=100", "--kube-api-burst=10"}, "--kube-api-burst is 10"},
		{"election", []string{"--leader-elect", "--leader-elect-lease-duration=1s"}, "leader election requires"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			out, err := command(g, t.TempDir(), tt.args...).CombinedOutput()
			g.Expect(err).To(HaveOccurred())
			g.Expect(string(out)).To(ContainSubstring(tt.message))
		})
	}
}

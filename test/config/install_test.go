package config

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/host"
	"github.com/appthrust/capt/internal/testenv"
	"github.com/appthrust/capt/internal/testenv/waits"
)

// testTimeout is how long an operation may take on a busy machine.
const testTimeout = waits.Timeout

// install applies the rendered objects, and serves the webhooks on this machine.
func install(t *testing.T, objects []*unstructured.Unstructured) *envtest.WebhookInstallOptions {
	t.Helper()
	hooks, err := env.Install(t.Context(), objects)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = hooks.Cleanup() })
	return hooks
}

// token returns a token of a service account.
func token(t *testing.T, namespace, name string) string {
	t.Helper()
	token, err := env.Token(t.Context(), namespace, name)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return token
}

// kubeconfig returns a kubeconfig file with a token.
func kubeconfig(t *testing.T, token string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	NewWithT(t).Expect(env.WriteKubeconfig(file, token)).To(Succeed())
	return file
}

func freeAddress(t *testing.T) string {
	t.Helper()
	address, err := testenv.FreeAddress()
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return address
}

// installed is a manager that runs with the permissions of its service account.
type installed struct {
	testenv.Manager
	health, diagnostics string
}

// start runs the manager with the arguments of the Deployment, but with the process
// executor and free ports.
func start(t *testing.T, args []string, hooks *envtest.WebhookInstallOptions) *installed {
	t.Helper()
	g := NewWithT(t)
	m := &installed{health: freeAddress(t), diagnostics: freeAddress(t)}
	m.Manager = testenv.Manager{
		Kubeconfig: kubeconfig(t, token(t, namespace, serviceAccount)), WorkDir: t.TempDir(),
		Args: append(args,
			"--health-addr="+m.health, "--diagnostics-address="+m.diagnostics, "--insecure-diagnostics=false",
			"--webhook-port="+strconv.Itoa(hooks.LocalServingPort), "--webhook-cert-dir="+hooks.LocalServingCertDir,
			"--leader-elect-namespace="+namespace, "--executor=process"),
	}
	g.Expect(m.Start()).To(Succeed())
	t.Cleanup(func() {
		g.Expect(m.Stop(syscall.SIGTERM)).To(Succeed())
		if t.Failed() {
			t.Logf("manager:\n%s", host.LogTail(m.Log(), 8000))
		}
	})
	return m
}

// forbidden returns the requests that RBAC denied.
func (m *installed) forbidden() []string {
	text, err := os.ReadFile(m.Log())
	if err != nil {
		return []string{err.Error()}
	}
	var lines []string
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, "forbidden") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

// getStatus returns the status code of a GET.
func getStatus(client *http.Client, url, token string) (int, error) {
	req, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close()
}

func TestDefault_grantsRequiredPermissions(t *testing.T) {
	g := NewWithT(t)
	objects := render(t)
	hooks := install(t, objects)
	_, container := manager(t, objects)
	issuer := newIssuer(t, objects)
	monitor := readMonitor(t)
	certs := t.TempDir()
	issuer.write(monitor.secret, certs)
	m := start(t, append(container.Args, "--diagnostics-cert-dir="+certs), hooks)
	for _, path := range []string{"/healthz", "/readyz"} {
		g.Eventually(func() (int, error) { return getStatus(http.DefaultClient, "http://"+m.health+path, "") }, testTimeout, 100*time.Millisecond).Should(Equal(http.StatusOK), path)
	}

	t.Run("the pod meets the restrictions of its namespace", func(t *testing.T) {
		g := NewWithT(t)
		deployment, _ := manager(t, objects)
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "like-the-manager"}, Spec: deployment.Spec.Template.Spec}
		g.Expect(env.Client.Create(t.Context(), pod, client.DryRunAll)).To(Succeed())
	})
	var reader string
	t.Run("metrics require authorization", func(t *testing.T) { reader = checkMetrics(t, m, monitor.client(issuer)) })
	t.Run("metrics have a certificate of the CA, and its successor", func(t *testing.T) {
		checkRenewal(t, m, issuer, monitor, certs)
	})
	t.Run("a workspace is applied and destroyed", func(t *testing.T) {
		own := env.Namespace(t)
		checkWorkspace(t, m, own, own)
	})
	t.Run("a workspace of another namespace is applied and destroyed with what is lent", func(t *testing.T) {
		platform, team := env.Namespace(t), env.Namespace(t)
		NewWithT(t).Expect(env.Client.Create(t.Context(), &infrav1.CAPTReferenceGrant{
			ObjectMeta: metav1.ObjectMeta{Namespace: platform, Name: "team"}, Spec: infrav1.CAPTReferenceGrantSpec{
				From: []infrav1.ReferenceGrantFrom{{Namespaces: []string{team}}},
				To:   []infrav1.ReferenceGrantTo{{Kind: infrav1.GrantedWorkspaceTemplate}, {Kind: infrav1.GrantedWorkspaceProviderConfig}},
			},
		})).To(Succeed())
		checkWorkspace(t, m, platform, team)
	})
	t.Run("metrics have the names and labels that queries use", func(t *testing.T) { checkFamilies(t, m, monitor.client(issuer), reader) })
	t.Run("webhooks reject invalid objects", func(t *testing.T) {
		err := env.Client.Create(t.Context(), template(env.Namespace(t), "output {"))
		NewWithT(t).Expect(err).To(MatchError(ContainSubstring("main.tf:1,")))
	})
	g.Expect(m.forbidden()).To(BeEmpty(), "RBAC denied no request")
}

// checkMetrics returns a token with which the metrics can be read.
func checkMetrics(t *testing.T, m *installed, client *http.Client) string {
	t.Helper()
	g := NewWithT(t)
	own := env.Namespace(t)
	for _, name := range []string{"reader", "stranger"} {
		g.Expect(env.Client.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: own, Name: name}})).To(Succeed())
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: own},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "capt-metrics-reader"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: own, Name: "reader"}},
	}
	g.Expect(env.Client.Create(t.Context(), binding)).To(Succeed())
	for _, tt := range []struct {
		token string
		want  int
	}{
		{"", http.StatusUnauthorized},
		{token(t, own, "stranger"), http.StatusForbidden},
		{token(t, own, "reader"), http.StatusOK},
	} {
		g.Eventually(func() (int, error) { return getStatus(client, "https://"+m.diagnostics+"/metrics", tt.token) }, testTimeout, 100*time.Millisecond).Should(Equal(tt.want))
	}
	return token(t, own, "reader")
}

func template(namespace, module string) *infrav1.WorkspaceTemplate {
	template := &infrav1.WorkspaceTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "greeting"}}
	template.Spec.Template.Spec.ProviderConfigRef = &infrav1.LocalReference{Name: "plain"}
	template.Spec.Template.Spec.ForProvider = infrav1.ModuleParameters{Source: infrav1.ModuleSourceInline, Module: module}
	return template
}

// checkWorkspace triggers all requests that the manager makes for a workspace, whose template
// and provider config are in the namespace platform.
func checkWorkspace(t *testing.T, m *installed, platform, team string) {
	g := NewWithT(t)
	named := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: platform, Name: name} }
	secret := &corev1.Secret{ObjectMeta: named("token"), StringData: map[string]string{"token": "0123456789"}}
	config := &infrav1.WorkspaceProviderConfig{ObjectMeta: named("plain"), Spec: infrav1.WorkspaceProviderConfigSpec{
		Credentials: []infrav1.ProviderCredential{{Env: "TOKEN", SecretRef: infrav1.KeyReference{Name: "token", Key: "token"}}},
	}}
	module := template(platform, "resource \"terraform_data\" \"this\" { input = \"hello\" }\noutput \"greeting\" { value = terraform_data.this.output }\n")
	apply := &infrav1.WorkspaceTemplateApply{ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: "hello"}, Spec: infrav1.WorkspaceTemplateApplySpec{
		TemplateRef: infrav1.TemplateReference{Namespace: platform, Name: "greeting"}, WriteConnectionSecretToRef: &infrav1.ObjectReference{Name: "hello-connection"},
	}}
	for _, obj := range []client.Object{secret, config, module, apply} {
		g.Expect(env.Client.Create(t.Context(), obj)).To(Succeed())
	}
	for _, obj := range []interface {
		client.Object
		GetConditions() []metav1.Condition
	}{apply, module, config} {
		g.Eventually(func(g Gomega) {
			g.Expect(env.Client.Get(t.Context(), client.ObjectKeyFromObject(obj), obj)).To(Succeed())
			ready := meta.FindStatusCondition(obj.GetConditions(), infrav1.ReadyCondition)
			g.Expect(ready).NotTo(BeNil(), "%T has no conditions; refused: %s", obj, m.forbidden())
			g.Expect(ready.Status).To(Equal(metav1.ConditionTrue), "%s: %s; refused: %s", ready.Reason, ready.Message, m.forbidden())
		}, testTimeout, 100*time.Millisecond).Should(Succeed())
	}
	g.Expect(env.Client.Get(t.Context(), client.ObjectKey{Namespace: team, Name: "hello-connection"}, secret)).To(Succeed())
	g.Expect(secret.Data).To(HaveKeyWithValue("greeting", []byte("hello")))

	g.Expect(apply.Status.Host != nil).To(Equal(team != platform))

	// Objects in use remain until the workspace is deleted.
	for _, obj := range []client.Object{config, module, apply} {
		g.Expect(env.Client.Delete(t.Context(), obj)).To(Succeed())
	}
	for _, obj := range []client.Object{apply, module, config} {
		g.Eventually(func() error {
			err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(obj), obj)
			if apierrors.IsNotFound(err) {
				return nil
			}
			return fmt.Errorf("%T %s still exists: %w; refused: %s", obj, obj.GetName(), err, m.forbidden())
		}, testTimeout, 100*time.Millisecond).Should(Succeed())
	}
}

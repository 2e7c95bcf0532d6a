package command

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/command/commandtest"
	"github.com/appthrust/capt/internal/terraform/record"
)

const namespace = "default"

// cluster is a real API server whose users may only read and update the states of
// single workspaces.
type cluster struct {
	client      *kubernetes.Clientset
	environment *envtest.Environment
	admin       []byte
}

func startCluster(t *testing.T) *cluster {
	t.Helper()
	environment := &envtest.Environment{BinaryAssetsDirectory: commandtest.Parts(t), ControlPlaneStartTimeout: 2 * time.Minute}
	config, err := environment.Start()
	if err != nil {
		t.Fatalf("starting the API server (run `make parts`): %v", err)
	}
	t.Cleanup(func() { _ = environment.Stop() })
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return &cluster{client: client, environment: environment, admin: environment.KubeConfig}
}

// userFor returns the kubeconfig of a user with access to only one state.
func (c *cluster) userFor(t *testing.T, backend terraform.Backend, more ...rbacv1.PolicyRule) []byte {
	t.Helper()
	g := NewWithT(t)
	ctx := context.Background()
	name := "user-" + backend.SecretSuffix
	user, err := c.environment.AddUser(envtest.User{Name: name}, nil)
	g.Expect(err).NotTo(HaveOccurred())
	kubeconfig, err := user.KubeConfig()
	g.Expect(err).NotTo(HaveOccurred())
	_, err = c.client.RbacV1().Roles(namespace).Create(ctx, &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Rules: append([]rbacv1.PolicyRule{{
			APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get", "update"},
			ResourceNames: []string{backend.StateSecretName()},
		}}, more...),
	}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	_, err = c.client.RbacV1().RoleBindings(namespace).Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}},
	}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	return kubeconfig
}

func (c *cluster) lock(t *testing.T, backend terraform.Backend, holder string) {
	t.Helper()
	_, err := c.client.CoordinationV1().Leases(namespace).Create(context.Background(), &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: backend.LeaseName(), Annotations: map[string]string{
			"app.terraform.io/lock-info": `{"ID":"` + holder + `","Operation":"Apply","Who":"capt","Created":"2026-11-15T02:00:00Z"}`,
		}},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder},
	}, metav1.CreateOptions{})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
}

func (c *cluster) createState(t *testing.T, backend terraform.Backend, state []byte) {
	t.Helper()
	g := NewWithT(t)
	data, err := record.Compress(state)
	g.Expect(err).NotTo(HaveOccurred())
	_, err = c.client.CoreV1().Secrets(namespace).Create(context.Background(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name: backend.StateSecretName(), Labels: backend.StateLabels(), Annotations: map[string]string{"encoding": "gzip"},
		},
		Data: map[string][]byte{"tfstate": data},
	}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
}

func (c *cluster) state(t *testing.T, backend terraform.Backend) ([]byte, *corev1.Secret) {
	t.Helper()
	g := NewWithT(t)
	secret, err := c.client.CoreV1().Secrets(namespace).Get(context.Background(), backend.StateSecretName(), metav1.GetOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	state, err := record.Decompress(secret.Data["tfstate"])
	g.Expect(err).NotTo(HaveOccurred())
	return state, secret
}

func kubernetesRequest(suffix, hcl string) *terraform.Request {
	request := inline(hcl)
	request.Backend = terraform.Backend{
		Type: terraform.BackendKubernetes, Namespace: namespace, SecretSuffix: suffix,
		Labels: map[string]string{"capt.test/workspace": suffix},
	}
	return request
}

func TestKubernetesBackend(t *testing.T) {
	c := startCluster(t)
	t.Run("requires neither init nor permission to list", func(t *testing.T) { testWarmKubernetes(t, c) })
	t.Run("locks on first use even with -lock=false", func(t *testing.T) { testFirstUse(t, c) })
	t.Run("initialises if the record does not match", func(t *testing.T) { testFallback(t, c) })
	t.Run("stores an encrypted state", func(t *testing.T) { testEncrypted(t, c) })
	t.Run("rescues a state that cannot be saved", func(t *testing.T) { testRescue(t, c) })
}

func testWarmKubernetes(t *testing.T, c *cluster) {
	eachTool(t, func(t *testing.T, tool *Tool) {
		cache := t.TempDir()
		for i, suffix := range []string{"first", "second", "third"} {
			g := NewWithT(t)
			request := kubernetesRequest(suffix+filepath.Base(tool.Path), `
resource "terraform_data" "a" { input = "in the state" }
output "a" {
  value     = terraform_data.a.output
  sensitive = true
}`)
			// The settings of providers must not affect the backend.
			request.Env = map[string]string{"KUBE_NAMESPACE": "elsewhere", "KUBE_CONFIG_PATH": "/elsewhere", "KUBE_CONFIG_PATHS": "/elsewhere"}
			if isOpenTofu(t, tool) {
				request.Env["KUBE_HOST"] = "https://elsewhere.invalid"
				request.Env["KUBE_TOKEN"] = "none"
			}
			w, _ := workdir(t, tool)
			w.Dir += suffix
			w.Cache = cache
			if isOpenTofu(t, tool) {
				w.Kubeconfig = c.userFor(t, request.Backend)
			} else {
				// Terraform splits a large state into several Secrets and lists them.
				w.Kubeconfig = c.userFor(t, request.Backend, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"list"}})
			}
			c.createState(t, request.Backend, EmptyState(uuid.NewString()))
			c.lock(t, request.Backend, "other-holder")

			session, result := apply(t, w, request)
			g.Expect(session.InitRan).To(Equal(i == 0), "only the first workspace of a module runs an init")
			g.Expect(result.Added).To(Equal(1))
			data, _ := c.state(t, request.Backend)
			state, err := ParseState(data)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(string(state.Outputs["a"].Value)).To(Equal(`"in the state"`))

			// Destroying the same workspace needs no init either.
			session, err = Prepare(context.Background(), w, request)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(session.InitRan).To(BeFalse())
			plan, err := session.Plan(context.Background(), PlanOptions{Out: w.PlanFile(), Destroy: true})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(plan.Summary.Destroy).To(Equal(1))
			_, err = session.Apply(context.Background(), w.PlanFile(), nil)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(session.InitRan).To(BeFalse())
			lease, err := c.client.CoordinationV1().Leases(namespace).Get(context.Background(), request.Backend.LeaseName(), metav1.GetOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(*lease.Spec.HolderIdentity).To(Equal("other-holder"), "the tool does not change the lock")
		}
	})
}

func isOpenTofu(t *testing.T, tool *Tool) bool {
	version, err := tool.Version(context.Background())
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return version.Product == OpenTofu
}

func testFirstUse(t *testing.T, c *cluster) {
	eachTool(t, func(t *testing.T, tool *Tool) {
		g := NewWithT(t)
		ctx := context.Background()
		request := kubernetesRequest("use"+filepath.Base(tool.Path), `resource "terraform_data" "a" {}`)
		w, _ := workdir(t, tool)
		w.Kubeconfig = c.admin
		c.lock(t, request.Backend, "other-holder")
		session, err := Prepare(ctx, w, request)
		g.Expect(err).NotTo(HaveOccurred())
		_, err = session.Plan(ctx, PlanOptions{})
		failure := AsFailure(err)
		g.Expect(failure).NotTo(BeNil())
		g.Expect(failure.Class).To(Equal(terraform.ClassLockHeld))
		g.Expect(failure.Lock.ID).To(Equal("other-holder"))

		// Without a holder, the tool writes an empty state and releases the lock.
		g.Expect(c.client.CoordinationV1().Leases(namespace).Delete(ctx, request.Backend.LeaseName(), metav1.DeleteOptions{})).To(Succeed())
		_, err = session.Plan(ctx, PlanOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		data, secret := c.state(t, request.Backend)
		state, err := ParseState(data)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(state.Lineage).NotTo(BeEmpty())
		g.Expect(secret.Labels).To(Equal(request.Backend.StateLabels()))
		g.Expect(secret.Annotations).To(HaveKeyWithValue("encoding", "gzip"))
		lease, err := c.client.CoordinationV1().Leases(namespace).Get(ctx, request.Backend.LeaseName(), metav1.GetOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(lease.Spec.HolderIdentity).To(BeNil())
		g.Expect(lease.Labels).To(Equal(request.Backend.StateLabels()))
		g.Expect(lease.Annotations).NotTo(HaveKey("app.terraform.io/lock-info"))

		// With Lock set, the tool respects the lock and can break it.
		g.Expect(c.client.CoordinationV1().Leases(namespace).Delete(ctx, request.Backend.LeaseName(), metav1.DeleteOptions{})).To(Succeed())
		c.lock(t, request.Backend, "other-holder")
		w.Lock = true
		session, err = Prepare(ctx, w, request)
		g.Expect(err).NotTo(HaveOccurred())
		_, err = session.Plan(ctx, PlanOptions{})
		g.Expect(AsFailure(err).Class).To(Equal(terraform.ClassLockHeld))
		g.Expect(session.ForceUnlock(ctx, "not-the-holder")).NotTo(Succeed())
		g.Expect(session.ForceUnlock(ctx, "other-holder")).To(Succeed())
		_, err = session.Plan(ctx, PlanOptions{})
		g.Expect(err).NotTo(HaveOccurred())
	})
}

func testFallback(t *testing.T, c *cluster) {
	eachTool(t, func(t *testing.T, tool *Tool) {
		g := NewWithT(t)
		ctx := context.Background()
		request := kubernetesRequest("fallback"+filepath.Base(tool.Path), `resource "terraform_data" "a" {}`)
		w, log := workdir(t, tool)
		w.Kubeconfig = c.admin
		session, err := Prepare(ctx, w, request)
		g.Expect(err).NotTo(HaveOccurred())
		session.InitRan = false
		record := `{"version":3,"backend":{"type":"kubernetes","config":{"secret_suffix":"other"},"hash":1}}`
		g.Expect(writeFile(filepath.Join(session.Root, backendRecord), []byte(record))).To(Succeed())
		_, err = session.Plan(ctx, PlanOptions{Out: w.PlanFile()})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(session.InitRan).To(BeTrue())
		g.Expect(session.InitReason).To(Equal("the backend configuration changed"))
		g.Expect(log.String()).To(ContainSubstring("is outdated, initialising it"))
		_, err = session.Apply(ctx, w.PlanFile(), nil)
		g.Expect(err).NotTo(HaveOccurred())
		data, _ := c.state(t, request.Backend)
		g.Expect(string(data)).To(ContainSubstring("terraform_data"))
		_, err = c.client.CoreV1().Secrets(namespace).Get(ctx, "tfstate-default-other", metav1.GetOptions{})
		g.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "the state is not in another Secret")
	})
}

const encryption = `
key_provider "pbkdf2" "p" {
  passphrase = "a passphrase of sixteen"
  iterations = 200000
}
method "aes_gcm" "m" {
  keys = key_provider.pbkdf2.p
}
state {
  method   = method.aes_gcm.m
  enforced = true
}
plan {
  method   = method.aes_gcm.m
  enforced = true
}
`

func testEncrypted(t *testing.T, c *cluster) {
	for name, inModule := range map[string]bool{"environment": false, "module": true} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			ctx := context.Background()
			request := kubernetesRequest("encrypted"+name, `output "a" {
  value     = "a secret value"
  sensitive = true
}`)
			if inModule {
				request.Module.Content += "\nterraform {\n  encryption {\n" + encryption + "\n  }\n}\n"
			} else {
				request.Encryption = encryption
			}
			w, _ := workdir(t, tofu(t))
			w.Kubeconfig = c.userFor(t, request.Backend)
			session, err := Prepare(ctx, w, request)
			g.Expect(err).NotTo(HaveOccurred())
			initial, err := session.InitialState(ctx)
			g.Expect(err).NotTo(HaveOccurred())
			_, err = ParseState(initial)
			g.Expect(err).To(MatchError(ErrEncrypted))
			c.createState(t, request.Backend, initial)
			c.lock(t, request.Backend, "the-engine")

			_, err = session.Plan(ctx, PlanOptions{Out: w.PlanFile()})
			g.Expect(err).NotTo(HaveOccurred())
			_, err = session.Apply(ctx, w.PlanFile(), nil)
			g.Expect(err).NotTo(HaveOccurred())
			stored, _ := c.state(t, request.Backend)
			g.Expect(string(stored)).NotTo(ContainSubstring("a secret value"))
			pulled, err := session.StatePull(ctx)
			g.Expect(err).NotTo(HaveOccurred())
			state, err := ParseState(pulled)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(string(state.Outputs["a"].Value)).To(Equal(`"a secret value"`))
		})
	}
}

func testRescue(t *testing.T, c *cluster) {
	g := NewWithT(t)
	ctx := context.Background()
	request := kubernetesRequest("rescue", `resource "terraform_data" "a" { input = 1 }`)
	w, _ := workdir(t, tofu(t))
	w.Kubeconfig = c.userFor(t, request.Backend)
	c.createState(t, request.Backend, EmptyState(uuid.NewString()))
	session, err := Prepare(ctx, w, request)
	g.Expect(err).NotTo(HaveOccurred())
	_, err = session.Plan(ctx, PlanOptions{Out: w.PlanFile()})
	g.Expect(err).NotTo(HaveOccurred())
	none, err := RescuedState(w.Dir)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(none).To(BeEmpty())

	// The apply cannot save the state, because it is read-only now.
	role, err := c.client.RbacV1().Roles(namespace).Get(ctx, "user-rescue", metav1.GetOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	role.Rules[0].Verbs = []string{"get"}
	role, err = c.client.RbacV1().Roles(namespace).Update(ctx, role, metav1.UpdateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	_, err = session.Apply(ctx, w.PlanFile(), nil)
	g.Expect(AsFailure(err)).NotTo(BeNil())
	g.Expect(AsFailure(err).Class).To(Equal(terraform.ClassTerminal))

	// The next run finds the state and pushes it, even with another module.
	role.Rules[0].Verbs = []string{"get", "update"}
	_, err = c.client.RbacV1().Roles(namespace).Update(ctx, role, metav1.UpdateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	request.Module.Content += "\noutput \"b\" { value = 1 }\n"
	session, err = Prepare(ctx, w, request)
	g.Expect(err).NotTo(HaveOccurred())
	rescued, err := RescuedState(w.Dir)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(rescued).To(HaveLen(1))
	g.Expect(session.PushRescued(ctx, rescued[0])).To(Succeed())
	data, _ := c.state(t, request.Backend)
	state, err := ParseState(data)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(state.Addresses).To(ConsistOf("terraform_data.a"))
	none, err = RescuedState(w.Dir)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(none).To(BeEmpty())
}

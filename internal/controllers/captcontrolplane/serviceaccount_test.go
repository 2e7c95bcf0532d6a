package captcontrolplane

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiversion "k8s.io/apimachinery/pkg/version"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/workload"
	"github.com/appthrust/capt/internal/kubernetes/scheme"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// bootstrapKubeconfig is the kubeconfig in the output.
const bootstrapKubeconfig = `
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:6443"}}]
users: [{name: u, user: {token: bootstrap}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
`

// tokens is a workload cluster that issues tokens. It accepts some of them.
type tokens struct {
	now      time.Time
	accepted map[string]bool
	issued   int
	// used are the tokens that were used, in order.
	used []string
	down bool
}

func tokenOf(kubeconfig []byte) string {
	_, rest, _ := strings.Cut(string(kubeconfig), "token: ")
	return strings.TrimRight(strings.Fields(rest)[0], "}]")
}

func (w *tokens) check(kubeconfig []byte) error {
	w.used = append(w.used, tokenOf(kubeconfig))
	switch {
	case w.down:
		return errors.New("connection refused")
	case !w.accepted[tokenOf(kubeconfig)]:
		return apierrors.NewUnauthorized("expired")
	default:
		return nil
	}
}

func (w *tokens) Version(_ context.Context, kubeconfig []byte) (*apiversion.Info, error) {
	if err := w.check(kubeconfig); err != nil {
		return nil, workload.ShortError(err)
	}
	return &apiversion.Info{GitVersion: "v1.33.5"}, nil
}

func (w *tokens) Client(kubeconfig []byte) (client.Client, error) {
	return fake.NewClientBuilder().WithScheme(scheme.New()).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
			return w.check(kubeconfig)
		},
		SubResourceCreate: func(_ context.Context, _ client.Client, _ string, _, request client.Object, _ ...client.SubResourceCreateOption) error {
			asked, ok := request.(*authenticationv1.TokenRequest)
			if !ok {
				return errors.New("not a TokenRequest")
			}
			w.issued++
			asked.Status.Token = fmt.Sprintf("token-%d", w.issued)
			asked.Status.ExpirationTimestamp = metav1.NewTime(w.now.Add(3 * time.Hour))
			w.accepted[asked.Status.Token] = true
			return nil
		},
	}).Build(), nil
}

// account is a control plane with this source, and its workload cluster.
type account struct {
	*WithT
	t         *testing.T
	r         *Reconciler
	cluster   *tokens
	available bool
}

func newAccount(t *testing.T) *account {
	t.Helper()
	apply := newWorkspace(nil)
	connection := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "production-eks-connection", OwnerReferences: []metav1.OwnerReference{
			*metav1.NewControllerRef(apply, infrav1.GroupVersion.WithKind("WorkspaceTemplateApply")),
		}},
		Data: map[string][]byte{"kubeconfig": []byte(bootstrapKubeconfig)},
	}
	a := &account{WithT: NewWithT(t), t: t, r: reconciler(t, connection), cluster: &tokens{now: noon, accepted: map[string]bool{"bootstrap": true}}, available: true}
	a.r.Workload = a.cluster
	return a
}

// at reconciles the kubeconfig after a time.
func (a *account) at(after time.Duration) (*scope, error) {
	a.t.Helper()
	s := newScope(func(c *controlplanev1.CAPTControlPlane) {
		c.Spec.Kubeconfig = &controlplanev1.KubeconfigConfig{Source: controlplanev1.KubeconfigSourceServiceAccount}
		if a.available {
			c.Status.Conditions = []metav1.Condition{{Type: controlplanev1.AvailableCondition, Status: metav1.ConditionTrue}}
		}
	})
	s.apply = newWorkspace(map[string]string{"cluster_endpoint": `"a"`})
	s.now = noon.Add(after)
	a.cluster.now, a.cluster.used = s.now, nil
	return s, a.r.kubeconfig(a.t.Context(), s)
}

// token returns the token in the Secret of Cluster API.
func (a *account) token() string {
	a.t.Helper()
	found := &corev1.Secret{}
	a.Expect(a.r.Client.Get(a.t.Context(), client.ObjectKey{Namespace: "team", Name: "production-kubeconfig"}, found)).To(Succeed())
	a.Expect(found.Type).To(Equal(clusterv1.ClusterSecretType))
	a.Expect(found.Labels).To(HaveKeyWithValue(clusterv1.ClusterNameLabel, "production"))
	return tokenOf(found.Data[secret.KubeconfigDataName])
}

func TestServiceAccountKubeconfig_isRenewedWithoutTheOutput(t *testing.T) {
	a := newAccount(t)
	s, err := a.at(0)
	a.Expect(err).NotTo(HaveOccurred())
	a.Expect(a.token()).To(Equal("token-1"))
	a.Expect(s.controlPlane.Status.Kubeconfig.ExpiresAt.Time).To(BeTemporally("==", noon.Add(3*time.Hour)))
	a.Expect(renewsIn(s)).To(Equal(time.Hour), "long before it expires")

	_, err = a.at(30 * time.Minute)
	a.Expect(err).NotTo(HaveOccurred())
	a.Expect(a.cluster.used).To(BeEmpty(), "nothing is asked meanwhile")

	a.cluster.accepted["bootstrap"] = false
	for i := 1; i < 50; i++ {
		_, err = a.at(time.Duration(i) * time.Hour)
		a.Expect(err).NotTo(HaveOccurred())
		a.Expect(a.token()).To(Equal(fmt.Sprintf("token-%d", i+1)))
		a.Expect(a.cluster.used).NotTo(ContainElement("bootstrap"))
	}
}

func TestServiceAccountKubeconfig_isCreatedAgainWithTheOutput(t *testing.T) {
	a := newAccount(t)
	_, err := a.at(0)
	a.Expect(err).NotTo(HaveOccurred())

	// Someone deletes the ServiceAccount.
	a.cluster.accepted["token-1"], a.available = false, false
	_, err = a.at(time.Minute)
	a.Expect(err).NotTo(HaveOccurred())
	a.Expect(a.token()).To(Equal("token-2"))

	// The manager did not run while the token expired.
	a.cluster.accepted["token-2"] = false
	_, err = a.at(24 * time.Hour)
	a.Expect(err).NotTo(HaveOccurred())
	a.Expect(a.token()).To(Equal("token-3"))
}

func TestServiceAccountKubeconfig_namesWhatToDoWithoutCredentials(t *testing.T) {
	a := newAccount(t)
	_, err := a.at(0)
	a.Expect(err).NotTo(HaveOccurred())
	a.cluster.accepted, a.available = map[string]bool{}, false
	s, err := a.at(time.Minute)
	waiting, ok := fault.AsWaiting(err)
	a.Expect(ok).To(BeTrue(), "%v", err)
	a.Expect(waiting.Reason).To(Equal(controlplanev1.BootstrapRejectedReason))
	a.Expect(waiting.Message()).To(And(ContainSubstring("captctl reconcile production"), ContainSubstring("output kubeconfig")))
	a.Expect(tokenOf(s.kubeconfig)).To(Equal("token-1"), "the existing one remains")

	// Another run of the module writes a new credential.
	a.cluster.accepted["bootstrap"] = true
	_, err = a.at(2 * time.Minute)
	a.Expect(err).NotTo(HaveOccurred())
	a.Expect(a.token()).To(Equal("token-2"))
}

func TestServiceAccountKubeconfig_waitsForTheAPIServer(t *testing.T) {
	a := newAccount(t)
	a.cluster.down = true
	_, err := a.at(0)
	a.Expect(result(err)).To(Equal("wait " + controlplanev1.APIServerUnreachableReason))
}

// A token is not sent to another API server than the one that issued it.
func TestServiceAccountKubeconfig_followsTheAddressInTheOutput(t *testing.T) {
	a := newAccount(t)
	_, err := a.at(0)
	a.Expect(err).NotTo(HaveOccurred())
	connection := &corev1.Secret{}
	a.Expect(a.r.Client.Get(t.Context(), client.ObjectKey{Namespace: "team", Name: "production-eks-connection"}, connection)).To(Succeed())
	connection.Data["kubeconfig"] = []byte(strings.Replace(bootstrapKubeconfig, "127.0.0.1", "127.0.0.2", 1))
	a.Expect(a.r.Client.Update(t.Context(), connection)).To(Succeed())
	s, err := a.at(time.Minute)
	a.Expect(err).NotTo(HaveOccurred())
	a.Expect(a.cluster.used).To(HaveEach("bootstrap"))
	a.Expect(string(s.kubeconfig)).To(ContainSubstring("127.0.0.2"))
	a.Expect(a.token()).To(Equal("token-2"))
}

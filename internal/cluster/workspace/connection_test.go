package workspace

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/kubernetes/scheme"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

func TestConnection_readsOnlyTheSecretOfTheWorkspace(t *testing.T) {
	apply := &infrav1.WorkspaceTemplateApply{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "production", UID: "1"},
		Status:     infrav1.WorkspaceTemplateApplyStatus{ConnectionSecretName: "outputs"},
	}
	secret := func(owner types.UID) *corev1.Secret {
		s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "outputs"}, Data: map[string][]byte{"endpoint": []byte("x")}}
		if owner != "" {
			s.OwnerReferences = []metav1.OwnerReference{{APIVersion: infrav1.GroupVersion.String(), Kind: "WorkspaceTemplateApply", Name: "production", UID: owner, Controller: new(true)}}
		}
		return s
	}
	for name, test := range map[string]struct {
		objects []client.Object
		want    string
	}{
		"its own":      {[]client.Object{secret("1")}, ""},
		"missing":      {nil, "Secret outputs does not exist yet"},
		"of a user":    {[]client.Object{secret("")}, "Secret outputs does not belong to WorkspaceTemplateApply production"},
		"of a sibling": {[]client.Object{secret("2")}, "Secret outputs does not belong to WorkspaceTemplateApply production"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			data, err := keeper(test.objects...).Connection(t.Context(), apply, "Waiting")
			if test.want == "" {
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(data).To(HaveKey("endpoint"))
				return
			}
			g.Expect(data).To(BeNil())
			g.Expect(err).To(MatchError(ContainSubstring(test.want)))
			g.Expect(fault.Is(err)).To(BeTrue())
		})
	}
	g := NewWithT(t)
	g.Expect(keeper().Connection(t.Context(), &infrav1.WorkspaceTemplateApply{}, "Waiting")).To(BeNil())
}

// A user who can create workspaces can name any owner in them.
func TestFind_ignoresAForeignWorkspace(t *testing.T) {
	mine := owner("1")
	mine.Labels = map[string]string{clusterv1.ClusterNameLabel: "production"}
	workspace := func(name string, age time.Duration) *infrav1.WorkspaceTemplateApply {
		return &infrav1.WorkspaceTemplateApply{ObjectMeta: metav1.ObjectMeta{
			Namespace: "team", Name: name, CreationTimestamp: metav1.NewTime(time.Unix(1e9, 0).Add(-age)),
			OwnerReferences: []metav1.OwnerReference{{APIVersion: infrav1.GroupVersion.String(), Kind: "CAPTCluster", Name: "production", UID: "1", Controller: new(true)}},
		}}
	}
	for name, test := range map[string]struct {
		workspaces []client.Object
		want       string
	}{
		"a younger one":        {[]client.Object{workspace("production-vpc", time.Hour), workspace("a-evil", 0)}, "production-vpc"},
		"an older one":         {[]client.Object{workspace("production-vpc", 0), workspace("a-evil", time.Hour)}, "production-vpc"},
		"a name that is taken": {[]client.Object{workspace("production-vpc-6b86b273", 0), workspace("a-evil", time.Hour)}, "production-vpc-6b86b273"},
		"the same age":         {[]client.Object{workspace("production-vpc", 0), workspace("production", 0)}, "production"},
		"only one":             {[]client.Object{workspace("other", 0)}, "other"},
	} {
		t.Run(name, func(t *testing.T) {
			c := fake.NewClientBuilder().WithScheme(scheme.New()).WithObjects(test.workspaces...).
				WithIndex(&infrav1.WorkspaceTemplateApply{}, ownerIndex, func(obj client.Object) []string {
					return []string{string(metav1.GetControllerOf(obj).UID)}
				}).Build()
			found, err := (&Keeper{Client: c}).Find(t.Context(), mine)
			NewWithT(t).Expect(err).NotTo(HaveOccurred())
			NewWithT(t).Expect(found.Name).To(Equal(test.want))
		})
	}
}

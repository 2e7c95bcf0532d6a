package grant_test

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/grant"
	"github.com/appthrust/capt/internal/kubernetes/scheme"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

func namespace(name, team string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"team": team}}}
}

func granted(name string, from infrav1.ReferenceGrantFrom, to ...infrav1.ReferenceGrantTo) *infrav1.CAPTReferenceGrant {
	return &infrav1.CAPTReferenceGrant{
		ObjectMeta: metav1.ObjectMeta{Namespace: "platform", Name: name},
		Spec:       infrav1.CAPTReferenceGrantSpec{From: []infrav1.ReferenceGrantFrom{from}, To: to},
	}
}

func TestCheck_deniesReferencesWithoutAGrant(t *testing.T) {
	names := func(names ...string) infrav1.ReferenceGrantFrom { return infrav1.ReferenceGrantFrom{Namespaces: names} }
	team := func(team string) infrav1.ReferenceGrantFrom {
		return infrav1.ReferenceGrantFrom{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": team}}}
	}
	all := infrav1.ReferenceGrantTo{Kind: infrav1.GrantedWorkspaceTemplate}
	one := infrav1.ReferenceGrantTo{Kind: infrav1.GrantedWorkspaceTemplate, Name: "vpc"}
	tests := []struct {
		name   string
		from   string
		grants []client.Object
		want   bool
	}{
		{"within a namespace", "platform", nil, true},
		{"without a grant", "team-a", nil, false},
		{"by name", "team-a", []client.Object{granted("g", names("x", "team-a"), all)}, true},
		{"to another namespace", "team-a", []client.Object{granted("g", names("team-b"), all)}, false},
		{"by labels", "team-a", []client.Object{granted("g", team("a"), all)}, true},
		{"other labels", "team-a", []client.Object{granted("g", team("b"), all)}, false},
		{"a namespace that does not exist", "nowhere", []client.Object{granted("g", team("a"), all)}, false},
		{"an invalid selector", "team-a", []client.Object{granted("g", infrav1.ReferenceGrantFrom{NamespaceSelector: &metav1.LabelSelector{
			MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Nonsense"}},
		}}, all)}, false},
		{"one object", "team-a", []client.Object{granted("g", names("team-a"), one)}, true},
		{"another object", "team-a", []client.Object{granted("g", names("team-a"), infrav1.ReferenceGrantTo{Kind: one.Kind, Name: "eks"})}, false},
		{"another kind", "team-a", []client.Object{granted("g", names("team-a"), infrav1.ReferenceGrantTo{Kind: infrav1.GrantedWorkspaceProviderConfig})}, false},
		{"the second grant", "team-a", []client.Object{granted("f", names("team-b"), all), granted("g", names("team-a"), one)}, true},
		{"a grant of another namespace", "team-a", []client.Object{&infrav1.CAPTReferenceGrant{
			ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "mine"},
			Spec:       infrav1.CAPTReferenceGrantSpec{From: []infrav1.ReferenceGrantFrom{names("team-a")}, To: []infrav1.ReferenceGrantTo{all}},
		}}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			c := fake.NewClientBuilder().WithScheme(scheme.New()).WithObjects(append(tt.grants, namespace("team-a", "a"), namespace("team-b", "b"))...).Build()
			checker := &grant.Checker{Client: c, Live: c}
			key := client.ObjectKey{Namespace: "platform", Name: "vpc"}

			err := checker.Check(t.Context(), tt.from, infrav1.GrantedWorkspaceTemplate, key)
			if tt.want {
				g.Expect(err).NotTo(HaveOccurred())
			} else {
				g.Expect(fault.Is(err)).To(BeTrue(), "%v", err)
				g.Expect(err).To(MatchError(ContainSubstring("WorkspaceTemplate platform/vpc is in another namespace and not granted to namespace " + tt.from)))
			}

			checker.Denied = true
			err = checker.Check(t.Context(), tt.from, infrav1.GrantedWorkspaceTemplate, key)
			g.Expect(err == nil).To(Equal(tt.from == "platform"), "with --no-cross-namespace-refs")
		})
	}
}

package doctor

import (
	"testing"

	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/appthrust/capt/config/policy"
)

type (
	admissionPolicy  = admissionregistrationv1.ValidatingAdmissionPolicy
	admissionBinding = admissionregistrationv1.ValidatingAdmissionPolicyBinding
)

func TestAdmission_reportsWhatIsNotEnforced(t *testing.T) {
	shipped, err := policy.Policies()
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	NewWithT(t).Expect(shipped).To(ContainElements(HaveField("Name", "capt-approval"), HaveField("Name", "capt-reserved-secrets"), HaveField("Name", "capt-lending")))
	const other = "warn: is not the one of this captctl: it may allow what docs/security.md says is refused"
	const lending = "capt-lending"
	warn := []admissionregistrationv1.ValidationAction{admissionregistrationv1.Warn, admissionregistrationv1.Audit}
	for name, tc := range map[string]struct {
		// change changes a policy and its binding, or leaves one of them out.
		change func(p *admissionPolicy, b *admissionBinding) (hasPolicy, hasBinding bool)
		want   []string
		object string
	}{
		"as shipped": {
			func(*admissionPolicy, *admissionBinding) (bool, bool) { return true, true },
			[]string{"ok: all admission policies are enforced"},
			"",
		},
		"none": {
			func(*admissionPolicy, *admissionBinding) (bool, bool) { return false, false },
			[]string{"warn: there are no admission policies of CAPT: no Secret is reserved, and every editor approves"},
			"",
		},
		"policy is missing": {
			func(p *admissionPolicy, _ *admissionBinding) (bool, bool) { return p.Name != lending, true },
			[]string{"fail: does not exist: nothing enforces its rules"},
			"ValidatingAdmissionPolicy " + lending,
		},
		"binding is missing": {
			func(p *admissionPolicy, _ *admissionBinding) (bool, bool) { return true, p.Name != lending },
			[]string{"fail: has no binding: nothing enforces its rules"},
			"ValidatingAdmissionPolicy " + lending,
		},
		"binding of another policy": {
			func(p *admissionPolicy, b *admissionBinding) (bool, bool) {
				if p.Name == lending {
					b.Spec.PolicyName = "mine"
				}
				return true, true
			},
			[]string{"fail: has no binding: nothing enforces its rules"},
			"ValidatingAdmissionPolicy " + lending,
		},
		"only warns": {
			func(p *admissionPolicy, b *admissionBinding) (bool, bool) {
				if p.Name == lending {
					b.Spec.ValidationActions = warn
				}
				return true, true
			},
			[]string{"fail: validationActions are [Warn Audit]: what violates capt-lending is not refused"},
			"ValidatingAdmissionPolicyBinding " + lending,
		},
		"approval only warns": {
			func(p *admissionPolicy, b *admissionBinding) (bool, bool) {
				if p.Name == "capt-approval" {
					b.Spec.ValidationActions = warn
				}
				return true, true
			},
			[]string{"warn: validationActions are [Warn Audit]: what violates capt-approval is not refused"},
			"ValidatingAdmissionPolicyBinding capt-approval",
		},
		"exempts a namespace": {
			func(p *admissionPolicy, b *admissionBinding) (bool, bool) {
				if p.Name == lending {
					b.Spec.MatchResources = &admissionregistrationv1.MatchResources{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}}
				}
				return true, true
			},
			[]string{"fail: matchResources exempts some objects from capt-lending"},
			"ValidatingAdmissionPolicyBinding " + lending,
		},
		"with the defaults of the API server": {
			func(p *admissionPolicy, _ *admissionBinding) (bool, bool) {
				m := p.Spec.MatchConstraints
				m.MatchPolicy = new(admissionregistrationv1.Equivalent)
				m.NamespaceSelector, m.ObjectSelector = &metav1.LabelSelector{}, &metav1.LabelSelector{}
				for i := range m.ResourceRules {
					m.ResourceRules[i].Scope = new(admissionregistrationv1.AllScopes)
				}
				return true, true
			},
			[]string{"ok: all admission policies are enforced"},
			"",
		},
		"has a rule less": {
			func(p *admissionPolicy, _ *admissionBinding) (bool, bool) {
				if p.Name == lending {
					p.Spec.Validations = p.Spec.Validations[1:]
				}
				return true, true
			},
			[]string{other},
			"ValidatingAdmissionPolicy " + lending,
		},
		"is for other objects only": {
			func(p *admissionPolicy, _ *admissionBinding) (bool, bool) {
				if p.Name == lending {
					p.Spec.MatchConstraints.ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
				}
				return true, true
			},
			[]string{other},
			"ValidatingAdmissionPolicy " + lending,
		},
		"ignores failures": {
			func(p *admissionPolicy, _ *admissionBinding) (bool, bool) {
				if p.Name == lending {
					p.Spec.FailurePolicy = new(admissionregistrationv1.Ignore)
				}
				return true, true
			},
			[]string{"fail: failurePolicy is Ignore: a rule that cannot be evaluated allows the request"},
			"ValidatingAdmissionPolicy " + lending,
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			var objects []client.Object
			for _, p := range shipped {
				p := p.DeepCopy()
				b := &admissionBinding{ObjectMeta: metav1.ObjectMeta{Name: p.Name}}
				b.Spec.PolicyName, b.Spec.ValidationActions = p.Name, []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny}
				hasPolicy, hasBinding := tc.change(p, b)
				if hasPolicy {
					objects = append(objects, p)
				}
				if hasBinding {
					objects = append(objects, b)
				}
			}
			d := &Doctor{Client: fake.NewClientBuilder().WithScheme(Scheme()).WithObjects(objects...).Build()}
			results, err := d.admission(t.Context())
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(messages(results)).To(Equal(tc.want))
			g.Expect(results[0].Object).To(Equal(tc.object))
			if results[0].Status != OK {
				g.Expect(results[0].Fix).NotTo(BeEmpty())
			}
		})
	}
}

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
	names, err := policy.Names()
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	NewWithT(t).Expect(names).To(ContainElements("capt-approval", "capt-reserved-secrets", "capt-lending"))
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
		"ignores failures, as shipped": {
			func(p *admissionPolicy, _ *admissionBinding) (bool, bool) {
				if p.Name == "capt-namespaces" {
					p.Spec.FailurePolicy = new(admissionregistrationv1.Ignore)
				}
				return true, true
			},
			[]string{"ok: all admission policies are enforced"},
			"",
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
			for _, name := range names {
				p := &admissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}}
				p.Spec.FailurePolicy = new(admissionregistrationv1.Fail)
				b := &admissionBinding{ObjectMeta: metav1.ObjectMeta{Name: name}}
				b.Spec.PolicyName, b.Spec.ValidationActions = name, []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny}
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

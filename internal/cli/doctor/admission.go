package doctor

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/appthrust/capt/config/policy"
)

// approvalPolicy is the policy that an administrator may let warn only.
const approvalPolicy = "capt-approval"

// namespacesPolicy is the policy that ignores its failures: CRDs that are missing must not keep the
// namespaces of others, and finalizers keep the states.
const namespacesPolicy = "capt-namespaces"

// admission reports admission policies of CAPT that are missing, or do not refuse what
// violates them.
func (d *Doctor) admission(ctx context.Context) ([]Result, error) {
	shipped, err := policy.Policies()
	if err != nil {
		return nil, err
	}
	var policies admissionregistrationv1.ValidatingAdmissionPolicyList
	if err := d.Client.List(ctx, &policies); err != nil {
		return nil, fmt.Errorf("listing ValidatingAdmissionPolicies: %w", err)
	}
	var bindings admissionregistrationv1.ValidatingAdmissionPolicyBindingList
	if err := d.Client.List(ctx, &bindings); err != nil {
		return nil, fmt.Errorf("listing ValidatingAdmissionPolicyBindings: %w", err)
	}
	var problems []Result
	missing := 0
	for _, want := range shipped {
		name := want.Name
		i := slices.IndexFunc(policies.Items, func(p admissionregistrationv1.ValidatingAdmissionPolicy) bool { return p.Name == name })
		if i < 0 {
			missing++
			problems = append(problems, Result{Status: Fail, Object: "ValidatingAdmissionPolicy " + name, Message: "does not exist: nothing enforces its rules", Fix: reinstall})
			continue
		}
		if name != namespacesPolicy && ptr.Deref(policies.Items[i].Spec.FailurePolicy, admissionregistrationv1.Fail) != admissionregistrationv1.Fail {
			problems = append(problems, Result{
				Status: Fail, Object: "ValidatingAdmissionPolicy " + name, Message: "failurePolicy is Ignore: a rule that cannot be evaluated allows the request",
				Fix: "kubectl patch validatingadmissionpolicy " + name + ` --type=merge -p '{"spec":{"failurePolicy":"Fail"}}'`,
			})
		}
		if !enforcesTheSame(&want.Spec, &policies.Items[i].Spec) {
			problems = append(problems, Result{
				Status: Warn, Object: "ValidatingAdmissionPolicy " + name, Message: "is not the one of this captctl: it may allow what docs/security.md says is refused", Fix: reinstall,
			})
		}
		if problem := bindingProblem(name, bindings.Items); problem != nil {
			problems = append(problems, *problem)
		}
	}
	if missing == len(shipped) {
		return []Result{{Status: Warn, Message: "there are no admission policies of CAPT: no Secret is reserved, and every editor approves", Fix: reinstall}}, nil
	}
	return orOK(problems, "all admission policies are enforced"), nil
}

// enforcesTheSame reports whether two policies differ in nothing but what follows a failure.
func enforcesTheSame(a, b *admissionregistrationv1.ValidatingAdmissionPolicySpec) bool {
	withDefaults := func(spec *admissionregistrationv1.ValidatingAdmissionPolicySpec) *admissionregistrationv1.ValidatingAdmissionPolicySpec {
		spec = spec.DeepCopy()
		spec.FailurePolicy = nil
		// The API server sets these defaults.
		if m := spec.MatchConstraints; m != nil {
			m.MatchPolicy = new(ptr.Deref(m.MatchPolicy, admissionregistrationv1.Equivalent))
			m.NamespaceSelector, m.ObjectSelector = cmp.Or(m.NamespaceSelector, &metav1.LabelSelector{}), cmp.Or(m.ObjectSelector, &metav1.LabelSelector{})
			for i := range m.ResourceRules {
				m.ResourceRules[i].Scope = new(ptr.Deref(m.ResourceRules[i].Scope, admissionregistrationv1.AllScopes))
			}
		}
		return spec
	}
	return equality.Semantic.DeepEqual(withDefaults(a), withDefaults(b))
}

// reinstall restores what an administrator, or an incomplete installation, has left out.
const reinstall = "set policies.enabled=true of the chart, or apply the manifests of this version again; see docs/security.md"

// bindingProblem returns the problem if no binding of a policy refuses all that violates it.
func bindingProblem(name string, bindings []admissionregistrationv1.ValidatingAdmissionPolicyBinding) *Result {
	var own []admissionregistrationv1.ValidatingAdmissionPolicyBinding
	for _, b := range bindings {
		if b.Spec.PolicyName != name {
			continue
		}
		if slices.Contains(b.Spec.ValidationActions, admissionregistrationv1.Deny) && b.Spec.MatchResources == nil {
			return nil
		}
		own = append(own, b)
	}
	if len(own) == 0 {
		return &Result{Status: Fail, Object: "ValidatingAdmissionPolicy " + name, Message: "has no binding: nothing enforces its rules", Fix: reinstall}
	}
	b := own[0]
	result := &Result{
		Status: Fail, Object: "ValidatingAdmissionPolicyBinding " + b.Name,
		Message: fmt.Sprintf("validationActions are %v: what violates %s is not refused", b.Spec.ValidationActions, name),
		Fix:     "kubectl patch validatingadmissionpolicybinding " + b.Name + ` --type=merge -p '{"spec":{"validationActions":["Deny"],"matchResources":null}}'`,
	}
	if b.Spec.MatchResources != nil {
		result.Message = "matchResources exempts some objects from " + name
	} else if name == approvalPolicy {
		result.Status, result.Fix = Warn, "set approval.enforce=true of the chart, unless one person decides; see docs/security.md"
	}
	return result
}

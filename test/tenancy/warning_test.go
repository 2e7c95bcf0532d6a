package tenancy

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// warnings collects the warnings of the API server.
type warnings struct {
	mu    sync.Mutex
	texts []string
}

// wrap returns a transport that collects the warnings of the responses.
func (w *warnings) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		response, err := next.RoundTrip(request)
		if err == nil {
			w.mu.Lock()
			w.texts = append(w.texts, response.Header.Values("Warning")...)
			w.mu.Unlock()
		}
		return response, err
	})
}

func (w *warnings) all() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.texts)
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

// enforce sets what the binding capt-approval does.
func enforce(ctx context.Context, actions ...admissionv1.ValidationAction) error {
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{}
	if err := env.Client.Get(ctx, client.ObjectKey{Name: "capt-approval"}, binding); err != nil {
		return err
	}
	binding.Spec.ValidationActions = actions
	return env.Client.Update(ctx, binding)
}

// The binding that is shipped refuses. With the documented patch of it, an approval without
// the permission is a warning and nothing else.
func TestApproval_onlyWarnsIfAsked(t *testing.T) {
	g := NewWithT(t)
	ns := env.Namespace(t)
	apply := workspace(t, editor(t, ns), ns, "a", nil)
	config := rest.CopyConfig(env.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: "editor", Groups: []string{"system:authenticated"}}
	config.WarningHandler = rest.NoWarnings{}
	seen := &warnings{}
	config.Wrap(seen.wrap)
	warned, err := client.New(config, client.Options{Scheme: env.Scheme})
	g.Expect(err).NotTo(HaveOccurred())
	setPlan := func(plan string) error {
		return patched(warned, apply, func(a *infrav1.WorkspaceTemplateApply) { a.Spec.ApprovedPlan = plan })
	}
	refused(t, "approving as it is shipped", setPlan(plan))
	own := func() error {
		_, err := approve(t, warned, ns, func(a *infrav1.WorkspaceApproval) { a.Spec.Plan = anotherPlan })
		return err
	}

	g.Expect(enforce(t.Context(), admissionv1.Warn, admissionv1.Audit)).To(Succeed())
	t.Cleanup(func() {
		NewWithT(t).Expect(enforce(context.Background(), admissionv1.Deny)).To(Succeed())
		changed := apply.DeepCopy()
		changed.Spec.ApprovedPlan = anotherPlan
		isRefused := func() bool {
			return apierrors.IsForbidden(warned.Patch(context.Background(), changed.DeepCopy(), client.MergeFrom(apply), client.DryRunAll))
		}
		NewWithT(t).Eventually(isRefused, testTimeout, 100*time.Millisecond).Should(BeTrue(), "other tests need the enforcement")
	})
	g.Eventually(func() error { return setPlan(plan) }, testTimeout, 100*time.Millisecond).Should(Succeed(), "the binding is in force")
	g.Expect(seen.all()).To(ContainElement(ContainSubstring("the permission to create workspaceapprovals")))

	// RBAC still decides who creates a WorkspaceApproval.
	forbidden(t, "an editor", own())
	withRoles(t, ns, "editor", "capt-approver")
	allowed(t, "an approver", own)
	g.Expect(seen.all()).To(ContainElement(ContainSubstring("ask for the permission to approve-own workspaceapprovals")))
}

package webhooks

import (
	"context"
	"encoding/json"
	"testing"

	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

func TestDeleters_recordTheFirstUser(t *testing.T) {
	now := metav1.Now()
	resource := infrav1.GroupVersion.WithResource("workspacetemplateapplies").GroupResource()
	for name, tt := range map[string]struct {
		change  func(*infrav1.WorkspaceTemplateApply)
		stale   bool
		dryRun  bool
		fail    error
		allowed bool
		want    string
	}{
		"a deletion":                         {allowed: true, want: "ada"},
		"a dry run":                          {dryRun: true, allowed: true},
		"a deletion that was refused before": {change: func(a *infrav1.WorkspaceTemplateApply) { a.Status.DeletedBy = "bob" }, allowed: true, want: "ada"},
		"a second deletion":                  {change: func(a *infrav1.WorkspaceTemplateApply) { a.Status.DeletedBy, a.DeletionTimestamp = "bob", &now }, allowed: true, want: "bob"},
		"a second deletion that the API server's cache has not seen": {change: func(a *infrav1.WorkspaceTemplateApply) { a.Status.DeletedBy, a.DeletionTimestamp = "bob", &now }, stale: true, allowed: true, want: "bob"},
		"a workspace that is gone":                                   {fail: apierrors.NewNotFound(resource, "a"), allowed: true},
		"a namespace that the manager leaves out":                    {fail: apierrors.NewForbidden(resource, "a", nil), allowed: true},
		"an error": {fail: apierrors.NewInternalError(context.Canceled)},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			apply := &infrav1.WorkspaceTemplateApply{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "a", UID: "u", Finalizers: []string{"capt/test"}}}
			if tt.change != nil {
				tt.change(apply)
			}
			scheme := runtime.NewScheme()
			g.Expect(infrav1.AddToScheme(scheme)).To(Succeed())
			server := fake.NewClientBuilder().WithScheme(scheme).WithObjects(apply).WithStatusSubresource(apply).
				WithInterceptorFuncs(interceptor.Funcs{SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
					if tt.fail != nil {
						return tt.fail
					}
					return c.SubResource(sub).Patch(ctx, obj, patch, opts...)
				}}).Build()
			old := &infrav1.WorkspaceTemplateApply{}
			g.Expect(server.Get(t.Context(), client.ObjectKeyFromObject(apply), old)).To(Succeed())
			if tt.stale {
				old.ResourceVersion, old.Status.DeletedBy, old.DeletionTimestamp = "1", "", nil
			}
			raw, err := json.Marshal(old)
			g.Expect(err).NotTo(HaveOccurred())
			response := deleters{client: server}.Handle(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
				Operation: admissionv1.Delete, OldObject: runtime.RawExtension{Raw: raw}, DryRun: &tt.dryRun,
				UserInfo: authenticationv1.UserInfo{Username: "ada"},
			}})
			g.Expect(response.Allowed).To(Equal(tt.allowed), "%v", response.Result)
			g.Expect(server.Get(t.Context(), client.ObjectKeyFromObject(apply), apply)).To(Succeed())
			g.Expect(apply.Status.DeletedBy).To(Equal(tt.want))
		})
	}
}

package webhooks

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// defaulter fills in the defaults of a kind.
type defaulter[T client.Object] func(obj T)

// Default fills in the defaults of an object.
func (d defaulter[T]) Default(_ context.Context, obj T) error {
	d(obj)
	return nil
}

func fillIn[T client.Object](mgr ctrl.Manager, obj T, d defaulter[T]) error {
	gvk, err := apiutil.GVKForObject(obj, mgr.GetScheme())
	if err != nil {
		return fmt.Errorf("finding the kind of %T: %w", obj, err)
	}
	hook := admission.WithDefaulter(mgr.GetScheme(), admission.Defaulter[T](d))
	hook.Handler = leaveToSchema(hook.Handler)
	path := "/mutate-" + strings.ReplaceAll(gvk.Group, ".", "-") + "-" + gvk.Version + "-" + strings.ToLower(gvk.Kind)
	mgr.GetWebhookServer().Register(path, hook)
	return nil
}

// leaveToSchema lets objects through that do not decode. Defaults are filled in
// before the schema is checked, and only the schema's error names the field.
func leaveToSchema(next admission.Handler) admission.Handler {
	return admission.HandlerFunc(func(ctx context.Context, req admission.Request) admission.Response {
		resp := next.Handle(ctx, req)
		if !resp.Allowed && resp.Result != nil && resp.Result.Code == http.StatusBadRequest {
			return admission.Allowed("")
		}
		return resp
	})
}

package webhooks

import (
	"context"
	"net/http"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// defaulter sets the defaults of a kind.
type defaulter[T client.Object] func(obj T)

// Default sets the defaults of an object.
func (d defaulter[T]) Default(_ context.Context, obj T) error {
	d(obj)
	return nil
}

func registerDefaulter[T client.Object](in registry, obj T, d admission.Defaulter[T]) error {
	gvk, registered, err := in.kind(obj)
	if err != nil || !registered {
		return err
	}
	hook := admission.WithDefaulter(in.mgr.GetScheme(), d)
	hook.Handler = allowUndecodable(hook.Handler)
	path := "/mutate-" + strings.ReplaceAll(gvk.Group, ".", "-") + "-" + gvk.Version + "-" + strings.ToLower(gvk.Kind)
	in.mgr.GetWebhookServer().Register(path, hook)
	return nil
}

// allowUndecodable allows objects that do not decode. Defaults are set before the
// schema is validated, and only the error of the schema names the field.
func allowUndecodable(next admission.Handler) admission.Handler {
	return admission.HandlerFunc(func(ctx context.Context, req admission.Request) admission.Response {
		resp := next.Handle(ctx, req)
		if !resp.Allowed && resp.Result != nil && resp.Result.Code == http.StatusBadRequest {
			return admission.Allowed("")
		}
		return resp
	})
}

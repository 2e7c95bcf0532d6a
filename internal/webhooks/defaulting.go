package webhooks

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
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

// templateNamespaces makes the references of a template of a ClusterClass explicit. Cluster
// API copies the spec of the template to the namespace of a Cluster, which may be another
// one, and the reference means an object beside the template.
type templateNamespaces[T client.Object] func(obj T) []*infrav1.TemplateReference

// Default sets the namespaces of a new object. The spec of an existing one is immutable.
// Copies that Cluster API makes for a Cluster stay as they are: it compares them with
// their source.
func (refs templateNamespaces[T]) Default(ctx context.Context, obj T) error {
	req, err := admission.RequestFromContext(ctx)
	if err != nil {
		return fmt.Errorf("reading the request: %w", err)
	}
	if _, isCopy := obj.GetLabels()[clusterv1.ClusterTopologyOwnedLabel]; isCopy || req.Operation != admissionv1.Create {
		return nil
	}
	for _, ref := range refs(obj) {
		if ref != nil && ref.Name != "" && ref.Namespace == "" {
			ref.Namespace = req.Namespace
		}
	}
	return nil
}

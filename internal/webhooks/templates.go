package webhooks

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/topology"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/kubernetes/object"
)

// defaults sets the defaults of a kind.
type defaults[T client.Object] func(obj T)

// Default sets the defaults of an object.
func (d defaults[T]) Default(_ context.Context, obj T) error {
	d(obj)
	return nil
}

// beforeSchema returns the handler of a webhook that sets defaults, which the API server calls
// before it validates the schema.
func beforeSchema(next admission.Handler) admission.Handler {
	return withoutStatus(allowUndecodable(next))
}

// allowUndecodable allows objects that do not decode: only the error of the schema names the
// field.
func allowUndecodable(next admission.Handler) admission.Handler {
	return admission.HandlerFunc(func(ctx context.Context, req admission.Request) admission.Response {
		resp := next.Handle(ctx, req)
		if !resp.Allowed && resp.Result != nil && resp.Result.Code == http.StatusBadRequest {
			return admission.Allowed("")
		}
		return resp
	})
}

// withoutStatus removes the status, which the API server drops later. One that does not decode
// would keep the webhook from recording who changes the object.
func withoutStatus(next admission.Handler) admission.Handler {
	return admission.HandlerFunc(func(ctx context.Context, req admission.Request) admission.Response {
		object := map[string]json.RawMessage{}
		if err := json.Unmarshal(req.Object.Raw, &object); err != nil {
			return admission.Errored(http.StatusUnprocessableEntity, err)
		}
		if _, found := object["status"]; found {
			delete(object, "status")
			raw, err := json.Marshal(object)
			if err != nil {
				return admission.Errored(http.StatusInternalServerError, err)
			}
			req.Object.Raw = raw
		}
		return next.Handle(ctx, req)
	})
}

// templated is spec.template of a template of a ClusterClass.
type templated struct {
	metadata *clusterv1.ObjectMeta
	// content is all of it.
	content any
	// check returns the errors of its spec.
	check func(spec *field.Path) field.ErrorList
	// ref is its reference to a WorkspaceTemplate, or nil.
	ref *infrav1.TemplateReference
}

// templateRules returns the rules of the templates of a ClusterClass.
func templateRules[T client.Object](kind T, of func(T) templated) rules[T] {
	return rules[T]{
		kind: kind,
		object: func(obj T) field.ErrorList {
			t, path := of(obj), field.NewPath("spec", "template")
			return append(t.metadata.Validate(path.Child("metadata")), t.check(path.Child("spec"))...)
		},
		change:    immutableTemplate(func(obj T) any { return of(obj).content }),
		defaulter: templateNamespaces[T](func(obj T) *infrav1.TemplateReference { return of(obj).ref }),
	}
}

// immutableTemplate rejects changes of spec.template, which content returns. It
// allows the dry runs of Cluster API's topology controller, which tries a change
// before it creates a new template.
func immutableTemplate[T client.Object](content func(T) any) func(context.Context, T, T) field.ErrorList {
	return func(ctx context.Context, before, after T) field.ErrorList {
		if apiequality.Semantic.DeepEqual(content(before), content(after)) {
			return nil
		}
		if req, err := admission.RequestFromContext(ctx); err == nil && topology.IsDryRunRequest(req, after) {
			return nil
		}
		kind := object.Kind(after)
		return field.ErrorList{field.Forbidden(field.NewPath("spec", "template"), fmt.Sprintf(
			"the template of a %s cannot be changed: create a new %s with another name and reference it", kind, kind))}
	}
}

// templateNamespaces makes the reference of a template of a ClusterClass explicit. Cluster
// API copies the spec of the template to the namespace of a Cluster, which may be another
// one, and the reference means an object beside the template.
type templateNamespaces[T client.Object] func(obj T) *infrav1.TemplateReference

// Default sets the namespaces of a new object. The spec of an existing one is immutable.
// Copies that Cluster API makes for a Cluster stay as they are: it compares them with
// their source.
func (ref templateNamespaces[T]) Default(ctx context.Context, obj T) error {
	req, err := admission.RequestFromContext(ctx)
	if err != nil {
		return fmt.Errorf("reading the request: %w", err)
	}
	if _, isCopy := obj.GetLabels()[clusterv1.ClusterTopologyOwnedLabel]; isCopy || req.Operation != admissionv1.Create {
		return nil
	}
	if r := ref(obj); r != nil && r.Name != "" && r.Namespace == "" {
		r.Namespace = req.Namespace
	}
	return nil
}

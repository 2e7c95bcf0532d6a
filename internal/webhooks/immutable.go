package webhooks

import (
	"context"
	"fmt"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/cluster-api/util/topology"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// immutableTemplate rejects changes of spec.template, which content returns. It
// allows the dry runs of Cluster API's topology controller, which tries a change
// before it creates a new template.
func immutableTemplate[T client.Object](kind string, content func(T) any) func(context.Context, T, T) field.ErrorList {
	return func(ctx context.Context, before, after T) field.ErrorList {
		if apiequality.Semantic.DeepEqual(content(before), content(after)) {
			return nil
		}
		if req, err := admission.RequestFromContext(ctx); err == nil && topology.IsDryRunRequest(req, after) {
			return nil
		}
		return field.ErrorList{field.Forbidden(field.NewPath("spec", "template"), fmt.Sprintf(
			"the template of a %s cannot be changed: create a new %s with another name and reference it", kind, kind))}
	}
}

// Package render computes the objects that CAPT would create from manifests, without a
// cluster. It uses the same functions as the controllers.
package render

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/workspace"
	"github.com/appthrust/capt/internal/kubernetes/object"
	"github.com/appthrust/capt/internal/kubernetes/scheme"
	"github.com/appthrust/capt/internal/reconcile/fault"
	"github.com/appthrust/capt/internal/terraform/template"
)

// Options configures what to render.
type Options struct {
	// Runs includes the runs of rendered workspaces, in addition to those of given
	// ones.
	Runs bool
	// Cluster is the name of the cluster for which add-ons are rendered.
	Cluster string
	// Outputs are the Terraform outputs of that cluster.
	Outputs map[string][]byte
}

// Run is the input of Terraform for a run of a workspace.
type Run struct {
	// Workspace is the namespace/name of the WorkspaceTemplateApply.
	Workspace string `json:"workspace"`
	// Template is the namespace/name of the WorkspaceTemplate.
	Template string `json:"template"`
	*template.Preview

	// rendered reports whether the workspace is not among the given objects.
	rendered bool
}

// Rendering is the result of Render.
type Rendering struct {
	// Objects are the objects that CAPT would create.
	Objects []client.Object
	// Runs are the inputs of Terraform.
	Runs []Run
	// Notes report what could not be rendered because manifests are missing.
	Notes []string
	// Problems are the errors that prevent CAPT from creating an object.
	Problems []Problem
}

// Problem is an error in a given object.
type Problem struct {
	Object  client.Object
	Message string
}

// Render returns what CAPT would create from objects.
func Render(ctx context.Context, objects []client.Object, options Options) (*Rendering, error) {
	r := &renderer{Options: options, scheme: scheme.New(), objects: slices.Clone(objects), given: objects, out: &Rendering{}}
	for _, cluster := range all[*clusterv1.Cluster](r) {
		r.cluster(ctx, cluster)
	}
	for _, apply := range all[*infrav1.WorkspaceTemplateApply](r) {
		r.run(rendered{apply: apply, owned: apply, owner: apply})
	}
	for _, w := range r.rendered {
		r.run(w)
	}
	if !r.Runs {
		r.out.Runs = slices.DeleteFunc(r.out.Runs, func(run Run) bool { return run.rendered })
	}
	r.addons()
	for _, obj := range r.out.Objects {
		if gvk, err := apiutil.GVKForObject(obj, r.scheme); err == nil {
			obj.GetObjectKind().SetGroupVersionKind(gvk)
		}
	}
	return r.out, nil
}

type renderer struct {
	Options
	scheme *runtime.Scheme
	// objects are the given objects and those that Cluster API creates from
	// topologies.
	objects, given []client.Object
	rendered       []rendered
	out            *Rendering
}

// rendered is a workspace and its owner.
type rendered struct {
	apply *infrav1.WorkspaceTemplateApply
	// owned is the workspace as its owner creates it.
	owned *infrav1.WorkspaceTemplateApply
	owner client.Object
	// incomplete reports that not all variables of the workspace are known.
	incomplete bool
}

// problem records an error in an object. An error in an object of a topology is recorded
// for the Cluster.
func (r *renderer) problem(obj client.Object, err error) {
	if err == nil {
		return
	}
	message := err.Error()
	if stalled, ok := fault.AsStalled(err); ok {
		message = stalled.Message()
	} else if p, ok := errors.AsType[*template.Problem](err); ok {
		message = p.Message
	}
	r.out.Problems = append(r.out.Problems, Problem{Object: r.givenFor(obj), Message: message})
}

// givenFor returns the given object from which an object was created.
func (r *renderer) givenFor(obj client.Object) client.Object {
	if slices.Contains(r.given, obj) {
		return obj
	}
	if cluster := find[*clusterv1.Cluster](r, obj.GetNamespace(), obj.GetLabels()[clusterv1.ClusterNameLabel]); cluster != nil {
		return cluster
	}
	return obj
}

func (r *renderer) note(format string, args ...any) {
	if note := fmt.Sprintf(format, args...); !slices.Contains(r.out.Notes, note) {
		r.out.Notes = append(r.out.Notes, note)
	}
}

// all returns the objects of a type.
func all[T client.Object](r *renderer) []T {
	var found []T
	for _, obj := range r.objects {
		if typed, ok := obj.(T); ok {
			found = append(found, typed)
		}
	}
	return found
}

// find returns the object of a type with a name, or nil.
func find[T client.Object](r *renderer, namespace, name string) (found T) {
	for _, obj := range all[T](r) {
		if obj.GetNamespace() == namespace && obj.GetName() == name {
			return obj
		}
	}
	return found
}

// template returns a template with the status that its controller would set, or nil.
func (r *renderer) template(namespace string, ref infrav1.TemplateReference) *infrav1.WorkspaceTemplate {
	key := ref.Key(namespace)
	found := find[*infrav1.WorkspaceTemplate](r, key.Namespace, key.Name)
	if found == nil {
		r.note("WorkspaceTemplate %s is not among the manifests: add it to see the objects that use it", key)
		return nil
	}
	inspected := found.DeepCopy()
	if err := template.Inspect(inspected); err != nil {
		r.problem(found, err)
		return nil
	}
	return inspected
}

// workspace renders a desired workspace, or records the error of computing it.
func (r *renderer) workspace(owner client.Object, desired workspace.Desired, err error, incomplete bool) {
	if err != nil {
		r.problem(owner, err)
		return
	}
	apply, err := workspace.Render(r.scheme, owner, desired.Name, desired)
	if err != nil {
		r.problem(owner, err)
		return
	}
	owned := apply.DeepCopy()
	// An owner reference needs a UID, which only the API server assigns.
	apply.OwnerReferences, apply.Annotations = nil, nil
	r.out.Objects = append(r.out.Objects, apply)
	r.rendered = append(r.rendered, rendered{apply: apply, owned: owned, owner: owner, incomplete: incomplete})
}

// futureVariables returns the variables of a rendered workspace that contain
// placeholders.
func futureVariables(w rendered) map[string]bool {
	future := map[string]bool{}
	if client.Object(w.apply) == w.owner {
		return future
	}
	for name, value := range w.apply.Spec.Variables {
		future[name] = isFuture(value)
	}
	return future
}

// run adds the input of Terraform for a workspace.
func (r *renderer) run(w rendered) {
	apply := w.apply
	key := apply.Spec.TemplateRef.Key(apply.Namespace)
	t := find[*infrav1.WorkspaceTemplate](r, key.Namespace, key.Name)
	if t == nil {
		r.note("WorkspaceTemplate %s is not among the manifests: add it to see the input of WorkspaceTemplateApply %s", key, apply.Name)
		return
	}
	sources := template.Sources{Apply: w.owned, Template: t, ConfigMaps: map[string]map[string][]byte{}, Future: futureVariables(w)}
	for _, c := range all[*corev1.ConfigMap](r) {
		if c.Namespace == apply.Namespace {
			sources.ConfigMaps[c.Name] = object.ConfigMapData(c)
		}
	}
	if ref := apply.ProviderConfig(t); ref != nil {
		sources.ProviderConfig = find[*infrav1.WorkspaceProviderConfig](r, apply.Namespace, ref.Name)
		if sources.ProviderConfig == nil {
			r.note("WorkspaceProviderConfig %s/%s is not among the manifests: its credentials and backend are not shown", apply.Namespace, ref.Name)
		}
	}
	preview, problems := template.PreviewOf(sources)
	for _, p := range problems {
		if w.incomplete && p.Reason == infrav1.MissingVariableReason {
			continue
		}
		r.problem(w.owner, fmt.Errorf("with WorkspaceTemplate %s: %s", t.Name, p.Message))
	}
	r.out.Runs = append(r.out.Runs, Run{
		Workspace: apply.Namespace + "/" + apply.Name, Template: key.String(), Preview: preview, rendered: client.Object(apply) != w.owner,
	})
}

// Package render shows what CAPT would make of manifests, without a cluster. It
// asks the same functions that the controllers ask.
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
	"github.com/appthrust/capt/internal/kubernetes/scheme"
	"github.com/appthrust/capt/internal/reconcile/fault"
	"github.com/appthrust/capt/internal/terraform/template"
)

// Options is what to render.
type Options struct {
	// Runs shows what the runs of rendered workspaces would be given, and not
	// only those of given ones.
	Runs bool
	// Cluster names the cluster that add-ons are rendered for.
	Cluster string
	// Outputs are the Terraform outputs of that cluster.
	Outputs map[string][]byte
}

// Run is what a run of a workspace would be given.
type Run struct {
	// Workspace is the WorkspaceTemplateApply, as namespace/name.
	Workspace string `json:"workspace"`
	// Template is the WorkspaceTemplate.
	Template string `json:"template"`
	*template.Preview

	// rendered tells that the workspace was not given.
	rendered bool
}

// Rendering is what CAPT would make.
type Rendering struct {
	// Objects would be created.
	Objects []client.Object
	// Runs are what Terraform would be given.
	Runs []Run
	// Notes say what could not be rendered for want of manifests.
	Notes []string
	// Problems are what keeps something from being made.
	Problems []Problem
}

// Problem is something wrong with a given object.
type Problem struct {
	Object  client.Object
	Message string
}

// Render renders objects.
func Render(ctx context.Context, objects []client.Object, options Options) (*Rendering, error) {
	r := &renderer{Options: options, scheme: scheme.New(), objects: slices.Clone(objects), given: objects, out: &Rendering{}}
	for _, cluster := range all[*clusterv1.Cluster](r) {
		r.cluster(ctx, cluster)
	}
	for _, apply := range all[*infrav1.WorkspaceTemplateApply](r) {
		r.run(rendered{apply: apply, owner: apply})
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
	// objects are those that were given, and those that Cluster API makes of
	// topologies.
	objects, given []client.Object
	rendered       []rendered
	out            *Rendering
}

// rendered is a workspace and the given object it is for.
type rendered struct {
	apply *infrav1.WorkspaceTemplateApply
	owner client.Object
	// open tells that it is given more than is known here.
	open bool
}

// problem takes down what is wrong with an object. What Cluster API makes of a
// topology is the Cluster's fault.
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

// givenFor is the given object that an object is for.
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

// all are the given objects of a type.
func all[T client.Object](r *renderer) []T {
	var found []T
	for _, obj := range r.objects {
		if typed, ok := obj.(T); ok {
			found = append(found, typed)
		}
	}
	return found
}

// find is the given object of a type with a name, or nil.
func find[T client.Object](r *renderer, namespace, name string) (found T) {
	for _, obj := range all[T](r) {
		if obj.GetNamespace() == namespace && obj.GetName() == name {
			return obj
		}
	}
	return found
}

// template is a given template as its controller would show it, or nil.
func (r *renderer) template(namespace string, ref infrav1.TemplateReference) *infrav1.WorkspaceTemplate {
	key := ref.Key(namespace)
	found := find[*infrav1.WorkspaceTemplate](r, key.Namespace, key.Name)
	if found == nil {
		r.note("WorkspaceTemplate %s is not among the given manifests: give it too, to see what is made from it", key)
		return nil
	}
	inspected := found.DeepCopy()
	if err := template.Inspect(inspected); err != nil {
		r.problem(found, err)
		return nil
	}
	return inspected
}

// workspace renders a workspace, if it could be worked out.
func (r *renderer) workspace(owner client.Object, wanted workspace.Wanted, err error, open bool) {
	if err != nil {
		r.problem(owner, err)
		return
	}
	apply, err := workspace.Render(r.scheme, owner, wanted.Name, wanted)
	if err != nil {
		r.problem(owner, err)
		return
	}
	// Who owns it is known by a UID, which is given by a cluster.
	apply.OwnerReferences, apply.Annotations = nil, nil
	r.out.Objects = append(r.out.Objects, apply)
	r.rendered = append(r.rendered, rendered{apply, owner, open})
}

// run shows what a run of a workspace would be given.
func (r *renderer) run(w rendered) {
	apply := w.apply
	key := apply.Spec.TemplateRef.Key(apply.Namespace)
	t := find[*infrav1.WorkspaceTemplate](r, key.Namespace, key.Name)
	if t == nil {
		r.note("WorkspaceTemplate %s is not among the given manifests: give it too, to see the runs of WorkspaceTemplateApply %s", key, apply.Name)
		return
	}
	sources := template.Sources{Apply: apply, Template: t, ConfigMaps: map[string]map[string][]byte{}}
	for _, c := range all[*corev1.ConfigMap](r) {
		if c.Namespace == apply.Namespace {
			data := map[string][]byte{}
			for name, value := range c.Data {
				data[name] = []byte(value)
			}
			sources.ConfigMaps[c.Name] = data
		}
	}
	if ref := t.Spec.Template.Spec.ProviderConfigRef; ref != nil {
		sources.ProviderConfig = find[*infrav1.WorkspaceProviderConfig](r, apply.Namespace, ref.Name)
		if sources.ProviderConfig == nil {
			r.note("WorkspaceProviderConfig %s/%s is not among the given manifests: its credentials and backend are not shown", apply.Namespace, ref.Name)
		}
	}
	preview, problems := template.PreviewOf(sources)
	for _, p := range problems {
		if w.open && p.Reason == infrav1.MissingVariableReason {
			continue
		}
		r.problem(w.owner, fmt.Errorf("with WorkspaceTemplate %s: %s", t.Name, p.Message))
	}
	r.out.Runs = append(r.out.Runs, Run{
		Workspace: apply.Namespace + "/" + apply.Name, Template: key.String(), Preview: preview, rendered: client.Object(apply) != w.owner,
	})
}

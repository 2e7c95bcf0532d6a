// Package operate reads the plan, runs, logs, snapshots and lock of a workspace,
// and requests actions on it. It writes only the spec fields and annotations that
// users may set.
package operate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/message"
	"github.com/appthrust/capt/internal/terraform/template"
)

// NotFound returns the error for a name that is not among the existing names, with the next step.
func NotFound(kind, namespace, name string, existing []string) error {
	problem := fmt.Sprintf("%s %q not found in namespace %q", kind, name, namespace)
	nearest, found := message.Nearest(name, existing)
	switch {
	case found:
		return fmt.Errorf("%s: did you mean %q?", problem, nearest)
	case len(existing) == 0:
		return fmt.Errorf("%s, which has no %ss: choose another namespace with -n", problem, kind)
	default:
		return errors.New(problem + ": press TAB to complete a name, or choose another namespace with -n")
	}
}

// notFoundOf returns the error for a run or snapshot that a workspace does not
// have. The command see lists the existing ones.
func notFoundOf(kind, name string, existing []string, see string) error {
	if nearest, found := message.Nearest(name, existing); found {
		return fmt.Errorf("%s %q not found: did you mean %q?", kind, name, nearest)
	}
	return fmt.Errorf("%s %q not found: see %s", kind, name, see)
}

// clusterPrefix starts the name of a workspace that belongs to a Cluster.
const clusterPrefix = "cluster/"

// workspaceKinds are the names of the kind that kubectl accepts and prints before a slash.
var workspaceKinds = []string{
	"wsta", "workspace", "workspaces", "workspacetemplateapply", "workspacetemplateapplies",
	"workspacetemplateapply.infrastructure.cluster.x-k8s.io", "workspacetemplateapplies.infrastructure.cluster.x-k8s.io",
}

// Find returns a workspace by name, also with the kind before it as kubectl prints it. The name cluster/NAME is the workspace of a
// Cluster's control plane, and cluster/NAME/vpc that of its VPC.
func Find(ctx context.Context, c client.Reader, namespace, name string) (*infrav1.WorkspaceTemplateApply, error) {
	if rest, found := strings.CutPrefix(name, clusterPrefix); found {
		return findForCluster(ctx, c, namespace, rest)
	}
	if kind, rest, found := strings.Cut(name, "/"); found && slices.Contains(workspaceKinds, kind) {
		name = rest
	}
	apply := &infrav1.WorkspaceTemplateApply{}
	return apply, Get(ctx, c, "workspace", client.ObjectKey{Namespace: namespace, Name: name}, apply, &infrav1.WorkspaceTemplateApplyList{})
}

// Get reads an object by a name that a user gave. The error for one that does not exist
// names the nearest of its kind, of which list is an empty list.
func Get(ctx context.Context, c client.Reader, kind string, key client.ObjectKey, obj client.Object, list client.ObjectList) error {
	err := c.Get(ctx, key, obj)
	if apierrors.IsNotFound(err) {
		names, err := Names(list)(ctx, c, key.Namespace)
		if err != nil {
			return err
		}
		return NotFound(kind, key.Namespace, key.Name, names)
	}
	if err != nil {
		return fmt.Errorf("reading %s %s: %w", kind, key.Name, err)
	}
	return nil
}

func findForCluster(ctx context.Context, c client.Reader, namespace, rest string) (*infrav1.WorkspaceTemplateApply, error) {
	name, part, _ := strings.Cut(rest, "/")
	if part != "" && part != "vpc" {
		return nil, fmt.Errorf("cluster/%s is not a workspace: use cluster/%s for the control plane, or cluster/%s/vpc for the VPC", rest, name, name)
	}
	cluster := &clusterv1.Cluster{}
	err := Get(ctx, c, "cluster", client.ObjectKey{Namespace: namespace, Name: name}, cluster, &clusterv1.ClusterList{})
	if err != nil {
		return nil, err
	}
	var owner client.Object = &controlplanev1.CAPTControlPlane{}
	ref, what := cluster.Spec.ControlPlaneRef, "control plane"
	if part == "vpc" {
		owner, ref, what = &infrav1.CAPTCluster{}, cluster.Spec.InfrastructureRef, "VPC"
	}
	if ref.Name != "" {
		err = c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: ref.Name}, owner)
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("reading the %s of %s: %w", what, name, err)
		}
	}
	if ref.Name == "" || err != nil {
		return nil, fmt.Errorf("cluster %s has no %s that CAPT manages: see captctl describe cluster %s", name, what, name)
	}
	var list infrav1.WorkspaceTemplateApplyList
	if err := c.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("listing workspaces: %w", err)
	}
	for i := range list.Items {
		if metav1.IsControlledBy(&list.Items[i], owner) {
			return &list.Items[i], nil
		}
	}
	return nil, fmt.Errorf("the %s of %s has no workspace yet: see captctl describe cluster %s", what, name, name)
}

// Names returns a function that returns the names of the objects in a namespace, or in all if it
// is empty. The list is an empty one of their kind.
func Names(list client.ObjectList) func(ctx context.Context, c client.Reader, namespace string) ([]string, error) {
	return func(ctx context.Context, c client.Reader, namespace string) ([]string, error) {
		if err := c.List(ctx, list, client.InNamespace(namespace)); err != nil {
			return nil, fmt.Errorf("listing names: %w", err)
		}
		var names []string
		err := meta.EachListItem(list, func(item runtime.Object) error {
			if obj, ok := item.(client.Object); ok {
				names = append(names, obj.GetName())
			}
			return nil
		})
		return names, err
	}
}

// Policy returns the approval and drift settings of a workspace, with the
// defaults of its template.
func Policy(ctx context.Context, c client.Reader, apply *infrav1.WorkspaceTemplateApply) (template.Policy, error) {
	t := &infrav1.WorkspaceTemplate{}
	if err := c.Get(ctx, apply.Spec.TemplateRef.Key(apply.Namespace), t); client.IgnoreNotFound(err) != nil {
		return template.Policy{}, fmt.Errorf("reading the template: %w", err)
	}
	return template.PolicyOf(template.Sources{Apply: apply, Template: t}), nil
}

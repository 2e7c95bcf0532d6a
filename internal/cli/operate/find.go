// Package operate asks things of a workspace and finds what there is to know of
// it: its plan, its runs and their logs, the snapshots of its state, its lock.
// It writes nothing but what a person may write.
package operate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/terraform/inspect"
	"github.com/appthrust/capt/internal/terraform/template"
)

// MissingError is an object that does not exist.
type MissingError struct {
	// Kind is what people call it.
	Kind, Name, Namespace string
	// Nearest is the name that was probably meant.
	Nearest string
	// Any tells whether there are others of the kind.
	Any bool
}

// Error says what does not exist, and what to write instead.
func (e *MissingError) Error() string {
	text := fmt.Sprintf("no %s %q in namespace %q", e.Kind, e.Name, e.Namespace)
	switch {
	case e.Nearest != "":
		return text + fmt.Sprintf(": did you mean %q?", e.Nearest)
	case !e.Any:
		return text + fmt.Sprintf(", nor any other %s: choose another namespace with -n", e.Kind)
	default:
		return text + ": press TAB for the names, or choose another namespace with -n"
	}
}

// Missing makes the error of a name that does not exist among those that do.
func Missing(kind, namespace, name string, names []string) error {
	return &MissingError{
		Kind: kind, Name: name, Namespace: namespace, Any: len(names) > 0,
		Nearest: inspect.Nearest(name, slices.Values(names)),
	}
}

// missingOf makes the error of something of a workspace that does not exist.
func missingOf(what, name string, names []string, see string) error {
	if nearest := inspect.Nearest(name, slices.Values(names)); nearest != "" {
		return fmt.Errorf("no %s %q: did you mean %q?", what, name, nearest)
	}
	return fmt.Errorf("no %s %q: see %s", what, name, see)
}

// ofCluster begins the name of a workspace that is a Cluster's.
const ofCluster = "cluster/"

// Find returns a workspace by its name, by cluster/NAME for the workspace of a
// Cluster's control plane, or by cluster/NAME/vpc for that of its VPC.
func Find(ctx context.Context, c client.Reader, namespace, name string) (*infrav1.WorkspaceTemplateApply, error) {
	if rest, found := strings.CutPrefix(name, ofCluster); found {
		return findOfCluster(ctx, c, namespace, rest)
	}
	apply := &infrav1.WorkspaceTemplateApply{}
	err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, apply)
	if apierrors.IsNotFound(err) {
		names, err := WorkspaceNames(ctx, c, namespace)
		if err != nil {
			return nil, err
		}
		return nil, Missing("workspace", namespace, name, names)
	}
	if err != nil {
		return nil, fmt.Errorf("reading workspace %s: %w", name, err)
	}
	return apply, nil
}

func findOfCluster(ctx context.Context, c client.Reader, namespace, rest string) (*infrav1.WorkspaceTemplateApply, error) {
	name, part, _ := strings.Cut(rest, "/")
	if part != "" && part != "vpc" {
		return nil, fmt.Errorf("cluster/%s names no workspace: write cluster/%s for the control plane, or cluster/%s/vpc", rest, name, name)
	}
	cluster := &clusterv1.Cluster{}
	err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, cluster)
	if apierrors.IsNotFound(err) {
		names, err := ClusterNames(ctx, c, namespace)
		if err != nil {
			return nil, err
		}
		return nil, Missing("cluster", namespace, name, names)
	}
	if err != nil {
		return nil, fmt.Errorf("reading Cluster %s: %w", name, err)
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
		return nil, fmt.Errorf("cluster %s has no %s of CAPT: see captctl describe cluster %s", name, what, name)
	}
	return findOwned(ctx, c, owner, fmt.Sprintf("the %s of %s has no workspace yet: see captctl describe cluster %s", what, name, name))
}

// findOwned returns the workspace that an object controls.
func findOwned(ctx context.Context, c client.Reader, owner client.Object, none string) (*infrav1.WorkspaceTemplateApply, error) {
	var list infrav1.WorkspaceTemplateApplyList
	if err := c.List(ctx, &list, client.InNamespace(owner.GetNamespace())); err != nil {
		return nil, fmt.Errorf("listing workspaces: %w", err)
	}
	for i := range list.Items {
		if metav1.IsControlledBy(&list.Items[i], owner) {
			return &list.Items[i], nil
		}
	}
	return nil, errors.New(none)
}

// WorkspaceNames are the names of the workspaces of a namespace.
func WorkspaceNames(ctx context.Context, c client.Reader, namespace string) ([]string, error) {
	var list infrav1.WorkspaceTemplateApplyList
	if err := c.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("listing workspaces: %w", err)
	}
	var names []string
	for _, item := range list.Items {
		names = append(names, item.Name)
	}
	return names, nil
}

// ClusterNames are the names of the Clusters of a namespace.
func ClusterNames(ctx context.Context, c client.Reader, namespace string) ([]string, error) {
	var list clusterv1.ClusterList
	if err := c.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("listing Clusters: %w", err)
	}
	var names []string
	for _, item := range list.Items {
		names = append(names, item.Name)
	}
	return names, nil
}

// Policy is how runs of a workspace are made, its template's settings included.
func Policy(ctx context.Context, c client.Reader, apply *infrav1.WorkspaceTemplateApply) (template.Policy, error) {
	t := &infrav1.WorkspaceTemplate{}
	if err := c.Get(ctx, apply.Spec.TemplateRef.Key(apply.Namespace), t); client.IgnoreNotFound(err) != nil {
		return template.Policy{}, fmt.Errorf("reading the template: %w", err)
	}
	return template.PolicyOf(template.Sources{Apply: apply, Template: t}), nil
}

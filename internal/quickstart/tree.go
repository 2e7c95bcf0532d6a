package quickstart

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/embedded"
)

var nodeClaims = schema.GroupVersionKind{Group: "karpenter.sh", Version: "v1", Kind: "NodeClaimList"}

// shown are the kinds of the tree, below the Cluster.
var shown = []schema.GroupVersionKind{
	infrav1.GroupVersion.WithKind("CAPTCluster"),
	controlplanev1.GroupVersion.WithKind("CAPTControlPlane"),
	infrav1.GroupVersion.WithKind("CAPTMachinePool"),
	infrav1.GroupVersion.WithKind("WorkspaceTemplateApply"),
}

// branch is one line of the tree.
type branch struct {
	text     string
	branches []*branch
}

// Tree draws the cluster with everything that it is made of.
func (d *Demo) Tree(ctx context.Context) (string, error) {
	cluster := &unstructured.Unstructured{}
	cluster.SetGroupVersionKind(clusterv1.GroupVersion.WithKind("Cluster"))
	if err := d.client.Get(ctx, client.ObjectKey{Namespace: embedded.Namespace, Name: d.name}, cluster); err != nil {
		return "", fmt.Errorf("looking at the cluster: %w", err)
	}
	root := branchOf(cluster)
	found := map[types.UID]*branch{cluster.GetUID(): root}
	var objects []unstructured.Unstructured
	for _, kind := range shown {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind)
		if err := d.client.List(ctx, list, client.InNamespace(embedded.Namespace)); err != nil {
			return "", fmt.Errorf("looking at objects of kind %s: %w", kind.Kind, err)
		}
		for i := range list.Items {
			found[list.Items[i].GetUID()] = branchOf(&list.Items[i])
		}
		objects = append(objects, list.Items...)
	}
	for i := range objects {
		for _, owner := range objects[i].GetOwnerReferences() {
			if parent := found[owner.UID]; parent != nil && (owner.Controller != nil && *owner.Controller || parent == root) {
				parent.branches = append(parent.branches, found[objects[i].GetUID()])
				break
			}
		}
	}
	if err := d.addInside(ctx, root); err != nil {
		return "", err
	}
	var text strings.Builder
	root.draw(&text, "", "")
	return text.String(), nil
}

// addInside adds what is inside the cluster: add-ons and nodes.
func (d *Demo) addInside(ctx context.Context, root *branch) error {
	if d.addons {
		for _, name := range []string{flux, karpenter, nodePool} {
			addon := &unstructured.Unstructured{}
			addon.SetGroupVersionKind(addonsv1.GroupVersion.WithKind("CAPTAddon"))
			if err := d.client.Get(ctx, client.ObjectKey{Namespace: embedded.Namespace, Name: name}, addon); err != nil {
				return fmt.Errorf("looking at the add-on %s: %w", name, err)
			}
			root.branches = append(root.branches, branchOf(addon))
		}
	}
	nodes, err := d.nodes(ctx)
	if err != nil {
		return err
	}
	for _, node := range nodes {
		by := ""
		if pool := node.Labels["karpenter.sh/nodepool"]; pool != "" {
			by = ", made by Karpenter"
		}
		root.branches = append(root.branches, &branch{text: fmt.Sprintf("Node %s  Ready%s", node.Name, by)})
	}
	return nil
}

// branchOf says of an object what its most telling condition says.
func branchOf(object *unstructured.Unstructured) *branch {
	text := object.GetKind() + " " + object.GetName()
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, kind := range []string{"Ready", "Available"} {
		i := slices.IndexFunc(conditions, func(c any) bool {
			fields, _ := c.(map[string]any)
			return fields["type"] == kind
		})
		if i < 0 {
			continue
		}
		fields, _ := conditions[i].(map[string]any)
		if fields["status"] == "True" {
			return &branch{text: text + "  " + kind}
		}
		return &branch{text: fmt.Sprintf("%s  not %s: %v", text, kind, fields["reason"])}
	}
	return &branch{text: text}
}

func (b *branch) draw(text *strings.Builder, first, rest string) {
	fmt.Fprintf(text, "%s%s\n", first, b.text)
	for i, child := range b.branches {
		if i == len(b.branches)-1 {
			child.draw(text, rest+"└─", rest+"  ")
		} else {
			child.draw(text, rest+"├─", rest+"│ ")
		}
	}
}

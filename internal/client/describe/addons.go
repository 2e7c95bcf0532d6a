package describe

import (
	"fmt"
	"slices"

	"k8s.io/utils/ptr"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	"github.com/appthrust/capt/internal/addon/versions"
)

// addons returns a node with the add-ons that are or will be installed in the
// Cluster, each after its dependencies.
func (b *builder) addons() *Node {
	group := &Node{Kind: "Addons"}
	for _, addon := range dependencyOrder(b.objects.Addons) {
		group.add(b.addon(&addon))
	}
	if len(group.Children) == 0 {
		return nil
	}
	return group
}

// addon returns the node of an add-on, or nil if it is not for the Cluster.
func (b *builder) addon(addon *addonsv1.CAPTAddon) *Node {
	n := &Node{Kind: "CAPTAddon", Name: addon.Name}
	cluster := b.objects.Cluster
	status := addon.StatusIn(cluster.Name)
	switch {
	case status != nil:
		n.State, n.Reason, n.Message, n.Since = StateFor(status.Reason), status.Reason, status.Message, status.Since
		if ptr.Deref(status.Ready, false) {
			n.State, n.Message = StateReady, addonVersion(addon)
		}
		if status.Attempts > 0 && n.State != StateReady {
			n.Message = fmt.Sprintf("failed %d times: %s", status.Attempts, n.Message)
		}
	case cluster.DeletionTimestamp.IsZero() && addon.Selects(cluster.Labels):
		n.State, n.Reason, n.Since = StateUnknown, notReported, addon.CreationTimestamp
	default:
		return nil
	}
	if b.all {
		n.Children = append(conditionNodes(addon), b.childNodes(addon)...)
	}
	return n
}

// addonVersion returns the version that an add-on installs, with the name of its
// chart.
func addonVersion(addon *addonsv1.CAPTAddon) string {
	version := versions.AddonVersion(addon)
	if addon.Spec.Helm != nil {
		return addon.Spec.Helm.Chart.Name + " " + version
	}
	return version
}

// dependencyOrder returns add-ons sorted by name, each after its dependencies.
func dependencyOrder(addons []addonsv1.CAPTAddon) []addonsv1.CAPTAddon {
	byName := map[string]addonsv1.CAPTAddon{}
	var names []string
	for _, addon := range addons {
		byName[addon.Name] = addon
		names = append(names, addon.Name)
	}
	slices.Sort(names)
	var sorted []addonsv1.CAPTAddon
	seen := map[string]bool{}
	var visit func(name string)
	visit = func(name string) {
		addon, exists := byName[name]
		if seen[name] || !exists {
			return
		}
		seen[name] = true
		for _, dependency := range addon.Spec.DependsOn {
			visit(dependency.Name)
		}
		sorted = append(sorted, addon)
	}
	for _, name := range names {
		visit(name)
	}
	return sorted
}

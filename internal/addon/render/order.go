package render

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/kubernetes/object"
)

// DependencyCycle returns the dependency cycle that an add-on is part of, as
// "a → b → a", or "" if there is none.
func DependencyCycle(name string, all []addonsv1.CAPTAddon) string {
	dependencies := map[string][]string{}
	for i := range all {
		for _, d := range all[i].Spec.DependsOn {
			dependencies[all[i].Name] = append(dependencies[all[i].Name], d.Name)
		}
	}
	// Reading a map does not fail.
	cycle, _ := object.Cycle(name, func(name string) ([]string, error) { return dependencies[name], nil })
	return strings.Join(cycle, " → ")
}

// Dependents returns the add-ons that depend on an add-on.
func Dependents(name string, all []addonsv1.CAPTAddon) []*addonsv1.CAPTAddon {
	var found []*addonsv1.CAPTAddon
	for i := range all {
		if DependsOn(&all[i], name) {
			found = append(found, &all[i])
		}
	}
	return found
}

// DependsOn reports whether an add-on names another one in dependsOn.
func DependsOn(addon *addonsv1.CAPTAddon, name string) bool {
	return slices.ContainsFunc(addon.Spec.DependsOn, func(r infrav1.LocalReference) bool { return r.Name == name })
}

// defaultMaxUnavailable is the part of the clusters that may change at once.
const defaultMaxUnavailable = "25%"

// RolloutBudget returns how many more clusters may start to change, given the
// number of clusters and how many of them are changing. The limit is at least
// one, or a rollout would never start.
func RolloutBudget(policy *addonsv1.RolloutPolicy, clusters, changing int) int {
	maxUnavailable := intstr.FromString(defaultMaxUnavailable)
	if policy != nil && policy.MaxUnavailable != nil {
		maxUnavailable = *policy.MaxUnavailable
	}
	limit, err := intstr.GetScaledValueFromIntOrPercent(&maxUnavailable, clusters, false)
	if err != nil {
		limit = 1
	}
	return max(0, max(1, limit)-changing)
}

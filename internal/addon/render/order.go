package render

import (
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// Cycle returns the add-ons that depend on each other in a ring that name is
// part of, as "a → b → a", or "" if there is none.
func Cycle(name string, all []addonsv1.CAPTAddon) string {
	next := map[string][]string{}
	for i := range all {
		for _, d := range all[i].Spec.DependsOn {
			next[all[i].Name] = append(next[all[i].Name], d.Name)
		}
	}
	var walk func(at string, path []string) []string
	walk = func(at string, path []string) []string {
		for _, to := range next[at] {
			if to == name {
				return append(path, to)
			}
			if slices.Contains(path, to) {
				continue
			}
			if ring := walk(to, append(slices.Clone(path), to)); ring != nil {
				return ring
			}
		}
		return nil
	}
	return strings.Join(walk(name, []string{name}), " → ")
}

// Dependents are the add-ons that depend on name.
func Dependents(name string, all []addonsv1.CAPTAddon) []*addonsv1.CAPTAddon {
	var found []*addonsv1.CAPTAddon
	for i := range all {
		if slices.ContainsFunc(all[i].Spec.DependsOn, func(r infrav1.LocalReference) bool { return r.Name == name }) {
			found = append(found, &all[i])
		}
	}
	return found
}

// defaultMaxUnavailable is how much of a fleet changes at once.
const defaultMaxUnavailable = "25%"

// Turns is how many more clusters may begin to change, of a fleet in which some
// are changing already. At least one always may, or nothing would ever happen.
func Turns(policy *addonsv1.RolloutPolicy, fleet, changing int) int {
	limit := intstr.FromString(defaultMaxUnavailable)
	if policy != nil && policy.MaxUnavailable != nil {
		limit = *policy.MaxUnavailable
	}
	most, err := intstr.GetScaledValueFromIntOrPercent(&limit, fleet, false)
	if err != nil {
		most = 1
	}
	return max(0, max(1, most)-changing)
}

const (
	defaultMinBackoff = 15 * time.Second
	defaultMaxBackoff = 10 * time.Minute
)

// Backoff is how long to wait before trying again after some failures in a row,
// and whether to try again at all.
func Backoff(policy *infrav1.RetryPolicy, attempts int32) (time.Duration, bool) {
	shortest, longest := defaultMinBackoff, defaultMaxBackoff
	if policy != nil {
		if policy.Limit != nil && attempts >= *policy.Limit {
			return 0, false
		}
		if policy.MinBackoff != nil {
			shortest = policy.MinBackoff.Duration
		}
		if policy.MaxBackoff != nil {
			longest = policy.MaxBackoff.Duration
		}
	}
	wait := shortest
	for range attempts {
		if wait *= 2; wait >= longest {
			return longest, true
		}
	}
	return min(wait, longest), true
}

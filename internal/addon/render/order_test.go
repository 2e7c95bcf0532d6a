package render

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

func addonWithDependencies(name string, dependencies ...string) addonsv1.CAPTAddon {
	a := addonsv1.CAPTAddon{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, d := range dependencies {
		a.Spec.DependsOn = append(a.Spec.DependsOn, infrav1.LocalReference{Name: d})
	}
	return a
}

func TestDependencyCycle(t *testing.T) {
	all := []addonsv1.CAPTAddon{
		addonWithDependencies("a", "x", "b"), addonWithDependencies("b", "c"), addonWithDependencies("c", "a"),
		addonWithDependencies("x"), addonWithDependencies("outside", "a"), addonWithDependencies("self", "self"),
		addonWithDependencies("chain", "x", "missing"),
	}
	for name, cycle := range map[string]string{
		"a": "a → b → c → a", "c": "c → a → b → c", "self": "self → self",
		"outside": "", "x": "", "chain": "", "missing": "",
	} {
		NewWithT(t).Expect(DependencyCycle(name, all)).To(Equal(cycle), name)
	}
}

func TestDependents(t *testing.T) {
	g := NewWithT(t)
	all := []addonsv1.CAPTAddon{addonWithDependencies("a", "b"), addonWithDependencies("b"), addonWithDependencies("c", "x", "b")}
	var names []string
	for _, addon := range Dependents("b", all) {
		names = append(names, addon.Name)
	}
	g.Expect(names).To(Equal([]string{"a", "c"}))
	g.Expect(Dependents("c", all)).To(BeEmpty())
	g.Expect(DependsOn(&all[0], "b")).To(BeTrue())
	g.Expect(DependsOn(&all[0], "a")).To(BeFalse())
}

func TestRolloutBudget(t *testing.T) {
	limit := func(v intstr.IntOrString) *addonsv1.RolloutPolicy { return &addonsv1.RolloutPolicy{MaxUnavailable: &v} }
	for name, test := range map[string]struct {
		policy             *addonsv1.RolloutPolicy
		clusters, changing int
		want               int
	}{
		"a quarter by default":          {nil, 8, 0, 2},
		"policy without a limit":        {&addonsv1.RolloutPolicy{}, 8, 0, 2},
		"rounded down":                  {nil, 11, 0, 2},
		"at least one":                  {nil, 3, 0, 1},
		"no clusters":                   {nil, 0, 0, 1},
		"none while one is changing":    {nil, 3, 1, 0},
		"a number":                      {limit(intstr.FromInt32(5)), 8, 2, 3},
		"at least one for zero":         {limit(intstr.FromInt32(0)), 8, 0, 1},
		"never below zero":              {limit(intstr.FromInt32(1)), 8, 4, 0},
		"all":                           {limit(intstr.FromString("100%")), 8, 0, 8},
		"one at a time if it is broken": {limit(intstr.FromString("many")), 8, 0, 1},
	} {
		NewWithT(t).Expect(RolloutBudget(test.policy, test.clusters, test.changing)).To(Equal(test.want), name)
	}
}

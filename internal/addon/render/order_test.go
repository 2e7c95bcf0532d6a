package render

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

func depending(name string, on ...string) addonsv1.CAPTAddon {
	a := addonsv1.CAPTAddon{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, d := range on {
		a.Spec.DependsOn = append(a.Spec.DependsOn, infrav1.LocalReference{Name: d})
	}
	return a
}

func TestCycle(t *testing.T) {
	g := NewWithT(t)
	ring := []addonsv1.CAPTAddon{depending("a", "b", "x"), depending("b", "c"), depending("c", "a"), depending("x"), depending("out", "a")}
	g.Expect(Cycle("a", ring)).To(Equal("a → b → c → a"))
	g.Expect(Cycle("c", ring)).To(Equal("c → a → b → c"))
	g.Expect(Cycle("out", ring)).To(BeEmpty(), "it depends on a ring without being part of it")
	g.Expect(Cycle("x", ring)).To(BeEmpty())
	g.Expect(Dependents("a", ring)).To(HaveLen(2))
}

func TestTurns(t *testing.T) {
	limit := func(v intstr.IntOrString) *addonsv1.RolloutPolicy { return &addonsv1.RolloutPolicy{MaxUnavailable: &v} }
	for name, test := range map[string]struct {
		policy          *addonsv1.RolloutPolicy
		fleet, changing int
		turns           int
	}{
		"a quarter":             {nil, 8, 0, 2},
		"at least one":          {nil, 3, 0, 1},
		"none while one is off": {nil, 3, 1, 0},
		"a number":              {limit(intstr.FromInt32(5)), 8, 2, 3},
		"never below zero":      {limit(intstr.FromInt32(1)), 8, 4, 0},
		"all":                   {limit(intstr.FromString("100%")), 8, 0, 8},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(Turns(test.policy, test.fleet, test.changing)).To(Equal(test.turns))
		})
	}
}

func TestBackoff_doublesUpToALimit(t *testing.T) {
	g := NewWithT(t)
	for attempts, want := range map[int32]time.Duration{0: 15 * time.Second, 1: 30 * time.Second, 3: 2 * time.Minute, 9: 10 * time.Minute, 1000: 10 * time.Minute} {
		wait, more := Backoff(nil, attempts)
		g.Expect(wait).To(Equal(want), "after %d", attempts)
		g.Expect(more).To(BeTrue())
	}
	_, more := Backoff(&infrav1.RetryPolicy{Limit: new(int32(2))}, 2)
	g.Expect(more).To(BeFalse())
}

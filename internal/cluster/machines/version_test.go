package machines

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// versioned returns a set with a revision and a version.
func versioned(revision int, version string) *infrav1.CAPTMachineSet {
	set := &infrav1.CAPTMachineSet{ObjectMeta: metav1.ObjectMeta{
		Name: fmt.Sprint("set-", revision), Annotations: map[string]string{infrav1.RevisionAnnotation: fmt.Sprint(revision)},
	}}
	set.Spec.Template.Spec = *fullSpec()
	set.Spec.Template.Spec.Version = version
	return set
}

func TestVersions_template(t *testing.T) {
	for name, c := range map[string]struct {
		versions Versions
		own      string
		variable string
		sets     []*infrav1.CAPTMachineSet
		want     string
	}{
		"new":                                     {versions: Versions{Served: "1.33", Accepted: true}, want: "1.33"},
		"new, control plane without a version":    {versions: Versions{Accepted: true}, want: ""},
		"new, template without the variable":      {versions: Versions{Served: "1.33"}, want: ""},
		"template not known at the moment":        {versions: Versions{Served: "1.34"}, sets: []*infrav1.CAPTMachineSet{versioned(1, "1.33")}, want: "1.33"},
		"own version":                             {versions: Versions{Served: "1.34", Accepted: true}, own: "v1.33.1", want: "v1.33.1"},
		"own variable":                            {versions: Versions{Served: "1.34", Accepted: true}, variable: "1.32", want: ""},
		"follows":                                 {versions: Versions{Served: "1.34", Accepted: true}, sets: []*infrav1.CAPTMachineSet{versioned(1, "1.33")}, want: "1.34"},
		"waits for the end of an upgrade":         {versions: Versions{Served: "1.34", Accepted: true, Upgrading: true}, sets: []*infrav1.CAPTMachineSet{versioned(1, "1.33")}, want: "1.33"},
		"keeps":                                   {versions: Versions{Served: "1.34", Accepted: true, Policy: infrav1.VersionPolicyKeep}, sets: []*infrav1.CAPTMachineSet{versioned(1, "1.33")}, want: "1.33"},
		"is not downgraded":                       {versions: Versions{Served: "1.33", Accepted: true}, sets: []*infrav1.CAPTMachineSet{versioned(1, "1.33"), versioned(2, "1.34")}, want: "1.34"},
		"control plane became unknown":            {versions: Versions{Accepted: true}, sets: []*infrav1.CAPTMachineSet{versioned(1, "1.33")}, want: "1.33"},
		"not recorded":                            {versions: Versions{Served: "1.34", Accepted: true}, sets: []*infrav1.CAPTMachineSet{versioned(1, "")}, want: ""},
		"not recorded, policy Follow":             {versions: Versions{Served: "1.34", Accepted: true, Policy: infrav1.VersionPolicyFollow}, sets: []*infrav1.CAPTMachineSet{versioned(1, "")}, want: "1.34"},
		"not recorded, the newest set is counted": {versions: Versions{Served: "1.34", Accepted: true}, sets: []*infrav1.CAPTMachineSet{versioned(3, "1.33"), versioned(1, "")}, want: "1.34"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			template := &infrav1.MachineTemplate{Spec: *fullSpec()}
			template.Spec.Version = c.own
			if c.variable != "" {
				template.Spec.Variables["kubernetes_version"] = value(`"` + c.variable + `"`)
			}
			before := template.DeepCopy()
			g.Expect(c.versions.Template(template, c.sets).Spec.Version).To(Equal(c.want))
			g.Expect(template).To(Equal(before), "the argument should not change")
		})
	}
}

func TestVersions_recordsTheVersionOfCurrentMachinesOnly(t *testing.T) {
	current := Machine{HasInstance: true, Version: "1.34"}
	for name, c := range map[string]struct {
		version  string
		change   func(*Versions)
		machines []Machine
		want     bool
	}{
		"current":           {machines: []Machine{current}, want: true},
		"no instance yet":   {machines: []Machine{current, {}}, want: true},
		"being deleted":     {machines: []Machine{current, {HasInstance: true, Version: "1.33", Deleting: true}}, want: true},
		"behind":            {machines: []Machine{current, {HasInstance: true, Version: "1.33"}}},
		"without a node":    {machines: []Machine{current, {HasInstance: true}}},
		"recorded":          {version: "1.34", machines: []Machine{current}},
		"upgrading":         {machines: []Machine{current}, change: func(v *Versions) { v.Upgrading = true }},
		"not accepted":      {machines: []Machine{current}, change: func(v *Versions) { v.Accepted = false }},
		"version not known": {machines: []Machine{current}, change: func(v *Versions) { v.Served = "" }},
	} {
		t.Run(name, func(t *testing.T) {
			v := Versions{Served: "1.34", Accepted: true}
			if c.change != nil {
				c.change(&v)
			}
			found := v.Recordable(&infrav1.MachineTemplate{Spec: *fullSpec()}, []*infrav1.CAPTMachineSet{versioned(1, c.version)},
				func(*infrav1.CAPTMachineSet) []Machine { return c.machines })
			NewWithT(t).Expect(found != nil).To(Equal(c.want))
		})
	}
}

func TestVersions_behind(t *testing.T) {
	g := NewWithT(t)
	all := []Machine{{Name: "b", Version: "1.33"}, {Name: "a", Version: "1.32"}, {Name: "c", Version: "1.34"}, {Name: "d"}, {Name: "e", Version: "1.33", Deleting: true}}
	g.Expect(Versions{Served: "1.34"}.Behind(all)).To(Equal([]string{"a (1.32)", "b (1.33)"}))
	g.Expect(Versions{}.Behind(all)).To(BeEmpty())
}

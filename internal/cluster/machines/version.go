package machines

import (
	"slices"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/kubernetes/kubeversion"
)

// Versions decides which Kubernetes version the machines of a deployment have.
type Versions struct {
	Policy infrav1.VersionPolicy
	// Served is the minor version of the control plane, or empty if it is unknown.
	Served string
	// Upgrading reports whether the control plane is being upgraded. Existing
	// machines do not follow before the upgrade is complete.
	Upgrading bool
	// Accepted reports whether the WorkspaceTemplate takes a version.
	Accepted bool
}

// VersionVariable is the variable of a WorkspaceTemplate with the version.
const VersionVariable = "kubernetes_version"

// IsFixed reports whether the template of a deployment decides the version itself.
func (Versions) IsFixed(template *infrav1.MachineTemplate) bool {
	_, overridden := template.Spec.Variables[VersionVariable]
	return template.Spec.Version != "" || overridden
}

// Template returns the template of a deployment with the version of its machines.
// The version never decreases. A set without a version was created before that of the
// control plane, or the WorkspaceTemplate, was known. It keeps its machines until its
// version is recorded, unless the policy is Follow.
func (v Versions) Template(template *infrav1.MachineTemplate, sets []*infrav1.CAPTMachineSet) *infrav1.MachineTemplate {
	if v.IsFixed(template) {
		return template
	}
	result := template.DeepCopy()
	newest := newestOf(template, sets)
	switch {
	case v.Accepted:
		result.Spec.Version = v.version(newest)
	case newest != nil:
		// The template is not known at the moment: it was changed, is invalid or missing.
		// Another version would replace all machines.
		result.Spec.Version = newest.Spec.Template.Spec.Version
	}
	return result
}

func (v Versions) version(newest *infrav1.CAPTMachineSet) string {
	if newest == nil {
		return v.Served
	}
	before := newest.Spec.Template.Spec.Version
	switch {
	case v.Upgrading, v.Served == "", v.Policy == infrav1.VersionPolicyKeep:
		return before
	case before == "" && v.Policy != infrav1.VersionPolicyFollow:
		return before
	case kubeversion.Older(v.Served, before):
		return before
	}
	return v.Served
}

// Recordable returns the set of the template whose version is not recorded although
// all its machines have, or will have, that of the control plane. It returns nil if
// there is none.
func (v Versions) Recordable(template *infrav1.MachineTemplate, sets []*infrav1.CAPTMachineSet, machinesOf func(*infrav1.CAPTMachineSet) []Machine) *infrav1.CAPTMachineSet {
	if v.IsFixed(template) || !v.Accepted || v.Upgrading || v.Served == "" {
		return nil
	}
	newest := newestOf(template, sets)
	if newest == nil || newest.Spec.Template.Spec.Version != "" {
		return nil
	}
	for _, m := range machinesOf(newest) {
		if !m.Deleting && m.HasInstance && m.Version != v.Served {
			return nil
		}
	}
	return newest
}

// Behind returns the names of the machines that are older than the control plane.
func (v Versions) Behind(all []Machine) []string {
	var names []string
	for _, m := range all {
		if !m.Deleting && kubeversion.Older(m.Version, v.Served) {
			names = append(names, m.Name+" ("+m.Version+")")
		}
	}
	slices.Sort(names)
	return names
}

// SameTemplate reports whether a set has a template, whatever the version of its
// machines is.
func SameTemplate(template *infrav1.MachineTemplate, set *infrav1.CAPTMachineSet) bool {
	a, b := template.Spec.DeepCopy(), set.Spec.Template.Spec.DeepCopy()
	a.Version, b.Version = "", ""
	return UpdatableInPlace(a, b)
}

// newestOf returns the set of a template with the highest revision, or nil.
func newestOf(template *infrav1.MachineTemplate, sets []*infrav1.CAPTMachineSet) *infrav1.CAPTMachineSet {
	var newest *infrav1.CAPTMachineSet
	for _, set := range sets {
		if !set.DeletionTimestamp.IsZero() || !SameTemplate(template, set) {
			continue
		}
		if newest == nil || Revision(set) > Revision(newest) {
			newest = set
		}
	}
	return newest
}

package machines

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// FindCurrent returns the set of a deployment's template, or nil. It ignores sets
// that are being deleted. If adoption led to several such sets, it returns the
// oldest.
func FindCurrent(template *infrav1.MachineTemplate, sets []*infrav1.CAPTMachineSet) *infrav1.CAPTMachineSet {
	var current *infrav1.CAPTMachineSet
	for _, set := range sets {
		if set.DeletionTimestamp.IsZero() && UpdatableInPlace(&template.Spec, &set.Spec.Template.Spec) &&
			(current == nil || older(set, current)) {
			current = set
		}
	}
	return current
}

func older(a, b *infrav1.CAPTMachineSet) bool {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name)) < 0
}

// NextRevision returns the revision that the current set should have: its own if
// it is the highest, otherwise the highest plus one. Current may be nil.
func NextRevision(current *infrav1.CAPTMachineSet, sets []*infrav1.CAPTMachineSet) int64 {
	var highest int64
	for _, set := range sets {
		if current == nil || set.UID != current.UID {
			highest = max(highest, Revision(set))
		}
	}
	if current == nil {
		return highest + 1
	}
	return max(Revision(current), highest+1)
}

// FindRevision returns the set of a revision to roll back to, or nil. Revision
// zero stands for the revision before that of the current set.
func FindRevision(to int64, current *infrav1.CAPTMachineSet, sets []*infrav1.CAPTMachineSet) *infrav1.CAPTMachineSet {
	var found *infrav1.CAPTMachineSet
	for _, set := range sets {
		revision := Revision(set)
		switch {
		case revision == 0:
		case to != 0 && revision == to:
			return set
		case to == 0 && (current == nil || set.UID != current.UID) && (found == nil || revision > Revision(found)):
			found = set
		}
	}
	return found
}

// Revisions returns the existing revisions in ascending order.
func Revisions(sets []*infrav1.CAPTMachineSet) []int64 {
	var all []int64
	for _, set := range sets {
		if revision := Revision(set); revision > 0 {
			all = append(all, revision)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// TemplateOf returns the template of a set as a deployment has it, without the
// label that distinguishes sets.
func TemplateOf(set *infrav1.CAPTMachineSet) infrav1.MachineTemplate {
	template := *set.Spec.Template.DeepCopy()
	delete(template.ObjectMeta.Labels, infrav1.MachineTemplateHashLabel)
	return template
}

// NewSet returns a new set for the current template of a deployment.
func NewSet(d *infrav1.CAPTMachineDeployment, revision int64, size SizeRecord) *infrav1.CAPTMachineSet {
	hash := Hash(&d.Spec.Template.Spec, d.Status.CollisionCount)
	set := &infrav1.CAPTMachineSet{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: d.Namespace, Name: SetName(d.Name, hash),
			OwnerReferences: []metav1.OwnerReference{DeploymentReference(d)},
		},
		Spec: infrav1.CAPTMachineSetSpec{
			ClusterName: d.Spec.ClusterName,
			Selector:    *d.Spec.Selector.DeepCopy(),
			Template:    *d.Spec.Template.DeepCopy(),
		},
	}
	if set.Spec.Selector.MatchLabels == nil {
		set.Spec.Selector.MatchLabels = map[string]string{}
	}
	set.Spec.Selector.MatchLabels[infrav1.MachineTemplateHashLabel] = hash
	set.Spec.Template.ObjectMeta.Labels = merged(d.Spec.Template.ObjectMeta.Labels, map[string]string{
		infrav1.MachineTemplateHashLabel: hash,
	})
	UpdateCurrentSet(d, set, revision)
	size.Apply(set)
	return set
}

// DeploymentReference returns the owner reference of a deployment's sets.
func DeploymentReference(d *infrav1.CAPTMachineDeployment) metav1.OwnerReference {
	return *metav1.NewControllerRef(d, infrav1.GroupVersion.WithKind("CAPTMachineDeployment"))
}

// UpdateCurrentSet updates the current set of a deployment in place with the
// template and the revision.
func UpdateCurrentSet(d *infrav1.CAPTMachineDeployment, set *infrav1.CAPTMachineSet, revision int64) {
	template := d.Spec.Template.DeepCopy()
	labels := merged(template.ObjectMeta.Labels, map[string]string{clusterv1.ClusterNameLabel: d.Spec.ClusterName})
	if hash, found := set.Spec.Template.ObjectMeta.Labels[infrav1.MachineTemplateHashLabel]; found {
		labels[infrav1.MachineTemplateHashLabel] = hash
	}
	to := &set.Spec.Template
	to.ObjectMeta = clusterv1.ObjectMeta{Labels: labels, Annotations: template.ObjectMeta.Annotations}
	to.Spec.Labels, to.Spec.Taints = template.Spec.Labels, template.Spec.Taints
	to.Spec.Tags, to.Spec.Drain, to.Spec.Workspace = template.Spec.Tags, template.Spec.Drain, template.Spec.Workspace
	set.Spec.MinReadySeconds = d.Spec.DeepCopy().MinReadySeconds

	set.Labels = merged(set.Labels, labels)
	copySettings(d, set)
	set.Annotations = merged(set.Annotations, map[string]string{infrav1.RevisionAnnotation: strconv.FormatInt(revision, 10)})
}

// UpdateSet updates any set of a deployment with the settings that do not depend
// on the template.
func UpdateSet(d *infrav1.CAPTMachineDeployment, set *infrav1.CAPTMachineSet, creationDisabled bool) {
	copySettings(d, set)
	_, disabled := set.Annotations[clusterv1.DisableMachineCreateAnnotation]
	switch {
	case creationDisabled && !disabled:
		set.Annotations = merged(set.Annotations, map[string]string{clusterv1.DisableMachineCreateAnnotation: "true"})
	case !creationDisabled && disabled:
		set.Annotations = merged(set.Annotations, nil)
		delete(set.Annotations, clusterv1.DisableMachineCreateAnnotation)
	}
}

// copySettings copies the watch filter, the delete policy and the health check to a
// set.
func copySettings(d *infrav1.CAPTMachineDeployment, set *infrav1.CAPTMachineSet) {
	if filter, found := d.Labels[clusterv1.WatchLabel]; found {
		set.Labels = merged(set.Labels, map[string]string{clusterv1.WatchLabel: filter})
	}
	set.Spec.HealthCheck = d.Spec.HealthCheck.DeepCopy()
	if s := d.Spec.Strategy; s != nil && s.RollingUpdate != nil && s.RollingUpdate.DeletePolicy != "" {
		set.Spec.DeletePolicy = s.RollingUpdate.DeletePolicy
	}
}

// SizeRecord is the size of a set, with the desired and maximum number of machines
// of the deployment that it was computed from.
type SizeRecord struct {
	Replicas, Desired, Max int32
}

// Apply sets the size of a set and records the numbers in its annotations.
func (r SizeRecord) Apply(set *infrav1.CAPTMachineSet) {
	set.Spec.Replicas = new(r.Replicas)
	set.Annotations = merged(set.Annotations, map[string]string{
		infrav1.DesiredReplicasAnnotation: strconv.FormatInt(int64(r.Desired), 10),
		infrav1.MaxReplicasAnnotation:     strconv.FormatInt(int64(r.Max), 10),
	})
}

// SameSet reports whether two versions of a set have the same spec, labels and
// annotations.
func SameSet(a, b *infrav1.CAPTMachineSet) bool {
	return equality.Semantic.DeepEqual(a.Spec, b.Spec) && maps.Equal(a.Labels, b.Labels) && maps.Equal(a.Annotations, b.Annotations)
}

// SameMachine reports whether two versions of a machine have the same spec, labels
// and annotations.
func SameMachine(a, b *infrav1.CAPTMachine) bool {
	return equality.Semantic.DeepEqual(a.Spec, b.Spec) && maps.Equal(a.Labels, b.Labels) && maps.Equal(a.Annotations, b.Annotations)
}

func merged(a, b map[string]string) map[string]string {
	result := make(map[string]string, len(a)+len(b))
	maps.Copy(result, a)
	maps.Copy(result, b)
	return result
}

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

// FindCurrent returns the set that a deployment's template stands for, or nil.
// Of several, which only adoption can bring about, the oldest is taken. A set
// that is being deleted stands for nothing.
func FindCurrent(template *infrav1.MachineTemplate, sets []*infrav1.CAPTMachineSet) *infrav1.CAPTMachineSet {
	var current *infrav1.CAPTMachineSet
	for _, set := range sets {
		if set.DeletionTimestamp.IsZero() && SameShape(&template.Spec, &set.Spec.Template.Spec) &&
			(current == nil || older(set, current)) {
			current = set
		}
	}
	return current
}

func older(a, b *infrav1.CAPTMachineSet) bool {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name)) < 0
}

// NextRevision is the revision of the current set: its own if that is the
// highest, else the one after the highest. Current may be nil.
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
// zero is the one before the current set's.
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

// Revisions lists the revisions there are, in order.
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

// TemplateOf is the template of a set as a deployment has it, without what tells
// the sets apart.
func TemplateOf(set *infrav1.CAPTMachineSet) infrav1.MachineTemplate {
	template := *set.Spec.Template.DeepCopy()
	delete(template.ObjectMeta.Labels, infrav1.MachineTemplateHashLabel)
	return template
}

// NewSet is the set of a deployment's present template.
func NewSet(d *infrav1.CAPTMachineDeployment, revision int64, size SizeNote) *infrav1.CAPTMachineSet {
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
	Revise(d, set, revision)
	size.Write(set)
	return set
}

// DeploymentReference is the owner reference of a deployment's sets.
func DeploymentReference(d *infrav1.CAPTMachineDeployment) metav1.OwnerReference {
	return *metav1.NewControllerRef(d, infrav1.GroupVersion.WithKind("CAPTMachineDeployment"))
}

// Revise gives the current set of a deployment its revision and what the
// deployment says and the set can take over in place.
func Revise(d *infrav1.CAPTMachineDeployment, set *infrav1.CAPTMachineSet, revision int64) {
	template := d.Spec.Template.DeepCopy()
	labels := merged(template.ObjectMeta.Labels, map[string]string{clusterv1.ClusterNameLabel: d.Spec.ClusterName})
	if hash, found := set.Spec.Template.ObjectMeta.Labels[infrav1.MachineTemplateHashLabel]; found {
		labels[infrav1.MachineTemplateHashLabel] = hash
	}
	to := &set.Spec.Template
	to.ObjectMeta = clusterv1.ObjectMeta{Labels: labels, Annotations: template.ObjectMeta.Annotations}
	to.Spec.Labels, to.Spec.Taints = template.Spec.Labels, template.Spec.Taints
	to.Spec.Tags, to.Spec.Drain = template.Spec.Tags, template.Spec.Drain
	set.Spec.MinReadySeconds = d.Spec.DeepCopy().MinReadySeconds

	set.Labels = merged(set.Labels, labels)
	share(d, set)
	set.Annotations = merged(set.Annotations, map[string]string{infrav1.RevisionAnnotation: strconv.FormatInt(revision, 10)})
}

// Tend gives any set of a deployment what does not depend on the template.
func Tend(d *infrav1.CAPTMachineDeployment, set *infrav1.CAPTMachineSet, frozen bool) {
	share(d, set)
	_, is := set.Annotations[clusterv1.DisableMachineCreateAnnotation]
	switch {
	case frozen && !is:
		set.Annotations = merged(set.Annotations, map[string]string{clusterv1.DisableMachineCreateAnnotation: "true"})
	case !frozen && is:
		set.Annotations = merged(set.Annotations, nil)
		delete(set.Annotations, clusterv1.DisableMachineCreateAnnotation)
	}
}

// share hands on who works on the deployment, and whom its sets delete first.
func share(d *infrav1.CAPTMachineDeployment, set *infrav1.CAPTMachineSet) {
	if filter, found := d.Labels[clusterv1.WatchLabel]; found {
		set.Labels = merged(set.Labels, map[string]string{clusterv1.WatchLabel: filter})
	}
	if s := d.Spec.Strategy; s != nil && s.RollingUpdate != nil && s.RollingUpdate.DeletePolicy != "" {
		set.Spec.DeletePolicy = s.RollingUpdate.DeletePolicy
	}
}

// SizeNote is a set's size and what it was taken from.
type SizeNote struct {
	Replicas, Desired, Max int32
}

// Write gives a set its size.
func (n SizeNote) Write(set *infrav1.CAPTMachineSet) {
	set.Spec.Replicas = new(n.Replicas)
	set.Annotations = merged(set.Annotations, map[string]string{
		infrav1.DesiredReplicasAnnotation: strconv.FormatInt(int64(n.Desired), 10),
		infrav1.MaxReplicasAnnotation:     strconv.FormatInt(int64(n.Max), 10),
	})
}

// SameSet tells whether two versions of a set ask for the same.
func SameSet(a, b *infrav1.CAPTMachineSet) bool {
	return equality.Semantic.DeepEqual(a.Spec, b.Spec) && maps.Equal(a.Labels, b.Labels) && maps.Equal(a.Annotations, b.Annotations)
}

// SameMachine tells whether two versions of a machine ask for the same.
func SameMachine(a, b *infrav1.CAPTMachine) bool {
	return equality.Semantic.DeepEqual(a.Spec, b.Spec) && maps.Equal(a.Labels, b.Labels) && maps.Equal(a.Annotations, b.Annotations)
}

func merged(a, b map[string]string) map[string]string {
	result := make(map[string]string, len(a)+len(b))
	maps.Copy(result, a)
	maps.Copy(result, b)
	return result
}

package nodes

import (
	"encoding/json"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// Settings are the labels and taints of a node that its machine decides.
type Settings struct {
	Labels map[string]string
	Taints []corev1.Taint
}

// appliedSettings is what the annotation of a Node records.
type appliedSettings struct {
	// Labels are keys of labels.
	Labels []string `json:"labels"`
	// Taints are taints as kubectl writes them, such as key=value:NoSchedule.
	Taints []string `json:"taints"`
}

// Apply sets labels and taints of a Node, and removes those that it has set before and
// that are no longer part of the settings. It reports whether the Node changed.
//
// Labels are set whenever they are missing. A taint is set once: another controller may
// remove it when the node is initialized. The kubelet registers a node with the taints
// that the machine had when its instance was created, so these are only recorded.
//
// Server-side apply cannot do this. The kubelet owns the labels of its registration too,
// and taints are an atomic list that the node lifecycle controller also writes.
func (s Settings) Apply(node *corev1.Node) (changed bool) {
	before := node.DeepCopy()
	var applied appliedSettings
	text, recorded := node.Annotations[infrav1.NodeSettingsAnnotation]
	// An invalid annotation counts as a missing one.
	recorded = recorded && json.Unmarshal([]byte(text), &applied) == nil
	s.applyLabels(node, applied.Labels)
	if recorded {
		s.applyTaints(node, applied.Taints)
	}
	now := appliedSettings{Labels: slices.AppendSeq([]string{}, maps.Keys(s.Labels)), Taints: []string{}}
	for _, taint := range s.Taints {
		now.Taints = append(now.Taints, taint.ToString())
	}
	slices.Sort(now.Labels)
	slices.Sort(now.Taints)
	record, err := json.Marshal(now)
	if err != nil {
		return false // Lists of strings can always be encoded.
	}
	if node.Annotations == nil {
		node.Annotations = map[string]string{}
	}
	node.Annotations[infrav1.NodeSettingsAnnotation] = string(record)
	return !equality.Semantic.DeepEqual(before, node)
}

func (s Settings) applyLabels(node *corev1.Node, applied []string) {
	if node.Labels == nil {
		node.Labels = map[string]string{}
	}
	for _, key := range applied {
		if _, wanted := s.Labels[key]; !wanted {
			delete(node.Labels, key)
		}
	}
	maps.Copy(node.Labels, s.Labels)
}

// hasTaint reports whether the settings have a taint with the key and the effect.
func (s Settings) hasTaint(taint *corev1.Taint) bool {
	return slices.ContainsFunc(s.Taints, func(t corev1.Taint) bool { return t.MatchTaint(taint) })
}

func (s Settings) applyTaints(node *corev1.Node, applied []string) {
	taints := slices.DeleteFunc(slices.Clone(node.Spec.Taints), func(taint corev1.Taint) bool {
		return slices.Contains(applied, taint.ToString()) && !s.hasTaint(&taint)
	})
	for _, taint := range s.Taints {
		if slices.Contains(applied, taint.ToString()) {
			continue
		}
		if i := slices.IndexFunc(taints, func(t corev1.Taint) bool { return t.MatchTaint(&taint) }); i >= 0 {
			taints[i] = taint
		} else {
			taints = append(taints, taint)
		}
	}
	node.Spec.Taints = taints
}

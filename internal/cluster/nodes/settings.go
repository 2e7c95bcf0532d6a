package nodes

import (
	"encoding/json"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// Settings are the labels and taints of a node that its machine decides.
type Settings struct {
	Labels map[string]string
	Taints []corev1.Taint
	// Now is the current time.
	Now time.Time
}

// registration is how long after its creation a node is known to have been registered
// with the taints of its machine. Those of older nodes, which joined before CAPT set
// taints, may have been changed since.
const registration = time.Hour

// appliedSettings is what the annotation of a Node records.
type appliedSettings struct {
	// Labels are keys of labels.
	Labels []string `json:"labels"`
	// Taints are taints as kubectl writes them, such as key=value:NoSchedule.
	Taints []string `json:"taints"`
	// Missing are taints that the node did not have when it was first seen.
	Missing []string `json:"missing,omitempty"`
}

// Apply sets labels and taints of a Node, and removes those that it has set before and
// that are no longer part of the settings. It reports whether the Node changed, and which
// taints it may lack.
//
// Labels are set whenever they are missing. A taint is set once: another controller may
// remove it when the node is initialized. The kubelet registers a node with the taints
// that the machine had when its instance was created, so these are only recorded. Apply
// does not set those that an older node does not have: either they were changed when CAPT
// did not set taints, or another controller has removed them. They are returned.
//
// Server-side apply cannot do this. The kubelet owns the labels of its registration too,
// and taints are an atomic list that the node lifecycle controller also writes.
func (s Settings) Apply(node *corev1.Node) (changed bool, missing []string) {
	before := node.DeepCopy()
	var applied appliedSettings
	text, recorded := node.Annotations[infrav1.NodeSettingsAnnotation]
	// An invalid annotation counts as a missing one.
	recorded = recorded && json.Unmarshal([]byte(text), &applied) == nil
	if !recorded && s.Now.Sub(node.CreationTimestamp.Time) >= registration {
		for _, taint := range s.Taints {
			applied.Missing = append(applied.Missing, taint.ToString())
		}
	}
	s.applyLabels(node, applied.Labels)
	if recorded {
		s.applyTaints(node, slices.Concat(applied.Taints, applied.Missing))
	}
	now := appliedSettings{Labels: slices.AppendSeq([]string{}, maps.Keys(s.Labels)), Taints: []string{}}
	for _, taint := range s.Taints {
		if text := taint.ToString(); slices.Contains(applied.Missing, text) && !slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.ToString() == text }) {
			now.Missing = append(now.Missing, text)
		} else {
			now.Taints = append(now.Taints, text)
		}
	}
	slices.Sort(now.Labels)
	slices.Sort(now.Taints)
	slices.Sort(now.Missing)
	record, err := json.Marshal(now)
	if err != nil {
		return false, nil // Lists of strings can always be encoded.
	}
	if node.Annotations == nil {
		node.Annotations = map[string]string{}
	}
	node.Annotations[infrav1.NodeSettingsAnnotation] = string(record)
	return !equality.Semantic.DeepEqual(before, node), now.Missing
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

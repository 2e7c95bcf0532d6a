package nodes_test

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/nodes"
)

func taint(text, value string) corev1.Taint {
	return corev1.Taint{Key: text, Value: value, Effect: corev1.TaintEffectNoSchedule}
}

func TestSettings_apply(t *testing.T) {
	notReady := corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule}
	for name, c := range map[string]struct {
		labels   map[string]string
		taints   []corev1.Taint
		record   string
		settings nodes.Settings

		wantLabels map[string]string
		wantTaints []corev1.Taint
		unchanged  bool
	}{
		"a new node has the taints of its registration": {
			labels: map[string]string{"os": "linux"}, taints: []corev1.Taint{notReady},
			settings:   nodes.Settings{Labels: map[string]string{"a": "1"}, Taints: []corev1.Taint{taint("startup", "")}},
			wantLabels: map[string]string{"os": "linux", "a": "1"}, wantTaints: []corev1.Taint{notReady},
		},
		"added": {
			taints: []corev1.Taint{notReady}, record: `{"labels":[],"taints":[]}`,
			settings:   nodes.Settings{Labels: map[string]string{"a": "1"}, Taints: []corev1.Taint{taint("dedicated", "gpu")}},
			wantLabels: map[string]string{"a": "1"}, wantTaints: []corev1.Taint{notReady, taint("dedicated", "gpu")},
		},
		"changed": {
			labels: map[string]string{"a": "1"}, taints: []corev1.Taint{taint("dedicated", "gpu"), notReady},
			record:     `{"labels":["a"],"taints":["dedicated=gpu:NoSchedule"]}`,
			settings:   nodes.Settings{Labels: map[string]string{"a": "2"}, Taints: []corev1.Taint{taint("dedicated", "web")}},
			wantLabels: map[string]string{"a": "2"}, wantTaints: []corev1.Taint{taint("dedicated", "web"), notReady},
		},
		"removed": {
			labels: map[string]string{"a": "1", "theirs": "x"}, taints: []corev1.Taint{taint("dedicated", "gpu"), notReady, taint("theirs", "")},
			record:     `{"labels":["a"],"taints":["dedicated=gpu:NoSchedule"]}`,
			wantLabels: map[string]string{"theirs": "x"}, wantTaints: []corev1.Taint{notReady, taint("theirs", "")},
		},
		"a taint that another controller removed stays removed": {
			record:   `{"labels":[],"taints":["startup:NoSchedule"]}`,
			settings: nodes.Settings{Taints: []corev1.Taint{taint("startup", "")}}, unchanged: true,
		},
		"a label that another controller removed is set again": {
			record:   `{"labels":["a"],"taints":[]}`,
			settings: nodes.Settings{Labels: map[string]string{"a": "1"}}, wantLabels: map[string]string{"a": "1"},
		},
		"complete": {
			labels: map[string]string{"a": "1"}, taints: []corev1.Taint{taint("dedicated", "gpu")},
			record:     `{"labels":["a"],"taints":["dedicated=gpu:NoSchedule"]}`,
			settings:   nodes.Settings{Labels: map[string]string{"a": "1"}, Taints: []corev1.Taint{taint("dedicated", "gpu")}},
			wantLabels: map[string]string{"a": "1"}, wantTaints: []corev1.Taint{taint("dedicated", "gpu")}, unchanged: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: c.labels}, Spec: corev1.NodeSpec{Taints: c.taints}}
			if c.record != "" {
				node.Annotations = map[string]string{infrav1.NodeSettingsAnnotation: c.record}
			}
			g.Expect(c.settings.Apply(node)).To(Equal(!c.unchanged))
			if len(c.wantLabels) == 0 {
				g.Expect(node.Labels).To(BeEmpty())
			} else {
				g.Expect(node.Labels).To(Equal(c.wantLabels))
			}
			if len(c.wantTaints) == 0 {
				g.Expect(node.Spec.Taints).To(BeEmpty())
			} else {
				g.Expect(node.Spec.Taints).To(Equal(c.wantTaints))
			}
			g.Expect(c.settings.Apply(node)).To(BeFalse(), "a second call should change nothing")
		})
	}
}

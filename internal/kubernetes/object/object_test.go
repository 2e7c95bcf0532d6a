package object_test

import (
	"errors"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/kubernetes/object"
)

func TestKind(t *testing.T) {
	for want, obj := range map[string]client.Object{
		"Secret":                 &corev1.Secret{},
		"WorkspaceTemplateApply": &infrav1.WorkspaceTemplateApply{},
	} {
		NewWithT(t).Expect(object.Kind(obj)).To(Equal(want))
	}
}

func TestConfigMapData(t *testing.T) {
	g := NewWithT(t)
	configMap := &corev1.ConfigMap{Data: map[string]string{"text": "a"}, BinaryData: map[string][]byte{"binary": {0xff}}}
	g.Expect(object.ConfigMapData(configMap)).To(Equal(map[string][]byte{"text": []byte("a"), "binary": {0xff}}))
	g.Expect(configMap.BinaryData).To(HaveLen(1), "the ConfigMap does not change")
	g.Expect(object.ConfigMapData(&corev1.ConfigMap{})).To(And(Not(BeNil()), BeEmpty()))
}

func TestCycle(t *testing.T) {
	// Each word has the name of an object followed by those of its references.
	for _, test := range []struct{ name, objects, want string }{
		{"no references", "a", ""},
		{"a missing object", "ab", ""},
		{"itself", "aa", "aa"},
		{"two objects", "ab ba", "aba"},
		{"a longer cycle", "ab bc cd da", "abcda"},
		{"behind a dead end", "abc b ca", "aca"},
		{"two paths to one object", "abc bd cd d", ""},
		{"the first of two cycles", "abc ba ca", "aba"},
		{"a cycle without the start", "ab bc cb", ""},
		{"through a cycle without the start", "ab bc cbd da", "abcda"},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := NewWithT(t)
			calls := map[string]int{}
			cycle, err := object.Cycle("a", func(name string) ([]string, error) {
				calls[name]++
				for word := range strings.FieldsSeq(test.objects) {
					if strings.HasPrefix(word, name) {
						return strings.Split(word[1:], ""), nil
					}
				}
				return nil, nil
			})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(strings.Join(cycle, "")).To(Equal(test.want))
			g.Expect(calls).To(HaveEach(1))
		})
	}
}

func TestCycle_returnsErrors(t *testing.T) {
	refused := errors.New("connection refused")
	cycle, err := object.Cycle("a", func(name string) ([]string, error) {
		if name == "b" {
			return nil, refused
		}
		return []string{"b", "a"}, nil
	})
	g := NewWithT(t)
	g.Expect(err).To(MatchError(refused))
	g.Expect(cycle).To(BeNil())
}

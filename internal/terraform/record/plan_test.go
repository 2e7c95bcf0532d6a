package record_test

import (
	"math/rand/v2"
	"testing"
	"unicode/utf8"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
)

func validUTF8(text []byte) bool { return utf8.Valid(text) }

// noise returns content that cannot be compressed.
func noise(size int) []byte {
	source := rand.NewChaCha8([32]byte{1})
	content := make([]byte, size)
	_, _ = source.Read(content)
	return content
}

func chunks(g Gomega, content []byte) []*corev1.Secret {
	secrets, err := record.Chunks("plan-1", content, metav1.ObjectMeta{Namespace: "n", Annotations: map[string]string{"a": "b"}})
	g.Expect(err).NotTo(HaveOccurred())
	return secrets
}

func TestChunks_joinToTheContent(t *testing.T) {
	tests := []struct {
		name    string
		content []byte
		count   int
	}{
		{"empty", nil, 1},
		{"small", []byte("plan"), 1},
		{"compressible", make([]byte, 8<<20), 1},
		{"two Secrets", noise(1 << 20), 2},
		{"four Secrets", noise(3 << 20), 4},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			secrets := chunks(g, tt.content)

			g.Expect(secrets).To(HaveLen(tt.count))
			names := map[string]bool{}
			for i, s := range secrets {
				g.Expect(s.Name).To(Equal(record.ChunkName("plan-1", i)))
				g.Expect(s.Annotations).To(HaveKeyWithValue("a", "b"))
				g.Expect(s.Size()).To(BeNumerically("<", 1<<20), "limit of the API server")
				names[s.Name] = true
			}
			g.Expect(names).To(HaveLen(tt.count))
			g.Expect(record.ChunkCount(secrets[0])).To(Equal(tt.count))
			content, err := record.Join(secrets)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(string(content) == string(tt.content)).To(BeTrue(), "content differs")
		})
	}
}

func TestChunks_areDeterministic(t *testing.T) {
	g := NewWithT(t)
	content := noise(2 << 20)
	g.Expect(chunks(g, content)).To(Equal(chunks(g, content)), "an interrupted write can be continued")
}

func TestJoin_rejectsCorruptChunks(t *testing.T) {
	tests := map[string]func([]*corev1.Secret) []*corev1.Secret{
		"no chunk":        func([]*corev1.Secret) []*corev1.Secret { return nil },
		"missing chunk":   func(s []*corev1.Secret) []*corev1.Secret { return s[:len(s)-1] },
		"wrong order":     func(s []*corev1.Secret) []*corev1.Secret { s[0], s[1] = s[1], s[0]; return s },
		"duplicate chunk": func(s []*corev1.Secret) []*corev1.Secret { return append(s, s[len(s)-1]) },
		"flipped bit":     func(s []*corev1.Secret) []*corev1.Secret { s[1].Data["chunk"][1000] ^= 1; return s },
		"empty chunk":     func(s []*corev1.Secret) []*corev1.Secret { s[1].Data = nil; return s },
		"other content": func(s []*corev1.Secret) []*corev1.Secret {
			other, err := record.Chunks("plan-2", []byte("other"), metav1.ObjectMeta{})
			if err != nil {
				panic(err)
			}
			other[0].Data["sha256"] = s[0].Data["sha256"]
			return other
		},
	}
	for name, corrupt := range tests {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			_, err := record.Join(corrupt(chunks(g, noise(1<<20))))
			g.Expect(err).To(HaveOccurred())
		})
	}
}

func TestChunkCount_rejectsInvalidAnnotations(t *testing.T) {
	for _, count := range []string{"", "0", "-1", "many"} {
		_, err := record.ChunkCount(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s", Annotations: map[string]string{record.ChunksAnnotation: count}}})
		NewWithT(t).Expect(err).To(MatchError(ContainSubstring("Secret s: annotation capt.appthrust.io/chunks")), count)
	}
}

func TestPlanID_dependsOnContentChangesModuleAndRun(t *testing.T) {
	g := NewWithT(t)
	id := record.PlanID([]byte("plan"), nil, "", "hello-r1")
	g.Expect(id).To(MatchRegexp(`^plan-[0-9a-f]{16}$`), "the format of spec.approvedPlan")
	g.Expect(record.PlanID([]byte("plan"), nil, "", "hello-r1")).To(Equal(id))
	g.Expect(record.PlanID([]byte("plan"), nil, "", "hello-r2")).NotTo(Equal(id))
	g.Expect(record.PlanID([]byte("plan2"), nil, "", "hello-r1")).NotTo(Equal(id))
	g.Expect(record.PlanID([]byte("plan"), nil, "sha256:1", "hello-r1")).NotTo(Equal(id))
	g.Expect(record.PlanID([]byte("plan"), []terraform.Change{{Address: "a.b"}}, "", "hello-r1")).NotTo(Equal(id))
}

func TestChanges_roundTrip(t *testing.T) {
	g := NewWithT(t)
	first := chunks(g, []byte("plan"))[0]
	_, err := record.Changes(first)
	g.Expect(err).To(MatchError(ContainSubstring("changes")), "a plan without recorded changes is not trusted")

	changes := []terraform.Change{{Address: "a.b", Action: terraform.ActionDelete, Type: "a"}}
	g.Expect(record.SetChanges(first, changes)).To(Succeed())
	g.Expect(record.Changes(first)).To(Equal(changes))
	g.Expect(record.Join([]*corev1.Secret{first})).To(BeEquivalentTo("plan"))
}

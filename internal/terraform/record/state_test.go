package record_test

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/appthrust/capt/internal/terraform/record"
)

func compressed(g Gomega, text string) []byte {
	data, err := record.Compress([]byte(text))
	g.Expect(err).NotTo(HaveOccurred())
	return data
}

func TestStateIsEmpty(t *testing.T) {
	g := NewWithT(t)
	tests := []struct {
		name  string
		data  map[string][]byte
		empty bool
		err   string
	}{
		{"no data", nil, true, ""},
		{"reserved and never written", map[string][]byte{"tfstate": {}}, true, ""},
		{"written by init", map[string][]byte{"tfstate": compressed(g, `{"version":4,"serial":1,"resources":[]}`)}, true, ""},
		{"outputs only", map[string][]byte{"tfstate": compressed(g, `{"version":4,"outputs":{"a":{"value":1}}}`)}, true, ""},
		{"resources", map[string][]byte{"tfstate": compressed(g, `{"resources":[{"type":"a"}]}`)}, false, ""},
		{"encrypted", map[string][]byte{"tfstate": compressed(g, `{"meta":{},"encrypted_data":"x"}`)}, false, ""},
		{"not compressed", map[string][]byte{"tfstate": []byte(`{"s3cr3t":1}`)}, false, "not valid gzip"},
		{"not JSON", map[string][]byte{"tfstate": compressed(g, `s3cr3t`)}, false, "not valid JSON"},
		{"truncated", map[string][]byte{"tfstate": compressed(g, `{"resources":[]}`)[:20]}, false, "not valid gzip"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			empty, _, err := record.StateIsEmpty(&corev1.Secret{Data: tt.data})
			g.Expect(empty).To(Equal(tt.empty))
			if tt.err == "" {
				g.Expect(err).NotTo(HaveOccurred())
				return
			}
			g.Expect(err).To(MatchError(And(ContainSubstring(tt.err), Not(ContainSubstring("s3cr3t")))))
		})
	}
}

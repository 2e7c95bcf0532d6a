package record_test

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/terraform/record"
)

func TestCompress_roundTrips(t *testing.T) {
	for _, text := range []string{"", "state", string(noise(1 << 16))} {
		g := NewWithT(t)
		compressed, err := record.Compress([]byte(text))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(compressed[:2]).To(Equal([]byte{0x1f, 0x8b}), "the Kubernetes backend stores gzip")
		decompressed, err := record.Decompress(compressed)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(string(decompressed) == text).To(BeTrue(), "content differs")
	}
}

func TestDecompress_rejectsOtherData(t *testing.T) {
	compressed, err := record.Compress([]byte("state"))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	for name, data := range map[string][]byte{
		"empty": nil, "not compressed": []byte("not compressed"), "truncated": compressed[:len(compressed)-1],
	} {
		_, err := record.Decompress(data)
		NewWithT(t).Expect(err).To(HaveOccurred(), name)
	}
}

package record

import (
	"bytes"
	"testing"

	. "github.com/onsi/gomega"
)

func TestSeal(t *testing.T) {
	g := NewWithT(t)
	key, err := NewKey()
	g.Expect(err).NotTo(HaveOccurred())
	content := bytes.Repeat([]byte("hunter2 "), 1000)

	sealed, err := Seal(key.Public(), content)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(len(sealed)).To(BeNumerically("<", len(content)), "it is compressed first")
	g.Expect(key.Open(sealed)).To(Equal(content))

	other, err := NewKey()
	g.Expect(err).NotTo(HaveOccurred())
	_, err = other.Open(sealed)
	g.Expect(err).To(MatchError(HavePrefix("decrypting the output: ")))
	sealed[len(sealed)-1] ^= 1
	_, err = key.Open(sealed)
	g.Expect(err).To(MatchError(HavePrefix("decrypting the output: ")))
}

func TestSeal_refusesOtherKeys(t *testing.T) {
	for _, public := range []string{"", "?", "AAAA"} {
		_, err := Seal(public, nil)
		NewWithT(t).Expect(err).To(HaveOccurred())
	}
}

func TestCheckSize(t *testing.T) {
	g := NewWithT(t)
	g.Expect(checkSize("plan", 1<<30, 256*chunkSize)).To(Succeed())
	g.Expect(checkSize("plan", 1<<30+1, 1)).To(MatchError(ErrTooLarge))
	g.Expect(checkSize("plan", 1<<29, 256*chunkSize+1)).To(MatchError(ErrTooLarge))
}

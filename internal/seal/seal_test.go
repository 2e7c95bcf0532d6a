package seal_test

import (
	"bytes"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/seal"
)

func TestKey(t *testing.T) {
	g := NewWithT(t)
	now := time.Now()
	key, err := seal.New(bytes.Repeat([]byte("k"), seal.KeySize), now)
	g.Expect(err).NotTo(HaveOccurred())
	other, err := seal.New(seal.Generate(), now)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(key.Created()).To(Equal(now))

	sealed := key.Sign("run", []byte("content"))
	g.Expect(key.Verify("run", []byte("content"), sealed)).To(BeTrue())
	g.Expect(key.Verify("run", []byte("Content"), sealed)).To(BeFalse(), "other content")
	g.Expect(key.Verify("kubeconfig", []byte("content"), sealed)).To(BeFalse(), "another purpose")
	g.Expect(key.Verify("run", []byte("content"), "")).To(BeFalse(), "no seal")
	g.Expect(other.Verify("run", []byte("content"), sealed)).To(BeFalse(), "another key")
}

func TestNew_refusesAKeyOfAnotherSize(t *testing.T) {
	NewWithT(t).Expect(seal.New([]byte("short"), time.Now())).Error().To(MatchError(ContainSubstring("it must have 32")))
}

func TestGenerate_returnsDifferentKeys(t *testing.T) {
	g := NewWithT(t)
	g.Expect(seal.Generate()).To(HaveLen(seal.KeySize))
	g.Expect(seal.Generate()).NotTo(Equal(seal.Generate()))
}

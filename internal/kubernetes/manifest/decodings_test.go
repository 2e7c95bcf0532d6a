package manifest

import (
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	. "github.com/onsi/gomega"
)

func TestBegin_letsOneLargeTextBeDecoded(t *testing.T) {
	large, small := []byte(strings.Repeat("- a\n", 10_000)), []byte("a: 1\n")
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		outside := decodings
		decodings = make(chan struct{}, 1)
		defer func() { decodings = outside }()
		first := Begin(large)
		Begin(small).End()
		var group sync.WaitGroup
		begun := false
		group.Go(func() {
			defer Begin(large).End()
			begun = true
		})
		synctest.Wait()
		g.Expect(begun).To(BeFalse())
		first.End()
		group.Wait()
		g.Expect(begun).To(BeTrue())
		g.Expect(decodings).To(BeEmpty())
	})
}

package served

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

func TestLastWords_areLimited(t *testing.T) {
	g := NewWithT(t)
	var words lastWords
	for range 100 {
		_, _ = words.Write([]byte(strings.Repeat("noise\n", 1000)))
	}
	g.Expect(len(words.text)).To(BeNumerically("<=", longestWords))
	_, _ = words.Write([]byte("not a panic: x\npan"))
	_, _ = words.Write([]byte("ic: broken\n"))
	for range 100 {
		_, _ = words.Write([]byte(strings.Repeat("goroutine\n", 1000)))
	}
	g.Expect(len(words.text)).To(BeNumerically("<=", longestWords))
	g.Expect(words.String()).To(Equal("panic: broken"))
}

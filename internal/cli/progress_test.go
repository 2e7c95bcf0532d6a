package cli

import (
	"bytes"
	"testing"

	. "github.com/onsi/gomega"
)

func TestProgress_showsNoOutageThatHasEnded(t *testing.T) {
	g := NewWithT(t)
	var out bytes.Buffer
	p := (&Options{Streams: Streams{Err: &out}}).progress()
	p.resume()
	p.interrupt("unreachable since 10:00")
	p.resume()
	p.show("running")
	p.resume()
	p.show("running")
	p.interrupt("unreachable since 11:00")
	p.resume()
	g.Expect(out.String()).To(Equal("unreachable since 10:00\nrunning\nunreachable since 11:00\nrunning\n"))

	out.Reset()
	p = (&Options{Streams: Streams{Err: &out}}).progress()
	for _, since := range []string{"1", "2"} {
		p.interrupt("unreachable since " + since)
		p.resume()
	}
	g.Expect(out.String()).To(Equal("unreachable since 1\nunreachable since 2\n"))
}

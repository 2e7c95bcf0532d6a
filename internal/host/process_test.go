//go:build linux

package host_test

import (
	"os"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/host"
)

// rename changes the name of this process for the duration of a test.
func rename(t *testing.T, name string) {
	t.Helper()
	const comm = "/proc/self/comm"
	previous, err := os.ReadFile(comm)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.WriteFile(comm, previous, 0o644) })
	if err := os.WriteFile(comm, []byte(name), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestProcessStartTime_acceptsAnyProcessName(t *testing.T) {
	want, err := host.ProcessStartTime(os.Getpid())
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	NewWithT(t).Expect(want).To(BeNumerically(">", 0))
	for _, name := range []string{"two words", "(a)", "a) b", ") S 1 1 1", "a) (b", "))) ", "x)", "tab\there"} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			rename(t, name)
			g.Expect(host.ProcessStartTime(os.Getpid())).To(Equal(want))
		})
	}
}

func TestBootID(t *testing.T) {
	g := NewWithT(t)
	g.Expect(host.BootID()).To(MatchRegexp(`^[0-9a-f-]{36}$`))
	g.Expect(host.BootID()).To(Equal(host.BootID()))
}

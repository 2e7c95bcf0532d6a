package host

import (
	"os"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

func TestProgram_releasesPages(t *testing.T) {
	g := NewWithT(t)
	before := programRSS(t)
	program, err := OpenProgram()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(program.ReleasePages()).To(Succeed())
	g.Expect(programRSS(t)).To(BeNumerically("<", before))
}

// A debugger writes a breakpoint into the program while it runs.
func TestProgram_keepsPagesThatWereChangedLater(t *testing.T) {
	g := NewWithT(t)
	program, err := OpenProgram()
	g.Expect(err).NotTo(HaveOccurred())
	memory, err := os.OpenFile("/proc/self/mem", os.O_RDWR, 0)
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = memory.Close() })
	// The header of the file, which is not used any more, has unused bytes.
	unused := int64(program.mappings[0].start) + 9
	byteAt := make([]byte, 1)
	_, err = memory.ReadAt(byteAt, unused)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(byteAt).To(Equal([]byte{0}))
	if _, err := memory.WriteAt([]byte{7}, unused); err != nil {
		t.Skipf("This kernel does not let a process change its program: %v", err)
	}
	before := programRSS(t)
	g.Expect(program.ReleasePages()).To(Succeed())
	_, err = memory.ReadAt(byteAt, unused)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(byteAt).To(Equal([]byte{7}))
	g.Expect(programRSS(t)).To(BeNumerically("<", before), "the others are released")
	_, err = memory.WriteAt([]byte{0}, unused)
	g.Expect(err).NotTo(HaveOccurred())
}

// A page that is used must not bring the 16 pages around it.
func TestProgram_mapsFewPagesAtOnce(t *testing.T) {
	g := NewWithT(t)
	program, err := OpenProgram()
	g.Expect(err).NotTo(HaveOccurred())
	memory, err := os.Open("/proc/self/mem")
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = memory.Close() })
	g.Expect(program.ReleasePages()).To(Succeed())
	const distance = 64 << 10
	before, used := programRSS(t), 0
	for _, m := range program.mappings {
		for address := m.start; address < m.end; address += distance {
			_, err := memory.ReadAt(make([]byte, 1), int64(address))
			g.Expect(err).NotTo(HaveOccurred())
			used++
		}
	}
	g.Expect(programRSS(t)-before).To(BeNumerically("<", used*distance>>10/2), "KiB")
}

// programRSS returns the KiB of this program's file that are in memory.
func programRSS(t *testing.T) (kib int) {
	t.Helper()
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, found := strings.CutPrefix(line, "RssFile:"); found {
			for _, digit := range strings.Fields(rest)[0] {
				kib = kib*10 + int(digit-'0')
			}
		}
	}
	return kib
}

func TestParseMappings_knowsWhatDiffersFromTheFile(t *testing.T) {
	g := NewWithT(t)
	found, err := parseMappings(strings.NewReader(`00400000-00500000 r-xp 00000000 fe:00 12 /opt/my program
Size:               1024 kB
Anonymous:             0 kB
VmFlags: rd ex mr mw me
08cc1000-08cc2000 r--p 00100000 fe:00 12 /opt/my program
Anonymous:             4 kB
c000000000-c000400000 rw-p 00000000 00:00 0
`))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(found).To(Equal([]mapping{
		{start: 0x400000, end: 0x500000, permissions: "r-xp", path: "/opt/my program"},
		{start: 0x8cc1000, end: 0x8cc2000, permissions: "r--p", path: "/opt/my program", changed: true},
		{start: 0xc000000000, end: 0xc000400000, permissions: "rw-p", changed: true},
	}))
	_, err = parseMappings(strings.NewReader("zz-00500000 r-xp 0 0 0\n"))
	g.Expect(err).To(HaveOccurred())
}

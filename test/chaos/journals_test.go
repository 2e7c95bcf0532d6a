package main

import (
	"os/exec"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
)

func TestRecorder_writesToTheJournal(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	dir := t.TempDir()
	program := filepath.Join(dir, "recorder")
	out, err := exec.Command("go", "build", "-o", program, "./recorder").CombinedOutput()
	g.Expect(err).NotTo(HaveOccurred(), string(out))
	j, err := newJournals(filepath.Join(dir, "journals"), "127.0.0.1")
	g.Expect(err).NotTo(HaveOccurred())
	record := func(word string) ([]byte, error) {
		return exec.Command(program, j.address("ns/w0")+" 0.01 "+word+" i1 7 an-id").CombinedOutput()
	}

	out, err = record(wordCreated)
	g.Expect(err).NotTo(HaveOccurred(), string(out))
	renew := j.gate.Expire()
	out, err = record(wordDestroyed)
	g.Expect(err).To(HaveOccurred())
	g.Expect(string(out)).To(And(ContainSubstring("403"), ContainSubstring("ExpiredToken")))
	renew()
	out, err = record(wordDestroyed)
	g.Expect(err).NotTo(HaveOccurred(), string(out))

	g.Eventually(func() ([]entry, error) { return j.read("ns/w0") }, testTimeout).Should(HaveLen(2))
	entries, err := j.read("ns/w0")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(entries[0].tool).To(MatchRegexp(`^\d+@\d+$`))
	entries[0].tool = ""
	g.Expect(entries[0]).To(Equal(entry{word: wordCreated, name: "i1", number: 7, id: "an-id"}))
	g.Expect(entries[1].word).To(Equal(wordDestroyed))
}

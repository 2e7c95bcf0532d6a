package main

import (
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

func TestJournals_recordLines(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	dir := t.TempDir()
	recorder := filepath.Join(dir, "recorder")
	out, err := exec.Command("go", "build", "-o", recorder, "./recorder").CombinedOutput()
	g.Expect(err).NotTo(HaveOccurred(), string(out))
	j, err := newJournals(filepath.Join(dir, "journals"), "127.0.0.1")
	g.Expect(err).NotTo(HaveOccurred())
	defer j.listener.Close()
	record := func(word string) (string, error) {
		out, err := exec.Command(recorder, j.address("ns/w0")+" 0.1 "+word+" a 1 id1").CombinedOutput()
		return string(out), err
	}

	renew := j.expire()
	text, err := record("created")
	g.Expect(err).To(HaveOccurred())
	g.Expect(text).To(ContainSubstring("ExpiredToken"))
	renew()
	_, err = record("created")
	g.Expect(err).NotTo(HaveOccurred())
	// The recorder does not wait until its line is written.
	g.Eventually(func() ([]entry, error) { return j.read("ns/w0") }, 10*time.Second).Should(HaveLen(1))
	entries, err := j.read("ns/w0")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(entries[0].tool).To(MatchRegexp(`^\d+@[1-9]\d*$`))
	entries[0].tool = ""
	g.Expect(entries[0]).To(Equal(entry{word: wordCreated, name: "a", number: 1, id: "id1"}))
}

package runner

import (
	"archive/zip"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/terraform"
)

func TestPerform_rejectsAnUnknownOperation(t *testing.T) {
	g := NewWithT(t)
	_, r := newAPI(t)
	run := newExecution()
	run.request.Operation = "Guess"
	run.conclude(r.perform(t.Context(), run))
	g.Expect(run.result.Class).To(Equal(terraform.ClassTerminal))
	g.Expect(run.result.Diagnostics.Short()).To(Equal(`Unknown operation: operation "Guess" is unknown`))
}

func TestEstimateState(t *testing.T) {
	file := func(name string, size uint64) *zip.File {
		return &zip.File{FileHeader: zip.FileHeader{Name: name, CompressedSize64: size}}
	}
	for name, tc := range map[string]struct {
		files []*zip.File
		want  uint64
	}{
		"no files":            {},
		"a new state":         {[]*zip.File{file("tfplan", 100)}, 50},
		"a changed state":     {[]*zip.File{file("tfplan", 100), file("tfstate", 30)}, 80},
		"without other files": {[]*zip.File{file("tfstate", 30), file("tfstate-prev", 30), file("tfconfig/m-/main.tf", 1000)}, 30},
		"an odd size":         {[]*zip.File{file("tfplan", 3)}, 1},
	} {
		NewWithT(t).Expect(estimateState(tc.files)).To(Equal(tc.want), name)
	}
}

func TestCheckSize(t *testing.T) {
	large := make([]byte, secretLimit+1<<10)
	random := rand.New(rand.NewPCG(1, 2))
	for i := range large {
		large[i] = byte(random.Uint32())
	}
	small := large[:secretLimit/2]
	for name, tc := range map[string]struct {
		state     []byte
		change    func(*terraform.Request)
		encrypted bool
		tooLarge  bool
	}{
		"a small state":            {state: small},
		"a large state":            {state: large, tooLarge: true},
		"a large state to destroy": {state: large, change: func(r *terraform.Request) { r.Operation = terraform.OperationDestroy }},
		"a large state in s3":      {state: large, change: func(r *terraform.Request) { r.Backend = terraform.Backend{Type: "s3"} }},
		"an encrypted plan":        {encrypted: true},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			run := newExecution()
			if tc.change != nil {
				tc.change(run.request)
			}
			r := newRunner(Config{}, nil)
			r.workdir.Dir = t.TempDir()
			plan := r.workdir.PlanFile()
			g.Expect(os.MkdirAll(filepath.Dir(plan), 0o700)).To(Succeed())
			if tc.encrypted {
				g.Expect(os.WriteFile(plan, []byte(`{"encrypted_data":"x"}`), 0o600)).To(Succeed())
			} else {
				writePlan(g, plan, tc.state)
			}
			run.conclude(r.checkSize(run))
			g.Expect(run.result.StateTooLarge).To(Equal(tc.tooLarge))
			if tc.tooLarge {
				g.Expect(run.result.Class).To(Equal(terraform.ClassTerminal))
				g.Expect(run.result.Diagnostics.Short()).To(HavePrefix("State too large: the state would have about 1009 KiB, but the limit of a Secret is 1008 KiB, so nothing was applied."))
			}
		})
	}
}

func writePlan(g Gomega, path string, state []byte) {
	file, err := os.Create(path)
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { g.Expect(file.Close()).To(Succeed()) }()
	archive := zip.NewWriter(file)
	entry, err := archive.Create("tfstate")
	g.Expect(err).NotTo(HaveOccurred())
	_, err = entry.Write(state)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(archive.Close()).To(Succeed())
}

package command

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/terraform/command/binary"
	"github.com/appthrust/capt/internal/terraform/command/events"
	"github.com/appthrust/capt/internal/terraform/statefile"
)

// smallDisk mounts a small file system. Only root can.
func smallDisk(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64m")
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EACCES) {
		t.Skip("mounting a file system needs root")
	}
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	return dir
}

// fillingModule fills the disk while it is applied.
const fillingModule = `
resource "terraform_data" "a" {
  input = "made while the disk is full"
  provisioner "local-exec" {
    command = "dd if=/dev/zero of=../full bs=4k || true"
  }
}
resource "terraform_data" "b" {
  input = join("", [for i in range(1000) : terraform_data.a.id])
}`

func TestApply_printsItsStateOnAFullDisk(t *testing.T) {
	eachTool(t, func(t *testing.T, tool *binary.Tool) {
		for name, first := range map[string]bool{"first apply": true, "later apply": false} {
			t.Run(name, func(t *testing.T) {
				g := NewWithT(t)
				w := &Workdir{Tool: tool, Dir: filepath.Join(smallDisk(t), "work")}
				session, err := Prepare(context.Background(), w, kubernetesRequest(fillingModule))
				g.Expect(err).NotTo(HaveOccurred())
				var saved []byte
				if !first {
					saved = []byte(`{"version":4,"terraform_version":"1.0.0","serial":3,"lineage":"l","outputs":{},"resources":[]}`)
				}
				g.Expect(session.WriteState(saved)).To(Succeed())
				_, err = session.Plan(context.Background(), PlanOptions{Out: w.PlanFile()})
				g.Expect(err).NotTo(HaveOccurred())

				_, err = session.Apply(context.Background(), w.PlanFile(), nil)

				g.Expect(AsFailure(err)).NotTo(BeNil(), "the disk is full: %v", err)
				check := func(when string) {
					unsaved, err := UnsavedStates(w.Dir)
					g.Expect(err).NotTo(HaveOccurred(), when)
					g.Expect(unsaved).NotTo(BeEmpty(), when)
					state, err := statefile.Parse(unsaved[0].Content)
					g.Expect(err).NotTo(HaveOccurred(), when)
					g.Expect(state.Addresses).To(ContainElement("terraform_data.a"), when)
					g.Expect(unsaved[0].Continues(saved)).To(BeTrue(), when)
				}
				check("after the runner was killed")
				g.Expect(w.Scrub()).To(Succeed())
				check("after the working directory was cleaned")

				g.Expect(os.Remove(filepath.Join(w.Dir, "full"))).To(Succeed())
				_, err = Prepare(context.Background(), w, kubernetesRequest(`resource "terraform_data" "c" {}`))
				g.Expect(err).NotTo(HaveOccurred())
				check("in the next run, with another module")
				unsaved, err := UnsavedStates(w.Dir)
				g.Expect(err).NotTo(HaveOccurred())
				for _, state := range unsaved {
					g.Expect(state.Remove()).To(Succeed())
				}
				g.Expect(UnsavedStates(w.Dir)).To(BeEmpty())
			})
		}
	})
}

func TestApply_changesNothingIfItsStateMayNotFit(t *testing.T) {
	g := NewWithT(t)
	w := &Workdir{Tool: tofu(t), Dir: filepath.Join(smallDisk(t), "work")}
	session, err := Prepare(context.Background(), w, kubernetesRequest(fillingModule))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(session.WriteState(nil)).To(Succeed())
	_, err = session.Plan(context.Background(), PlanOptions{Out: w.PlanFile()})
	g.Expect(err).NotTo(HaveOccurred())
	full, err := os.Create(filepath.Join(filepath.Dir(w.Dir), "full"))
	g.Expect(err).NotTo(HaveOccurred())
	defer full.Close()
	for err == nil {
		_, err = full.Write(make([]byte, 4<<10))
	}
	g.Expect(err).To(MatchError(syscall.ENOSPC))

	_, err = session.Apply(context.Background(), w.PlanFile(), nil)

	g.Expect(err).To(MatchError(syscall.ENOSPC))
	g.Expect(err).To(MatchError(ContainSubstring("reserving space")))
	g.Expect(UnsavedStates(w.Dir)).To(BeEmpty())
}

// TestApply_keepsItsStateIfItIsStoppedOnAFullDisk interrupts the tool while it creates
// resources on a full disk.
func TestApply_keepsItsStateIfItIsStoppedOnAFullDisk(t *testing.T) {
	eachTool(t, func(t *testing.T, tool *binary.Tool) {
		g := NewWithT(t)
		w := &Workdir{Tool: tool, Dir: filepath.Join(smallDisk(t), "work")}
		request := kubernetesRequest(`
resource "terraform_data" "a" {
  provisioner "local-exec" {
    command = "dd if=/dev/zero of=../full bs=4k || true"
  }
}
resource "terraform_data" "b" {
  count = 3
  provisioner "local-exec" {
    command = "while [ ! -e ../full ]; do sleep 0.1; done; sleep ${1 + count.index}"
  }
}`)
		session, err := Prepare(context.Background(), w, request)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(session.WriteState(nil)).To(Succeed())
		_, err = session.Plan(context.Background(), PlanOptions{Out: w.PlanFile()})
		g.Expect(err).NotTo(HaveOccurred())
		ctx, stop := context.WithCancel(context.Background())
		session.onEvent = func(event events.Event) {
			if event.Type == events.TypeApplyComplete && event.Hook.Resource.Address == "terraform_data.a" {
				time.AfterFunc(500*time.Millisecond, stop)
			}
		}

		_, err = session.Apply(ctx, w.PlanFile(), nil)

		g.Expect(AsFailure(err)).NotTo(BeNil(), "%v", err)
		unsaved, err := UnsavedStates(w.Dir)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(unsaved).NotTo(BeEmpty())
		state, err := statefile.Parse(unsaved[len(unsaved)-1].Content)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(state.Addresses).To(ConsistOf("terraform_data.a", "terraform_data.b[0]", "terraform_data.b[1]", "terraform_data.b[2]"))
	})
}

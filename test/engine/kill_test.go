package engine

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/terraform/record"
	"github.com/appthrust/capt/internal/testenv"
	"github.com/appthrust/capt/internal/testenv/objecttest"
)

// pausingTofu wraps OpenTofu and pauses it before or after a subcommand, such as plan,
// state-push or state-push.2 for the second call, while a file exists.
const pausingTofu = `#!/bin/sh
hold() {
  [ -e "$DIR/hold-$1" ] || return 0
  : > "$DIR/reached-$1"
  while [ -e "$DIR/hold-$1" ]; do sleep 0.02; done
}
name=$1
[ "$1" != state ] || name=state-$2
count=$(($(cat "$DIR/count-$name" 2>/dev/null || echo 0) + 1))
echo $count > "$DIR/count-$name"
for point in "$name" "$name.$count"; do
  hold "before-$point"
  if [ -e "$DIR/hold-after-$point" ]; then
    TOFU "$@"
    code=$?
    hold "after-$point"
    exit $code
  fi
done
exec TOFU "$@"
`

// several creates four directories, and then waits while the file hold exists. An interrupted
// tool kills its provisioners, and repeats one that had done its work.
const several = `
variable "dir" { type = string }
resource "terraform_data" "thing" {
  count = 4
  input = "${var.dir}/thing-${count.index}"
  provisioner "local-exec" { command = "mkdir -p ${self.input}; while [ -e ${var.dir}/hold ]; do sleep 0.1; done" }
  provisioner "local-exec" {
    when    = destroy
    command = "[ ! -d ${self.input} ] || rmdir ${self.input}"
  }
}
output "count" { value = length(terraform_data.thing) }
`

// newPausingHarness returns a harness whose manager uses an OpenTofu that can be
// paused.
func newPausingHarness(t *testing.T) *harness {
	t.Helper()
	tofu, err := testenv.Part("tofu")
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	bin := t.TempDir()
	control := t.TempDir()
	script := filepath.Join(bin, "tofu")
	text := replaceAll(pausingTofu, "TOFU", tofu, "$DIR", control)
	NewWithT(t).Expect(os.WriteFile(script, []byte(text), 0o700)).To(Succeed())
	w := newHarnessWithManager(t, "--terraform-binary="+script)
	w.control = control
	return w
}

func (w *harness) hold(point string) {
	w.Expect(os.WriteFile(filepath.Join(w.control, "hold-"+point), nil, 0o600)).To(Succeed())
}

func (w *harness) waitReached(point string) {
	w.t.Helper()
	w.Eventually(filepath.Join(w.control, "reached-"+point), testTimeout, 20*time.Millisecond).Should(BeAnExistingFile())
}

func (w *harness) release(point string) {
	w.Expect(os.RemoveAll(filepath.Join(w.control, "hold-"+point))).To(Succeed())
	w.Expect(os.RemoveAll(filepath.Join(w.control, "reached-"+point))).To(Succeed())
}

// killRunner kills the runner of a workspace's newest run.
func (w *harness) killRunner(name string) {
	w.t.Helper()
	w.Eventually(func(g Gomega) {
		runs := w.get(name).Status.Runs
		g.Expect(runs).NotTo(BeZero())
		identity, err := record.RunIdentity(w.secret(record.SecretName(fmt.Sprintf("%s-r%d", name, runs))))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(identity).NotTo(BeNil())
		g.Expect(syscall.Kill(identity.PID, syscall.SIGKILL)).To(Succeed())
	}, testTimeout).Should(Succeed())
}

// directories returns the number of existing directories.
func (w *harness) directories() int {
	found, err := filepath.Glob(filepath.Join(w.dir, "thing-*"))
	w.Expect(err).NotTo(HaveOccurred())
	return len(found)
}

// The manager, the runner or both are killed at each point of a run. Each time the
// system converges by itself: every resource exists exactly once, in the state and
// on disk, and no lock remains.
func TestKill(t *testing.T) {
	points := []string{"before-init", "before-plan", "after-plan", "before-apply", "in-apply", "after-apply"}
	targets := map[string]func(w *harness){
		"manager": func(w *harness) { w.Expect(w.Stop(syscall.SIGKILL)).To(Succeed()) },
		"runner":  func(w *harness) { w.killRunner("hello") },
		"both":    func(w *harness) { w.killRunner("hello"); w.Expect(w.Stop(syscall.SIGKILL)).To(Succeed()) },
	}
	for _, point := range points {
		for target, kill := range targets {
			if target == "both" && point != "in-apply" && point != "after-apply" {
				continue // Only there, what the runner leaves and what the manager knows differ.
			}
			t.Run(point+"/"+target, func(t *testing.T) {
				w := newPausingHarness(t)
				w.template("several", several)
				if point == "in-apply" {
					w.touch("hold")
				} else {
					w.hold(point)
				}
				w.apply("hello", "several", variables(map[string]string{"dir": w.dir}))
				if point == "in-apply" {
					w.Eventually(w.directories, testTimeout, 10*time.Millisecond).Should(BeNumerically(">", 0))
				} else {
					w.waitReached(point)
				}

				kill(w)
				w.release(point)
				w.remove("hold")
				if target != "runner" {
					w.Expect(w.Start()).To(Succeed())
				}

				w.waitReady("hello")
				w.expectConverged("hello")

				w.destroy("hello")
				w.Expect(w.directories()).To(BeZero())
				w.Expect(w.secrets()).To(BeEmpty())
			})
		}
	}
}

// versioned is several whose directories are replaced by another version. In the one that is
// created, the tool waits while the file hold exists.
var versioned = replaceAll(several,
	`variable "dir" { type = string }`, "variable \"dir\" { type = string }\nvariable \"release\" { type = string }",
	`input = "${var.dir}/thing-${count.index}"`, "input = \"${var.dir}/thing-${count.index}\"\n  triggers_replace = var.release",
	"mkdir -p ${self.input};", "mkdir -p ${self.input}; touch ${var.dir}/started-${self.triggers_replace};",
)

// The same for an update, which destroys and creates, in one run and in two: that of a plan, and
// that of its approved plan. No resource is lost, and no other plan than an approved one is applied.
func TestKill_whileUpdating(t *testing.T) {
	targets := map[string]func(w *harness){
		"manager": func(w *harness) { w.Expect(w.Stop(syscall.SIGKILL)).To(Succeed()) },
		"runner":  func(w *harness) { w.killRunner("hello") },
	}
	for _, approval := range []infrav1.ApprovalMode{infrav1.ApprovalAuto, infrav1.ApprovalManual} {
		for _, point := range []string{"before-plan", "after-plan", "before-apply", "in-apply", "after-apply"} {
			for target, kill := range targets {
				t.Run(fmt.Sprintf("%s/%s/%s", approval, point, target), func(t *testing.T) {
					w := newPausingHarness(t)
					w.template("versioned", versioned)
					w.apply("hello", "versioned", variables(map[string]string{"dir": w.dir, "release": "1"}))
					w.waitReady("hello")

					isPlanned := point == "before-plan" || point == "after-plan"
					if point == "in-apply" {
						w.touch("hold")
					} else {
						w.hold(point)
					}
					w.change("hello", func(a *infrav1.WorkspaceTemplateApply) {
						a.Spec.Approval = approval
						a.Spec.Variables["release"] = infrav1.StringValue("2")
					})
					if approval == infrav1.ApprovalManual && !isPlanned {
						w.approveWaiting("hello")
					}
					if point == "in-apply" {
						w.Eventually(filepath.Join(w.dir, "started-2"), testTimeout, 10*time.Millisecond).Should(BeAnExistingFile())
					} else {
						w.waitReached(point)
					}

					kill(w)
					w.release(point)
					w.remove("hold")
					if target == "manager" {
						w.Expect(w.Start()).To(Succeed())
					}
					if approval == infrav1.ApprovalManual && isPlanned {
						w.approveWaiting("hello")
						w.Expect(filepath.Join(w.dir, "started-2")).NotTo(BeAnExistingFile(), "nothing is created before the approval")
					}

					w.Eventually(func(g Gomega) {
						a := w.get("hello")
						// What the plan of an interrupted apply has not done needs another one.
						if a.Status.Plan.IsWaiting() && a.Spec.ApprovedPlan != a.Status.Plan.ID {
							a.Spec.ApprovedPlan = a.Status.Plan.ID
							g.Expect(env.Client.Update(w.ctx, a)).To(Succeed())
						}
						ready := objecttest.Condition(a, infrav1.ReadyCondition)
						g.Expect(objecttest.Text(ready)).To(HavePrefix("True"))
						g.Expect(ready.ObservedGeneration).To(Equal(a.Generation))
					}, testTimeout).Should(Succeed())
					w.expectConverged("hello")
					w.Expect(filepath.Join(w.dir, "started-2")).To(BeAnExistingFile())
				})
			}
		}
	}
}

// approveWaiting waits for a plan, and approves it.
func (w *harness) approveWaiting(name string) {
	w.t.Helper()
	w.waitReason(name, infrav1.AppliedCondition, infrav1.WaitingForApprovalReason)
	w.change(name, func(a *infrav1.WorkspaceTemplateApply) { a.Spec.ApprovedPlan = a.Status.Plan.ID })
}

func (w *harness) expectConverged(name string) {
	w.t.Helper()
	w.Expect(w.addresses(name)).To(HaveLen(4), "every resource is in the state exactly once")
	w.Expect(w.directories()).To(Equal(4), "every resource exists exactly once")
	w.Expect(w.lease(name).Spec.HolderIdentity).To(BeNil(), "no lock remains")
}

func TestKill_whileDestroying(t *testing.T) {
	for _, target := range []string{"manager", "runner"} {
		t.Run(target, func(t *testing.T) {
			w := newPausingHarness(t)
			w.hello("several", several, variables(map[string]string{"dir": w.dir}))
			w.hold("before-apply")
			w.delete("hello")
			w.waitReached("before-apply")
			if target == "manager" {
				w.Expect(w.Stop(syscall.SIGKILL)).To(Succeed())
				w.release("before-apply")
				w.Expect(w.Start()).To(Succeed())
			} else {
				w.killRunner("hello")
				w.release("before-apply")
			}
			w.waitDeleted("hello")
			w.Expect(w.directories()).To(BeZero())
			w.Expect(w.secrets()).To(BeEmpty())
		})
	}
}

// lingering creates a directory, and runs while the file hold exists.
const lingering = `
variable "dir" { type = string }
resource "terraform_data" "thing" {
  input = "${var.dir}/thing-0"
  provisioner "local-exec" { command = "mkdir -p ${self.input}" }
  provisioner "local-exec" {
    when    = destroy
    command = "[ ! -d ${self.input} ] || rmdir ${self.input}"
  }
}
resource "terraform_data" "slow" {
  depends_on = [terraform_data.thing]
  provisioner "local-exec" { command = "touch ${var.dir}/started; while [ -e ${var.dir}/hold ]; do sleep 0.1; done" }
}
`

// The state of the deleted workspace is still empty, because the tool that creates
// its resources has not saved it yet.
func TestKill_ofTheFirstRunThenDelete(t *testing.T) {
	for name, disrupt := range map[string]func(w *harness){
		"the runner is killed": func(w *harness) { w.killRunner("hello") },
		"the record of the run is deleted": func(w *harness) {
			w.Expect(env.Client.Delete(w.ctx, w.secret(record.SecretName("hello-r1")))).To(Succeed())
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newHarnessWithManager(t)
			w.template("lingering", lingering)
			w.touch("hold")
			w.apply("hello", "lingering", variables(map[string]string{"dir": w.dir}))
			w.Eventually(filepath.Join(w.dir, "started"), testTimeout).Should(BeAnExistingFile())
			disrupt(w)
			w.delete("hello")
			w.waitDeleted("hello")
			w.Expect(w.directories()).To(BeZero(), "created resources are destroyed")
			w.Expect(w.secrets()).To(BeEmpty())
		})
	}
}

func TestKill_ofARunThenRetain_savesTheState(t *testing.T) {
	w := newHarnessWithManager(t)
	w.template("lingering", lingering)
	w.touch("hold")
	w.apply("hello", "lingering", variables(map[string]string{"dir": w.dir}), func(s *infrav1.WorkspaceTemplateApplySpec) { s.RetainWorkspaceOnDelete = true })
	w.Eventually(filepath.Join(w.dir, "started"), testTimeout).Should(BeAnExistingFile())
	w.killRunner("hello")
	w.delete("hello")
	w.waitDeleted("hello")
	w.Expect(w.addresses("hello")).To(ContainElement("terraform_data.thing"), "the next workspace, wherever it runs, knows the resource")
	w.Expect(filepath.Join(w.WorkDir, "workspaces", w.namespace, "hello")).NotTo(BeADirectory())
}

func TestKill_withASavedPlan(t *testing.T) {
	w := newHarnessWithManager(t)
	w.template("several", several)
	w.apply("hello", "several", manual, variables(map[string]string{"dir": w.dir}))
	w.waitReason("hello", infrav1.AppliedCondition, infrav1.WaitingForApprovalReason)
	plan := w.get("hello").Status.Plan.ID

	w.Expect(w.Stop(syscall.SIGKILL)).To(Succeed())
	w.change("hello", func(a *infrav1.WorkspaceTemplateApply) { a.Spec.ApprovedPlan = plan })
	w.Expect(w.Start()).To(Succeed())

	a := w.waitReady("hello")
	w.Expect(a.Status.History[0].Operation).To(BeEquivalentTo("Apply"))
	w.Expect(a.Status.Plan.ID).To(Equal(plan), "the approved plan was applied")
	w.expectConverged("hello")
}

func TestRestart_startsNoRun(t *testing.T) {
	w := newHarnessWithManager(t)
	w.template("greeting", greeting)
	for i := range 5 {
		w.apply(fmt.Sprintf("hello-%d", i), "greeting", variables(map[string]string{"name": "world"}))
	}
	versions := map[string]string{}
	for i := range 5 {
		name := fmt.Sprintf("hello-%d", i)
		w.waitReady(name)
		w.waitLineage(name)
	}
	w.Expect(w.Stop(syscall.SIGTERM)).To(Succeed())
	for i := range 5 {
		versions[fmt.Sprintf("hello-%d", i)] = w.get(fmt.Sprintf("hello-%d", i)).ResourceVersion
	}
	w.Expect(w.Start()).To(Succeed())
	// A new workspace shows that the manager works.
	w.apply("new", "greeting", variables(map[string]string{"name": "world"}))
	w.waitReady("new")
	for name, version := range versions {
		w.Expect(w.get(name).ResourceVersion).To(Equal(version), "%s was not written", name)
	}
}

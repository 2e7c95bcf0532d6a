package operate

import (
	"os"
	"testing"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/host"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
)

func TestLockOf_prefersTheHolderOfTheLease(t *testing.T) {
	lease := func(holder *string, info string) *coordinationv1.Lease {
		l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{record.LockInfoAnnotation: info}}}
		l.Spec.HolderIdentity = holder
		return l
	}
	run := &infrav1.RunStatus{ID: "net-r1", Operation: "PlanAndApply"}
	for name, tc := range map[string]struct {
		lease *coordinationv1.Lease
		run   *infrav1.RunStatus
		want  *Lock
	}{
		"no lease":                    {lease: &coordinationv1.Lease{}},
		"released lease":              {lease: lease(new(""), `{"Who": "me"}`)},
		"held lease":                  {lease: lease(new("id"), `{"Who": "me@here", "Operation": "apply", "Created": "today"}`), want: &Lock{ID: "id", Who: "me@here", Operation: "apply", Created: "today"}},
		"held lease without details":  {lease: lease(new("id"), ""), want: &Lock{ID: "id"}},
		"held lease and a run":        {lease: lease(new("id"), ""), run: run, want: &Lock{ID: "id"}},
		"run in progress, no lease":   {lease: &coordinationv1.Lease{}, run: run, want: &Lock{ID: "net-r1", Operation: "PlanAndApply"}},
		"run in progress, lease free": {lease: lease(new(""), ""), run: run, want: &Lock{ID: "net-r1", Operation: "PlanAndApply"}},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(lockOf(tc.lease, tc.run)).To(Equal(tc.want))
		})
	}
}

func TestIsRunOf(t *testing.T) {
	for id, want := range map[string]bool{"net-r1": true, "net-r": false, "net-rx": false, "network-r1": false, "net-r1-r2": false, "3f0c-4c1d": false, "": false} {
		NewWithT(t).Expect(isRunOf("net", id)).To(Equal(want), id)
	}
}

func TestFailedOnForeignLock(t *testing.T) {
	failed := func(reason, backend string, runs int) *infrav1.WorkspaceTemplateApplyStatus {
		return &infrav1.WorkspaceTemplateApplyStatus{
			Failure: &infrav1.FailureStatus{Reason: reason}, State: &infrav1.StateStatus{Backend: backend}, History: make([]infrav1.RunRecord, runs),
		}
	}
	withoutState := failed(infrav1.LockHeldReason, "", 1)
	withoutState.State = nil
	for name, tc := range map[string]struct {
		status *infrav1.WorkspaceTemplateApplyStatus
		want   bool
	}{
		"lock in S3":            {failed(infrav1.LockHeldReason, "s3", 1), true},
		"lock in Kubernetes":    {failed(infrav1.LockHeldReason, terraform.BackendKubernetes, 1), false},
		"default backend":       {failed(infrav1.LockHeldReason, "", 1), false},
		"no state":              {withoutState, false},
		"other failure":         {failed(infrav1.RunFailedReason, "s3", 1), false},
		"no run in the history": {failed(infrav1.LockHeldReason, "s3", 0), false},
		"no failure":            {&infrav1.WorkspaceTemplateApplyStatus{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(failedOnForeignLock(tc.status)).To(Equal(tc.want))
		})
	}
}

func TestFindLock_reportsTheLivenessOfItsHolder(t *testing.T) {
	apply := workspace("net")
	apply.Status.Run = &infrav1.RunStatus{ID: "net-r1"}
	for name, tc := range map[string]struct {
		apply *infrav1.WorkspaceTemplateApply
		want  *Lock
	}{
		"not locked":                   {workspace("net"), nil},
		"record of the run is deleted": {apply, &Lock{ID: "net-r1", OwnRun: true, Holder: terraform.LivenessGone, Where: "the run has ended"}},
	} {
		t.Run(name, func(t *testing.T) {
			lock, err := FindLock(t.Context(), newClient(), tc.apply)
			NewWithT(t).Expect(err).NotTo(HaveOccurred())
			NewWithT(t).Expect(lock).To(Equal(tc.want))
		})
	}
	t.Run("run has not started", func(t *testing.T) {
		lock, err := FindLock(t.Context(), newClient(runSecret(apply, "net-r1")), apply)
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		NewWithT(t).Expect(lock).To(Equal(&Lock{ID: "net-r1", OwnRun: true, Holder: terraform.LivenessPending, Where: "the run has not started"}))
	})
}

func TestProcessLiveness_isKnownOnlyOnTheSameMachine(t *testing.T) {
	g := NewWithT(t)
	hostname, err := os.Hostname()
	g.Expect(err).NotTo(HaveOccurred())
	started, err := host.ProcessStartTime(os.Getpid())
	g.Expect(err).NotTo(HaveOccurred())
	running := record.Identity{Host: hostname, Boot: host.BootID(), PID: os.Getpid(), Started: started}
	elsewhere, rebooted := running, running
	elsewhere.Host, rebooted.Boot = hostname+"-2", "another boot"
	g.Expect(processLiveness(&running)).To(Equal(terraform.LivenessRunning))
	g.Expect(processLiveness(&elsewhere)).To(Equal(terraform.LivenessUnknown))
	g.Expect(processLiveness(&rebooted)).To(Equal(terraform.LivenessGone))
}

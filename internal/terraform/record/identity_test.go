package record_test

import (
	"errors"
	"os"
	"os/exec"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/appthrust/capt/internal/host"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
	_ "github.com/appthrust/capt/internal/testenv/waits"
)

func TestPodLiveness(t *testing.T) {
	pod := func(uid types.UID, phase corev1.PodPhase) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "runner", UID: uid}, Status: corev1.PodStatus{Phase: phase}}
	}
	deleted := pod("u", corev1.PodRunning)
	deleted.DeletionTimestamp = &metav1.Time{Time: at}
	containers := func(restarts int32, started ...time.Time) *corev1.Pod {
		p := pod("u", corev1.PodRunning)
		for _, time := range started {
			p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{
				RestartCount: restarts, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(time)}},
			})
		}
		return p
	}
	tests := []struct {
		name string
		pod  *corev1.Pod
		err  error
		want terraform.Liveness
	}{
		{name: "pending", pod: pod("u", corev1.PodPending), want: terraform.LivenessRunning},
		{name: "running", pod: pod("u", corev1.PodRunning), want: terraform.LivenessRunning},
		{name: "unreachable node", pod: pod("u", corev1.PodUnknown), want: terraform.LivenessRunning},
		{name: "being deleted", pod: deleted, want: terraform.LivenessRunning},
		{name: "the container of the claim", pod: containers(1, at.Add(-time.Minute)), want: terraform.LivenessRunning},
		{name: "the next container", pod: containers(1, at.Add(time.Minute)), want: terraform.LivenessGone},
		{name: "the next container of another", pod: containers(1, at.Add(time.Minute), at.Add(-time.Minute)), want: terraform.LivenessRunning},
		{name: "a status from before the start", pod: containers(0, at.Add(time.Minute)), want: terraform.LivenessRunning},
		{name: "succeeded", pod: pod("u", corev1.PodSucceeded), want: terraform.LivenessGone},
		{name: "failed", pod: pod("u", corev1.PodFailed), want: terraform.LivenessGone},
		{name: "another pod of that name", pod: pod("other", corev1.PodRunning), want: terraform.LivenessGone},
		{name: "not found", pod: &corev1.Pod{}, err: apierrors.NewNotFound(corev1.Resource("pods"), "runner"), want: terraform.LivenessGone},
		{name: "forbidden", pod: &corev1.Pod{}, err: apierrors.NewForbidden(corev1.Resource("pods"), "runner", nil), want: terraform.LivenessUnknown},
		{name: "any other error", pod: &corev1.Pod{}, err: errors.New("timeout"), want: terraform.LivenessUnknown},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			identity := &record.Identity{PodName: "runner", PodUID: "u", ClaimedAt: at}

			liveness, err := identity.PodLiveness(tt.pod, tt.err)

			g.Expect(liveness).To(Equal(tt.want))
			if tt.want == terraform.LivenessUnknown {
				g.Expect(err).To(MatchError(tt.err))
			} else {
				g.Expect(err).NotTo(HaveOccurred())
			}
		})
	}
}

func TestIdentity_Alive(t *testing.T) {
	g := NewWithT(t)
	started, err := host.ProcessStartTime(os.Getpid())
	g.Expect(err).NotTo(HaveOccurred())
	self := record.Identity{PID: os.Getpid(), Started: started}
	g.Expect(self.Alive()).To(BeTrue())

	reused := record.Identity{PID: os.Getpid(), Started: started - 1}
	g.Expect(reused.Alive()).To(BeFalse(), "another process has the PID")
}

func TestIdentity_Alive_isFalseAfterExit(t *testing.T) {
	g := NewWithT(t)
	cmd := exec.Command("cat")
	stdin, err := cmd.StdinPipe()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(cmd.Start()).To(Succeed())
	started, err := host.ProcessStartTime(cmd.Process.Pid)
	g.Expect(err).NotTo(HaveOccurred())
	child := record.Identity{PID: cmd.Process.Pid, Started: started}
	g.Expect(child.Alive()).To(BeTrue())

	g.Expect(stdin.Close()).To(Succeed())
	g.Eventually(child.Alive).Should(BeFalse(), "a zombie has exited")
	_, err = host.ProcessStartTime(cmd.Process.Pid)
	g.Expect(err).To(MatchError(os.ErrNotExist))

	g.Expect(cmd.Wait()).To(Succeed())
	g.Expect(child.Alive()).To(BeFalse())
	_, err = host.ProcessStartTime(cmd.Process.Pid)
	g.Expect(err).To(MatchError(os.ErrNotExist))
}

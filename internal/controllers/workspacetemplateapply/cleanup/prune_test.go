package cleanup

import (
	"strconv"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
)

func TestComponents(t *testing.T) {
	g := NewWithT(t)

	deleted, released := components(false)
	g.Expect(deleted).To(ConsistOf("run", "plan", "transfer", "snapshot", "connection", "state"))
	g.Expect(released).To(ConsistOf("rescue", "snapshot", "state"), "what is not deleted may be the only record of resources")

	deleted, released = components(true)
	g.Expect(deleted).To(ConsistOf("run", "plan", "transfer"))
	g.Expect(released).To(ConsistOf("snapshot", "connection", "state", "rescue"), "a rescued state may be the only copy")
}

func TestSurplusModules(t *testing.T) {
	secret := func(name string) corev1.Secret { return corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}} }
	workspace := terraform.WorkspaceRef{Name: "w", UID: "u"}
	secrets := []corev1.Secret{secret("capt-module-w-1-0"), secret("capt-module-w-1-1"), secret("capt-module-w-2-0"), secret(record.ChunkName(record.ModuleName(workspace, "a"), 0))}
	for name, tc := range map[string]struct {
		module *infrav1.ModuleStatus
		want   []corev1.Secret
	}{
		"nothing is used":        {nil, secrets},
		"nothing stored is used": {&infrav1.ModuleStatus{Digest: "d"}, secrets},
		"all parts of one":       {&infrav1.ModuleStatus{Archive: "module-w-1"}, secrets[2:]},
		"a stored artifact":      {&infrav1.ModuleStatus{Archive: "module-w-1", Artifact: "a"}, secrets[2:]},
		"only the artifact":      {&infrav1.ModuleStatus{Artifact: "a"}, secrets[:3]},
	} {
		NewWithT(t).Expect(surplusModules(workspace, secrets, tc.module)).To(Equal(tc.want), name)
	}
}

func TestSurplusSnapshots(t *testing.T) {
	g := NewWithT(t)
	var secrets []corev1.Secret
	for _, run := range []string{"hello-r2", "hello-r10", "hello-r9", "hello-r1"} {
		for i := range 2 {
			secrets = append(secrets, corev1.Secret{ObjectMeta: metav1.ObjectMeta{
				Name: record.ChunkName(record.SnapshotName(run, nil), i), Labels: map[string]string{infrav1.RunLabel: run},
			}})
		}
	}
	names := func(keep int) (all []string) {
		for _, secret := range SurplusSnapshots(secrets, keep) {
			all = append(all, secret.Name)
		}
		return all
	}
	g.Expect(names(4)).To(BeEmpty())
	g.Expect(names(9)).To(BeEmpty())
	g.Expect(names(2)).To(ConsistOf(HavePrefix("capt-snapshot-hello-r1-"), HavePrefix("capt-snapshot-hello-r1-"), HavePrefix("capt-snapshot-hello-r2-"), HavePrefix("capt-snapshot-hello-r2-")))
}

func TestSurplusSnapshots_keepsTheNewest(t *testing.T) {
	now := time.Now()
	snapshot := func(run string, age time.Duration, content string) corev1.Secret {
		return corev1.Secret{ObjectMeta: metav1.ObjectMeta{
			Name: record.ChunkName(record.SnapshotName(run, []byte(content)), 0), Labels: map[string]string{infrav1.RunLabel: run},
			CreationTimestamp: metav1.NewTime(now.Add(-age)),
		}}
	}
	// Snapshots of a retained workspace, and those of its successor.
	secrets := []corev1.Secret{snapshot("hello-r50", time.Hour, "a"), snapshot("hello-r2", time.Hour, "b"), snapshot("hello-r2", time.Minute, "c"), snapshot("hello-r3", time.Second, "d")}
	NewWithT(t).Expect(SurplusSnapshots(secrets, 2)).To(ConsistOf(secrets[0], secrets[1]))
}

func TestSurplusPlans(t *testing.T) {
	const planID = "plan-0123456789abcdef"
	waiting, other := record.ChunkName(planID, 1), record.ChunkName("plan-fedcba9876543210", 0)
	tests := []struct {
		name string
		plan *infrav1.PlanStatus
		want []string
	}{
		{"no plan", nil, []string{waiting, other}},
		{"the plan waits", &infrav1.PlanStatus{ID: planID, Waiting: new(true)}, []string{other}},
		{"the plan does not wait any more", &infrav1.PlanStatus{ID: planID, Waiting: new(false)}, []string{waiting, other}},
		{"the plan never waited", &infrav1.PlanStatus{ID: planID}, []string{waiting, other}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			secrets := []corev1.Secret{{ObjectMeta: metav1.ObjectMeta{Name: waiting}}, {ObjectMeta: metav1.ObjectMeta{Name: other}}}
			NewWithT(t).Expect(secretNames(surplusPlans(secrets, tt.plan))).To(Equal(tt.want))
		})
	}
}

func TestSurplusPlans_keepsTheLatestChanges(t *testing.T) {
	var secrets []corev1.Secret
	for number, planID := range []string{"plan-0", "plan-1", "plan-2", "plan-3", "plan-4"} {
		for chunk := range 2 {
			secrets = append(secrets, corev1.Secret{ObjectMeta: metav1.ObjectMeta{
				Name: record.ChunkName(record.ChangesName(planID), chunk), Labels: map[string]string{infrav1.RunLabel: "hello-r" + strconv.Itoa(8+number)},
			}})
		}
	}
	surplus := secretNames(surplusPlans(secrets, &infrav1.PlanStatus{ID: "plan-0"}))
	NewWithT(t).Expect(surplus).To(Equal([]string{"capt-plan-1-changes-0", "capt-plan-1-changes-1"}), "those of the current plan, and of the three latest runs are kept")
}

func secretNames(secrets []corev1.Secret) (names []string) {
	for _, secret := range secrets {
		names = append(names, secret.Name)
	}
	return names
}

func TestSnapshotLimit_hasADefault(t *testing.T) {
	g := NewWithT(t)
	apply := &infrav1.WorkspaceTemplateApply{}
	g.Expect(snapshotLimit(apply)).To(Equal(5))
	apply.Spec.SnapshotLimit = new(int32(0))
	g.Expect(snapshotLimit(apply)).To(Equal(0))
}

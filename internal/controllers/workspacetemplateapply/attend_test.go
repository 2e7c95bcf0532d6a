package workspacetemplateapply

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/decision"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/execution"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/history"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/runs"
	"github.com/appthrust/capt/internal/reconcile/fault"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
)

func TestActionFor(t *testing.T) {
	const apply, destroy = terraform.OperationPlanAndApply, terraform.OperationDestroy
	cancel, cancelOther := newCancelOperation("hello-r1"), newCancelOperation("hello-r0")
	unlock, unlockOther := newUnlockOperation("hello-r1"), newUnlockOperation("hello-r0")
	tests := []struct {
		name      string
		liveness  terraform.Liveness
		requested *infrav1.WorkspaceOperation
		deleting  bool
		operation terraform.Operation
		want      execution.Action
	}{
		{"pending", terraform.LivenessPending, nil, false, apply, execution.ActionStart},
		{"pending and canceled", terraform.LivenessPending, cancel, false, apply, execution.ActionWithdraw},
		{"pending, another run canceled", terraform.LivenessPending, cancelOther, false, apply, execution.ActionStart},
		{"pending and workspace deleted", terraform.LivenessPending, nil, true, apply, execution.ActionWithdraw},
		{"pending and destroying", terraform.LivenessPending, nil, true, destroy, execution.ActionStart},
		{"running", terraform.LivenessRunning, nil, false, apply, execution.ActionObserve},
		{"canceled", terraform.LivenessRunning, cancel, false, apply, execution.ActionStop},
		{"another run canceled", terraform.LivenessRunning, cancelOther, false, apply, execution.ActionObserve},
		{"unlocked while running", terraform.LivenessRunning, unlock, false, apply, execution.ActionObserve},
		{"workspace deleted", terraform.LivenessRunning, nil, true, apply, execution.ActionStop},
		{"destroying", terraform.LivenessRunning, nil, true, destroy, execution.ActionObserve},
		{"destroying, canceled", terraform.LivenessRunning, cancel, true, destroy, execution.ActionStop},
		{"gone", terraform.LivenessGone, nil, false, apply, execution.ActionRecordLoss},
		{"unknown", terraform.LivenessUnknown, nil, false, apply, execution.ActionWaitForProof},
		{"unknown and canceled", terraform.LivenessUnknown, cancel, true, apply, execution.ActionWaitForProof},
		{"unknown and unlocked", terraform.LivenessUnknown, unlock, false, apply, execution.ActionRecordLoss},
		{"unknown, another run unlocked", terraform.LivenessUnknown, unlockOther, false, apply, execution.ActionWaitForProof},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			s := newScope("hello")
			run := startRun(g, s, decision.Decision{Operation: tt.operation})
			if tt.requested != nil {
				ask(s, tt.requested)
			}
			if tt.deleting {
				s.Apply.DeletionTimestamp = new(metav1.NewTime(noon))
			}
			g.Expect(execution.ActionFor(s.Workspace, run, tt.liveness, s.Obsolete(run) != "")).To(Equal(tt.want))
		})
	}
}

func TestObserveAgain(t *testing.T) {
	g := NewWithT(t)
	run := startRun(g, newScope("hello"), decision.Decision{Operation: terraform.OperationPlan})
	g.Expect(execution.ObserveAgain(run)).To(Equal(10*time.Second), "no watch shows what prevents a pod from starting")
	claim(g, run, record.Identity{Host: "h"})
	g.Expect(execution.ObserveAgain(run)).To(Equal(time.Minute))
}

func TestLostResult(t *testing.T) {
	g := NewWithT(t)
	run := startRun(g, newScope("hello"), decision.Decision{Operation: terraform.OperationPlan})
	result := runs.Lost(run, noon, noon.Add(time.Minute), "")
	g.Expect(result).To(HaveField("RunID", "hello-r1"))
	g.Expect(result).To(HaveField("Operation", terraform.OperationPlan))
	g.Expect(result).To(HaveField("Outcome", runs.OutcomeLost))
	g.Expect(history.Duration(result)).To(Equal(time.Minute))
	g.Expect(result.Diagnostics[0].Detail).To(HaveSuffix("from the state."))
	g.Expect(runs.Lost(run, noon, noon, "The node was removed.").Diagnostics[0].Detail).To(HaveSuffix("from the state. The node was removed."))
}

func TestSetRunStatus(t *testing.T) {
	g := NewWithT(t)
	s := newScope("hello")
	run := startRun(g, s, decision.Decision{Operation: terraform.OperationPlanAndApply})
	run.Secret.CreationTimestamp = metav1.NewTime(noon.Add(-time.Minute))

	s.SetRunStatus(run, nil)
	g.Expect(s.Apply.Status.Run).To(Equal(&infrav1.RunStatus{
		ID: "hello-r1", Operation: "PlanAndApply", Inputs: inputs, StartedAt: metav1.NewTime(noon.Add(-time.Minute)),
	}))

	run.Secret.CreationTimestamp = metav1.Time{}
	progress := &terraform.Progress{Phase: terraform.PhaseApplying, Done: 1, Total: 20}
	for i := range 12 {
		progress.Current = append(progress.Current, terraform.ResourceProgress{Address: strings.Repeat("ß", 1000) + fmt.Sprint(i), Action: terraform.ActionCreate, Since: noon})
	}
	s.SetRunStatus(run, progress)
	status := s.Apply.Status.Run
	g.Expect(status.StartedAt.Time).To(Equal(noon), "the API server has not set the creation time yet")
	g.Expect(status.Progress.Phase).To(BeEquivalentTo(terraform.PhaseApplying))
	g.Expect(status.Progress.Done).To(BeEquivalentTo(1))
	g.Expect(status.Progress.Total).To(BeEquivalentTo(20))
	g.Expect(status.Progress.Current).To(HaveLen(10))
	g.Expect(len(status.Progress.Current[0].Address)).To(BeNumerically("<=", 1024))
}

func TestProgressMessage(t *testing.T) {
	current := []terraform.ResourceProgress{{Address: "aws_vpc.this", Since: noon}, {Address: "other"}}
	tests := []struct {
		name     string
		progress *terraform.Progress
		want     string
	}{
		{"none", nil, "Run hello-r1 (PlanAndApply) is running"},
		{"a phase", &terraform.Progress{Phase: terraform.PhasePlanning}, "Run hello-r1 is planning"},
		{"a total", &terraform.Progress{Phase: terraform.PhaseApplying, Done: 0, Total: 1}, "Run hello-r1 is applying: 0 of 1 resources"},
		{"a resource", &terraform.Progress{Phase: terraform.PhaseApplying, Done: 1, Total: 3, Current: current}, "Run hello-r1 is applying: 1 of 3 resources, now aws_vpc.this since 2026-01-02T12:00:00Z"},
		{"a timeout", &terraform.Progress{Phase: terraform.PhaseApplying, InterruptAt: noon}, "Run hello-r1 is applying. It exceeds its timeout, and is interrupted at 2026-01-02T12:00:00Z"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			run := startRun(g, newScope("hello"), decision.Decision{Operation: terraform.OperationPlanAndApply})
			g.Expect(execution.ProgressMessage(run, tt.progress)).To(Equal(tt.want))
		})
	}
}

func TestStoreFault(t *testing.T) {
	g := NewWithT(t)
	for _, err := range []error{apierrors.NewRequestEntityTooLargeError("too large"), apierrors.NewInvalid(schema.GroupKind{}, "s", nil)} {
		stalled, ok := fault.AsStalled(execution.StoreFault(err))
		g.Expect(ok).To(BeTrue())
		g.Expect(stalled.Reason).To(Equal(infrav1.RunFailedReason))
	}

	refused := errors.New("connection refused")
	g.Expect(execution.StoreFault(refused)).To(MatchError(refused))
}

func TestJoinFailure(t *testing.T) {
	g := NewWithT(t)
	step, failed := fault.Wait("WaitingForSecret", "s"), errors.New("boom")
	g.Expect(joinFailure(step, fault.Wait("RunInProgress", "r"))).To(BeIdenticalTo(step), "a run that waits is not reported")
	g.Expect(joinFailure(step, failed)).To(And(MatchError(step), MatchError(failed)))
	g.Expect(joinFailure(step, nil)).To(MatchError(step))
}

func TestUnlessApplied(t *testing.T) {
	wait, stall := fault.Wait("Queued", "q"), fault.Stall("RunFailed", "f")
	tests := []struct {
		name      string
		operation terraform.Operation
		applied   string
		err       error
		want      error
	}{
		{"a drift check of an applied workspace", terraform.OperationCheckDrift, inputs, wait, nil},
		{"a drift check of a changed workspace", terraform.OperationCheckDrift, "before", wait, wait},
		{"a drift check that stalled", terraform.OperationCheckDrift, inputs, stall, stall},
		{"an apply", terraform.OperationPlanAndApply, inputs, wait, wait},
		{"no error", terraform.OperationCheckDrift, inputs, nil, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			s := newScope("hello")
			s.Apply.Status.AppliedInputs = tt.applied
			err := s.UnlessApplied(tt.operation, inputs, tt.err)
			if tt.want == nil {
				g.Expect(err).NotTo(HaveOccurred())
				return
			}
			g.Expect(err).To(BeIdenticalTo(tt.want))
		})
	}
}

func TestAppliedMessage(t *testing.T) {
	g := NewWithT(t)
	s := newScope("hello")
	g.Expect(history.AppliedMessage(s.Apply)).To(BeEmpty())
	s.Apply.Status.State = &infrav1.StateStatus{Resources: 3}
	g.Expect(history.AppliedMessage(s.Apply)).To(Equal("3 resources in the state"))
}

func TestGroup(t *testing.T) {
	g := NewWithT(t)
	s := newScope("hello")
	g.Expect(s.Group().Limit).To(BeZero(), "no provider config")
	s.Sources.ProviderConfig = &infrav1.WorkspaceProviderConfig{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "aws"}}
	g.Expect(s.Group().Name).To(BeEmpty(), "no limit")
	s.Inputs.Policy.MaxConcurrent = 2
	g.Expect(s.Group()).To(And(HaveField("Name", "n/aws"), HaveField("Limit", 2)))
	s.Sources.ProviderConfig = nil
	g.Expect(s.Group().Limit).To(BeZero(), "no provider config")
	s.Inputs = nil
	g.Expect(s.Group().Limit).To(BeZero(), "the inputs are unknown")
}

func TestPodSettings(t *testing.T) {
	g := NewWithT(t)
	s := newScope("hello")
	g.Expect(s.PodSettings()).To(Equal(terraform.PodSettings{}))

	s.Sources.ProviderConfig = &infrav1.WorkspaceProviderConfig{}
	g.Expect(s.PodSettings()).To(Equal(terraform.PodSettings{}))

	s.Sources.ProviderConfig.Spec.Runner = &infrav1.RunnerConfig{Image: "i", ServiceAccountName: "sa", NodeSelector: map[string]string{"a": "b"}}
	g.Expect(s.PodSettings()).To(Equal(terraform.PodSettings{Image: "i", ServiceAccountName: "sa", NodeSelector: map[string]string{"a": "b"}}))

	s.Sources.ProviderConfig.Spec.Runner.Resources = &corev1.ResourceRequirements{}
	s.Sources.ProviderConfig.Spec.Runner.Tolerations = []corev1.Toleration{{Key: "k"}}
	g.Expect(string(s.PodSettings().Resources)).To(Equal("{}"))
	g.Expect(string(s.PodSettings().Tolerations)).To(Equal(`[{"key":"k"}]`))

	g.Expect(s.PodSettings().Template).To(BeEmpty())
	s.Sources.ProviderConfig.Spec.Runner = fullRunner()
	var template corev1.PodTemplateSpec
	g.Expect(json.Unmarshal(s.PodSettings().Template, &template)).To(Succeed())
	g.Expect(template).To(Equal(corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"l": "1"}, Annotations: map[string]string{"a": "1"}},
		Spec: corev1.PodSpec{
			ImagePullSecrets: []corev1.LocalObjectReference{{Name: "registry"}}, PriorityClassName: "runs", RuntimeClassName: new("gvisor"),
			Affinity: &corev1.Affinity{}, TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{TopologyKey: "zone"}},
			Volumes: []corev1.Volume{
				{Name: "e", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
				{Name: "c", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}}},
				{Name: "s", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s"}}},
				{Name: "p", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "p"}}},
			},
			Containers: []corev1.Container{{
				ImagePullPolicy: corev1.PullAlways,
				Env: []corev1.EnvVar{
					{Name: "A", Value: "1"},
					{Name: "B", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}},
				},
				VolumeMounts: []corev1.VolumeMount{{Name: "e", MountPath: "/e", SubPath: "sub", ReadOnly: true}},
			}},
		},
	}))

	request := requestOf(g, s, decision.Decision{Operation: terraform.OperationDestroy})
	g.Expect(request.Pod).To(Equal(s.PodSettings()), "a manager that starts the run after a restart does not know the inputs")
}

// fullRunner returns a config with all fields that are in the pod template.
func fullRunner() *infrav1.RunnerConfig {
	return &infrav1.RunnerConfig{
		ImagePullPolicy: corev1.PullAlways, ImagePullSecrets: []infrav1.LocalReference{{Name: "registry"}},
		PriorityClassName: "runs", RuntimeClassName: "gvisor",
		Affinity: &corev1.Affinity{}, TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{TopologyKey: "zone"}},
		PodLabels: map[string]string{"l": "1"}, PodAnnotations: map[string]string{"a": "1"},
		Env: []infrav1.RunnerEnvVar{
			{Name: "A", Value: "1"},
			{Name: "B", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}},
		},
		Volumes: []infrav1.RunnerVolume{
			{Name: "e", EmptyDir: &corev1.EmptyDirVolumeSource{}},
			{Name: "c", ConfigMap: &corev1.ConfigMapVolumeSource{}},
			{Name: "s", Secret: &corev1.SecretVolumeSource{SecretName: "s"}},
			{Name: "p", PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "p"}},
		},
		VolumeMounts: []infrav1.RunnerVolumeMount{{Name: "e", MountPath: "/e", SubPath: "sub", ReadOnly: true}},
	}
}

// claim records the runner of a run, as the runner does.
func claim(g Gomega, run *runs.Run, identity record.Identity) {
	patch, err := record.ClaimPatch("", identity)
	g.Expect(err).NotTo(HaveOccurred())
	mergeInto(g, run.Secret, patch)
}

func TestRecordLineage_ofTheFirstState(t *testing.T) {
	for name, tc := range map[string]struct {
		known    *infrav1.StateStatus
		recorded string
		restores bool
		want     string
	}{
		"a run that replaces the state": {&infrav1.StateStatus{Backend: "s3"}, "l", true, ""},
		"another configuration":         {&infrav1.StateStatus{Backend: "s3", Configuration: "c"}, "l", false, ""},
		"the run has not created it":    {&infrav1.StateStatus{Backend: "s3"}, "", false, ""},
		"the run has created it":        {&infrav1.StateStatus{Backend: "s3"}, "l", false, "l"},
		"another one is known":          {&infrav1.StateStatus{Backend: "s3", Lineage: "x"}, "l", false, "x"},
		"the run uses another one":      {&infrav1.StateStatus{Backend: "http"}, "l", false, ""},
		"a run that changes no state":   {nil, "l", false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s := newScope("hello")
			operation := terraform.OperationPlanAndApply
			if tc.restores {
				operation = terraform.OperationRestoreState
			}
			run := startRun(g, s, decision.Decision{Operation: operation})
			run.Secret.Annotations[record.BackendAnnotation] = "s3"
			delete(run.Secret.Annotations, record.ConfigurationAnnotation)
			run.Secret.Data["state"] = []byte(`{"lineage":"` + tc.recorded + `","serial":1}`)
			s.Apply.Status.State, s.StatusChanged = tc.known, false

			s.RecordLineage(run)

			if tc.known == nil {
				g.Expect(s.Apply.Status.State).To(BeNil())
				return
			}
			g.Expect(s.Apply.Status.State.Lineage).To(Equal(tc.want))
			g.Expect(s.StatusChanged).To(Equal(tc.want == "l"))
		})
	}
}

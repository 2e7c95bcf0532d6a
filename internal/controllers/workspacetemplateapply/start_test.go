package workspacetemplateapply

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/decision"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
)

func TestIsStuck(t *testing.T) {
	const image = "Pod capt-run-hello-r1-x: ImagePullBackOff: Back-off pulling image"
	for name, tc := range map[string]struct {
		age         time.Duration
		explanation string
		claimed     bool
		executor    infrav1.Executor
		want        bool
	}{
		"a new pod":                         {time.Minute, "", false, infrav1.ExecutorJob, false},
		"a node is being created":           {14 * time.Minute, "Pod p: Unschedulable", false, infrav1.ExecutorJob, false},
		"no node comes":                     {16 * time.Minute, "Pod p: Unschedulable", false, infrav1.ExecutorJob, true},
		"nothing happens":                   {16 * time.Minute, "", false, infrav1.ExecutorJob, true},
		"the image may become available":    {4 * time.Minute, image, false, infrav1.ExecutorJob, false},
		"the image does not exist":          {6 * time.Minute, image, false, infrav1.ExecutorJob, true},
		"a run that takes long":             {time.Hour, "", true, infrav1.ExecutorJob, false},
		"a process that has not claimed it": {time.Hour, "", false, infrav1.ExecutorProcess, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			run := startRun(g, newScope("hello"), decision.Decision{Operation: terraform.OperationPlan})
			run.Secret.CreationTimestamp = metav1.NewTime(noon.Add(-tc.age))
			run.Secret.Annotations[record.ExecutorAnnotation] = string(tc.executor)
			if tc.claimed {
				claim(g, run, record.Identity{Host: "h"})
			}
			r := &Reconciler{Now: func() time.Time { return noon }}
			g.Expect(r.build().execution.IsStuck(run, tc.explanation)).To(Equal(tc.want))
		})
	}
}

func TestRequest_timeoutHasALimit(t *testing.T) {
	for name, tc := range map[string]struct{ limit, timeout, want time.Duration }{
		"no limit":    {0, 24 * time.Hour, 24 * time.Hour},
		"below it":    {12 * time.Hour, time.Hour, time.Hour},
		"above it":    {12 * time.Hour, 24 * time.Hour, 12 * time.Hour},
		"no timeout":  {12 * time.Hour, 0, 12 * time.Hour},
		"none at all": {0, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s := newScope("hello")
			s.MaxTimeout, s.Inputs.Request.Timeout = tc.limit, tc.timeout
			request := requestOf(g, s, decision.Decision{Operation: terraform.OperationPlan})
			g.Expect(request.Timeout).To(Equal(tc.want))
		})
	}
}

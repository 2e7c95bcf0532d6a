package reconcile

import (
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	"github.com/appthrust/capt/internal/reconcile/fault"
)

func has(conditionType, status, reason, message string) func(*thing) {
	return withCondition(metav1.Condition{
		Type: conditionType, Status: metav1.ConditionStatus(status), Reason: reason, Message: message,
	})
}

// summary is a test case of summarise.
type summary struct {
	name  string
	obj   *thing
	types []string
	last  outcome
	want  state
}

func (s summary) run(t *testing.T) {
	g := NewWithT(t)
	summarise(s.obj, s.types, s.last)
	g.Expect(stateOf(s.obj, clusterv1.ReadyCondition)).To(Equal(s.want))
	g.Expect(conditions.Get(s.obj, clusterv1.ReadyCondition).ObservedGeneration).To(BeEquivalentTo(3))
}

func TestSummarise_fromConditions(t *testing.T) {
	both := []string{networkReady, endpointReady}
	for _, tt := range []summary{
		{name: "no conditions", obj: newThing(), want: state{"True", "Ready", ""}},
		{
			name: "all true", types: both,
			obj:  newThing(has(networkReady, "True", "Ready", "created"), has(endpointReady, "True", "Ready", "")),
			want: state{"True", "Ready", ""},
		},
		{
			name: "False wins and names the condition", types: both,
			obj:  newThing(has(networkReady, "True", "Ready", ""), has(endpointReady, "False", "NoHost", "no host yet")),
			want: state{"False", "NoHost", "EndpointReady: no host yet"},
		},
		{
			name: "Unknown wins", types: both,
			obj:  newThing(has(networkReady, "Unknown", "InternalError", "boom"), has(endpointReady, "True", "Ready", "")),
			want: state{"Unknown", "InternalError", "NetworkReady: boom"},
		},
		{
			name: "the first in the order of the steps is the cause", types: both,
			obj:  newThing(has(endpointReady, "False", "Stale", "old"), has(networkReady, "Unknown", "InternalError", "boom")),
			want: state{"Unknown", "InternalError", "NetworkReady: boom"},
		},
		{
			name: "a cause without a message", types: both,
			obj:  newThing(has(networkReady, "False", "NoHost", "")),
			want: state{"False", "NoHost", "NetworkReady"},
		},
		{
			name: "a missing condition is not True", types: both,
			obj:  newThing(has(networkReady, "True", "Ready", "")),
			want: state{"Unknown", "ReadyUnknown", "EndpointReady: Not reported yet"},
		},
		{
			name: "a condition of another controller is ignored", types: []string{networkReady},
			obj:  newThing(has(networkReady, "True", "Ready", ""), has("Theirs", "False", "No", "no")),
			want: state{"True", "Ready", ""},
		},
	} {
		t.Run(tt.name, tt.run)
	}
}

func TestSummarise_fromStepsWithoutConditions(t *testing.T) {
	both := []string{networkReady, endpointReady}
	for _, tt := range []summary{
		{
			name: "the stall of a step without a condition", types: both,
			obj:  newThing(has(networkReady, "True", "Ready", "")),
			last: classify(fault.Stall("Denied", "not allowed")),
			want: state{"False", "Denied", "not allowed"},
		},
		{
			name: "the failure of a step without a condition", types: both, obj: newThing(), last: classify(errBoom),
			want: state{"Unknown", "InternalError", "boom"},
		},
		{
			name: "the conflict of a step without a condition is not reported", types: []string{networkReady}, last: classify(errConflict),
			obj:  newThing(has(networkReady, "True", "Ready", "")),
			want: state{"True", "Ready", ""},
		},
	} {
		t.Run(tt.name, tt.run)
	}
}

func TestSummarise_whileDeleting(t *testing.T) {
	for _, tt := range []summary{
		{
			name: "an object that is being deleted is not ready", types: []string{networkGone},
			obj:  newThing(deleting, has(networkGone, "True", "NetworkGone", "")),
			want: state{"False", "Deleting", ""},
		},
		{
			name: "the message names the step that has not passed", types: []string{networkGone},
			obj:  newThing(deleting, has(networkGone, "Unknown", "InternalError", "boom")),
			want: state{"False", "Deleting", "NetworkGone: boom"},
		},
	} {
		t.Run(tt.name, tt.run)
	}
}

func TestSetStepCondition_keepsTheTransitionTimeOfAnUnchangedStatus(t *testing.T) {
	g := NewWithT(t)
	since := metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	obj := newThing(withCondition(metav1.Condition{
		Type: networkReady, Status: metav1.ConditionFalse, Reason: "InProgress", Message: "3 of 9", LastTransitionTime: since,
	}))

	o := classify(fault.Wait("InProgress", "4 of 9"))
	o.condition = networkReady
	setStepCondition(obj, o)
	g.Expect(stateOf(obj, networkReady)).To(Equal(state{"False", "InProgress", "4 of 9"}))
	g.Expect(conditions.GetLastTransitionTime(obj, networkReady).Time).To(Equal(since.Time))

	setStepCondition(obj, outcome{class: passed, condition: networkReady, reason: "Ready"})
	g.Expect(conditions.GetLastTransitionTime(obj, networkReady).Time).To(BeTemporally(">", since.Time))
}

func TestSetStepCondition_ignoresIDsInUnexpectedErrors(t *testing.T) {
	tests := []struct {
		name    string
		before  error
		after   error
		changed bool
	}{
		{name: "same", before: errBoom, after: errors.New("boom")},
		{
			name:   "request ID",
			before: errors.New("StatusCode: 503, RequestID: 8f1c-aa, unavailable"),
			after:  errors.New("StatusCode: 503, RequestID: 77de-0b, unavailable"),
		},
		{
			name:   "port",
			before: errors.New("read tcp 10.0.0.1:40312->10.0.0.2:443: reset"),
			after:  errors.New("read tcp 10.0.0.1:51788->10.0.0.2:443: reset"),
		},
		{name: "another cause", before: errors.New("connection refused"), after: errors.New("forbidden"), changed: true},
		{name: "the message of a wait is always updated", before: fault.Wait("W", "3 of 9"), after: fault.Wait("W", "4 of 9"), changed: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			obj := newThing()
			runOnce := func(err error) []metav1.Condition {
				steps := []Step[scope]{step(networkReady, returns(err))}
				summarise(obj, conditionTypes(steps), runSteps(t.Context(), obj, steps, &scope{}))
				return obj.DeepCopyObject().(*thing).Status.Conditions
			}
			before := runOnce(tt.before)
			after := runOnce(tt.after)
			if tt.changed {
				g.Expect(after).NotTo(Equal(before))
				return
			}
			g.Expect(after).To(Equal(before))
		})
	}
}

func TestErrorMessage(t *testing.T) {
	long := strings.Repeat("é", maxErrorMessage)
	tests := []struct {
		name string
		err  error
		want string
	}{
		{name: "one line", err: errBoom, want: "boom"},
		{name: "lines are joined", err: errors.Join(errBoom, errBoom), want: "boom; boom"},
		{
			name: "a signature is redacted",
			err:  errors.New(`Get "https://sts.eu-west-1.amazonaws.com/?Action=X&X-Amz-Signature=abc": dial tcp: timeout`),
			want: `Get "https://sts.eu-west-1.amazonaws.com/?REDACTED": dial tcp: timeout`,
		},
		{name: "a question mark without a URL", err: errors.New("really? yes"), want: "really? yes"},
		{name: "a long message is truncated between characters", err: errors.New(long), want: strings.Repeat("é", 126) + "…"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			got := errorMessage(tt.err)
			g.Expect(got).To(Equal(tt.want))
			g.Expect(len(got)).To(BeNumerically("<=", maxErrorMessage))
			g.Expect(utf8.ValidString(got)).To(BeTrue())
		})
	}
}

func TestSetStepCondition_truncatesLongMessages(t *testing.T) {
	g := NewWithT(t)
	obj := newThing()
	steps := []Step[scope]{step(networkReady, returns(fault.Stall("RunFailed", "%s", strings.Repeat("x", 40000))))}

	summarise(obj, conditionTypes(steps), runSteps(t.Context(), obj, steps, &scope{}))

	for _, c := range obj.Status.Conditions {
		g.Expect(len(c.Message)).To(And(BeNumerically(">", 4000), BeNumerically("<", 32768)), c.Type)
	}
}

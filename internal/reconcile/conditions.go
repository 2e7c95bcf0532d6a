package reconcile

import (
	"regexp"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	"github.com/appthrust/capt/internal/message"
)

// StalledCondition is True if an object is not tried again before a user changes something.
const StalledCondition = "Stalled"

const (
	// maxMessage is the length limit of a condition message, in bytes. The API
	// server accepts 32768.
	maxMessage = 4096
	// maxErrorMessage is the length limit of an unexpected error in a condition.
	// The log has the whole error.
	maxErrorMessage = 256
)

// setStepCondition writes the outcome of a step into its condition. A conflict
// leaves the condition unchanged.
func setStepCondition(obj Object, o outcome) {
	if o.condition == "" || o.class == conflicted {
		return
	}
	set(obj, metav1.Condition{
		Type:    o.condition,
		Status:  o.status(),
		Reason:  o.reason,
		Message: message.Truncate(o.message, maxMessage),
	}, o.class == failed)
}

// summarise writes Ready from the conditions of the steps that ran, which ended
// with o. The first condition that is not True, in the order of the steps, is
// the cause. The ones after it were not reached and may be out of date.
func summarise(obj Object, types []string, o outcome) {
	ready := metav1.Condition{
		Type:   clusterv1.ReadyCondition,
		Status: metav1.ConditionTrue,
		Reason: clusterv1.ReadyReason,
	}
	if o.class != passed && o.class != conflicted && o.condition == "" {
		ready.Status, ready.Reason, ready.Message = o.status(), o.reason, message.Truncate(o.message, maxMessage)
	} else if cause := firstNotTrue(obj, types); cause != nil {
		ready.Status, ready.Reason, ready.Message = cause.Status, cause.Reason, cause.Type
		if cause.Message != "" {
			ready.Message += ": " + cause.Message
		}
	}
	if !obj.GetDeletionTimestamp().IsZero() {
		ready.Status, ready.Reason = metav1.ConditionFalse, clusterv1.DeletingReason
	}
	set(obj, ready, o.class == failed)
	if o.class != conflicted {
		setStalled(obj, o)
	}
}

// setStalled writes Stalled while only a change by a user starts the next run. An object without
// it is not stalled: tools that wait for objects know the condition by its type.
func setStalled(obj Object, o outcome) {
	if o.class != stalled {
		conditions.Delete(obj, StalledCondition)
		return
	}
	set(obj, metav1.Condition{Type: StalledCondition, Status: metav1.ConditionTrue, Reason: o.reason, Message: message.Truncate(o.message, maxMessage)}, false)
}

func firstNotTrue(obj Object, types []string) *metav1.Condition {
	for _, t := range types {
		switch c := conditions.Get(obj, t); {
		case c == nil:
			return &metav1.Condition{
				Type:    t,
				Status:  metav1.ConditionUnknown,
				Reason:  clusterv1.ReadyUnknownReason,
				Message: "Not reported yet",
			}
		case c.Status != metav1.ConditionTrue:
			return c
		}
	}
	return nil
}

// set writes a condition for the current generation. The text of an unexpected
// error often contains a request ID or a port that differs on every attempt.
// Such a difference alone is not written: each write would trigger another
// reconcile and defeat the exponential backoff.
func set(obj Object, c metav1.Condition, unexpected bool) {
	if previous := conditions.Get(obj, c.Type); unexpected && previous != nil &&
		previous.Status == c.Status && previous.Reason == c.Reason && differsOnlyInIDs(previous.Message, c.Message) {
		c.Message = previous.Message
	}
	conditions.Set(obj, c)
}

var (
	// wordWithDigit matches the words of a message that contain a digit.
	wordWithDigit = regexp.MustCompile(`[\pL\pN_-]*\pN[\pL\pN_-]*`)
	// urlQuery matches a URL with its query, where a presigned request has its
	// signature.
	urlQuery = regexp.MustCompile(`(://[^\s"'?]*\?)[^\s"']*`)
)

// differsOnlyInIDs reports whether two messages are the same except for numbers
// and IDs.
func differsOnlyInIDs(a, b string) bool {
	return a == b || wordWithDigit.ReplaceAllString(a, "0") == wordWithDigit.ReplaceAllString(b, "0")
}

// errorMessage returns an unexpected error as one line for a condition, without
// the queries of URLs.
func errorMessage(err error) string {
	line := strings.ReplaceAll(strings.TrimSpace(err.Error()), "\n", "; ")
	return message.Truncate(urlQuery.ReplaceAllString(line, "${1}REDACTED"), maxErrorMessage)
}

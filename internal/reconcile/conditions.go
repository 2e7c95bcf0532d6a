package reconcile

import (
	"regexp"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
)

const (
	// maxMessage bounds a message well below what the API server accepts.
	maxMessage = 4096
	// maxErrorMessage bounds what a condition tells of an unexpected error; the
	// log has the rest.
	maxErrorMessage = 256
)

// record writes a verdict into the condition it is about. A conflict tells
// nothing about the condition, so it leaves it alone.
func record(obj Object, v verdict) {
	if v.condition == "" || v.kind == conflicted {
		return
	}
	set(obj, metav1.Condition{
		Type:    v.condition,
		Status:  v.status(),
		Reason:  v.reason,
		Message: truncate(v.message, maxMessage),
	}, v.kind == failed)
}

// summarise writes Ready from the conditions of the list that ran, whose last
// verdict is v. The first one that is not True, in the order of the list, is
// the cause; those after it were not reached and may be out of date.
func summarise(obj Object, types []string, v verdict) {
	ready := metav1.Condition{
		Type:   clusterv1.ReadyCondition,
		Status: metav1.ConditionTrue,
		Reason: clusterv1.ReadyReason,
	}
	if v.kind != passed && v.kind != conflicted && v.condition == "" {
		ready.Status, ready.Reason, ready.Message = v.status(), v.reason, truncate(v.message, maxMessage)
	} else if cause := firstNotTrue(obj, types); cause != nil {
		ready.Status, ready.Reason, ready.Message = cause.Status, cause.Reason, cause.Type
		if cause.Message != "" {
			ready.Message += ": " + cause.Message
		}
	}
	if !obj.GetDeletionTimestamp().IsZero() {
		ready.Status, ready.Reason = metav1.ConditionFalse, clusterv1.DeletingReason
	}
	set(obj, ready, v.kind == failed)
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

// set writes a condition for the present generation. The text of an unexpected
// error often carries a request id or a port that differs on every attempt:
// such a change alone is not written, because each write would wake the
// reconciler again and defeat the growing delay between attempts.
func set(obj Object, c metav1.Condition, unexpected bool) {
	if was := conditions.Get(obj, c.Type); unexpected && was != nil &&
		was.Status == c.Status && was.Reason == c.Reason && alike(was.Message, c.Message) {
		c.Message = was.Message
	}
	conditions.Set(obj, c)
}

var (
	// volatile matches the words of a message that contain a digit.
	volatile = regexp.MustCompile(`[\pL\pN_-]*\pN[\pL\pN_-]*`)
	// query matches the query of a URL, where a presigned request keeps its
	// signature.
	query = regexp.MustCompile(`(://[^\s"'?]*\?)[^\s"']*`)
)

// alike tells whether two messages differ in nothing but numbers and ids.
func alike(a, b string) bool {
	return a == b || volatile.ReplaceAllString(a, "0") == volatile.ReplaceAllString(b, "0")
}

// short is what a condition tells of an unexpected error: one line, without
// the queries of URLs.
func short(err error) string {
	line := strings.ReplaceAll(strings.TrimSpace(err.Error()), "\n", "; ")
	return truncate(query.ReplaceAllString(line, "${1}REDACTED"), maxErrorMessage)
}

// truncate cuts a text to at most limit bytes, between two characters.
func truncate(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	const ellipsis = "…"
	return strings.ToValidUTF8(text[:limit-len(ellipsis)], "") + ellipsis
}

package sources

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// A run reports what its module wants. Conditions and events show it.
func TestInputs_redactWhatARunReported(t *testing.T) {
	g := NewWithT(t)
	s := newResolved("hello")
	s.Inputs.Request.Env = map[string]string{"API_KEY": "s3cr3t-of-the-team"}
	s.Inputs.Request.SecretEnv = []string{"API_KEY"}
	s.Apply.Status.Failure = &infrav1.FailureStatus{Message: "denied: s3cr3t-of-the-team"}
	s.Apply.Status.History = []infrav1.RunRecord{{Summary: "key czNjcjN0LW9mLXRoZS10ZWFt"}}
	s.redactStatus()
	g.Expect(s.Apply.Status.Failure.Message).To(Equal("denied: (sensitive value)"))
	g.Expect(s.Apply.Status.History[0].Summary).To(Equal("key (sensitive value)"))

	// A redactor of all these would exhaust the memory of the manager.
	s.Inputs.Request.Env["API_KEY"] = strings.Repeat("s3cr3t", 1<<20)
	s.redactStatus()
	g.Expect(s.Apply.Status.Failure.Message).To(Equal(hiddenText))
	g.Expect(s.Apply.Status.History[0].Summary).To(Equal(hiddenText))
}

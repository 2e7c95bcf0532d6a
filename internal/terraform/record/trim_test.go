package record_test

import (
	"bytes"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/appthrust/capt/internal/terraform/record"
)

func TestTrim_keepsTheDataThatTheManagerReads(t *testing.T) {
	tests := []struct {
		component string
		want      []string
	}{
		{component: record.ComponentRun, want: []string{"identity", "progress", "result"}},
		{component: record.ComponentPlan},
		{component: record.ComponentSnapshot},
		{component: record.ComponentState},
		{component: record.ComponentRescue},
		{component: record.ComponentModule},
		{component: "connection", want: []string{"identity", "log", "progress", "request", "result"}},
	}
	for _, tt := range tests {
		t.Run(tt.component, func(t *testing.T) {
			g := NewWithT(t)
			secret := &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Name: "s", Labels: map[string]string{"capt.appthrust.io/component": tt.component}},
				Data:       map[string][]byte{"request": {1}, "identity": {1}, "progress": {1}, "log": {1}, "result": {1}},
			}

			record.Trim(secret)

			var kept []string
			for key := range secret.Data {
				kept = append(kept, key)
			}
			g.Expect(kept).To(ConsistOf(tt.want))
			g.Expect(secret.Name).To(Equal("s"))
		})
	}
}

// A run writes its own Secret, and others can create Secrets that look like one.
func TestTrim_keepsLittleOfALargeRun(t *testing.T) {
	g := NewWithT(t)
	large := bytes.Repeat([]byte("x"), 200<<10)
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"capt.appthrust.io/component": record.ComponentRun}},
		Data:       map[string][]byte{"identity": large, "progress": large, "state": large, "result": large, "other": large},
	}
	record.Trim(secret)
	size := 0
	for _, value := range secret.Data {
		size += cap(value)
	}
	g.Expect(size).To(BeNumerically("<", 64<<10))
	g.Expect(record.Finished(secret)).To(BeTrue())
	g.Expect(record.Claimed(secret)).To(BeTrue())
	g.Expect(record.HasTrimmedResult(secret)).To(BeTrue())
	progress, err := record.Progress(secret)
	g.Expect(progress, err).To(BeNil())

	secret.Data["result"] = large[:64<<10]
	record.Trim(secret)
	g.Expect(record.HasTrimmedResult(secret)).To(BeFalse())
	g.Expect(secret.Data["result"]).To(HaveLen(64 << 10))
}

func TestInternalComponents_areThoseThatTrimReduces(t *testing.T) {
	NewWithT(t).Expect(record.InternalComponents()).To(ConsistOf("run", "plan", "snapshot", "state", "rescue", "module", "transfer", "token"))
}

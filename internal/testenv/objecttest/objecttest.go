// Package objecttest contains helpers for tests that create and change objects of an
// API server and wait for the results of controllers.
package objecttest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	// Sets the default of waits.
	_ "github.com/appthrust/capt/internal/testenv/waits"
)

// Tester is a test with a client. Its methods end the test if an expectation is
// not met.
type Tester struct {
	*gomega.WithT
	T      *testing.T
	Client client.Client
}

// New returns a Tester.
func New(t *testing.T, c client.Client) *Tester {
	t.Helper()
	return &Tester{WithT: gomega.NewWithT(t), T: t, Client: c}
}

// Create creates an object.
func (t *Tester) Create(obj client.Object) {
	t.T.Helper()
	t.Expect(t.Client.Create(t.T.Context(), obj)).To(gomega.Succeed())
}

// Delete deletes an object.
func (t *Tester) Delete(obj client.Object, options ...client.DeleteOption) {
	t.T.Helper()
	t.Expect(t.Client.Delete(t.T.Context(), obj, options...)).To(gomega.Succeed())
}

// Get reads an object. The explanation is as for gomega.Expect.
func (t *Tester) Get(obj client.Object, explanation ...any) {
	t.T.Helper()
	t.Expect(t.Client.Get(t.T.Context(), client.ObjectKeyFromObject(obj), obj)).To(gomega.Succeed(), explanation...)
}

// WaitFor reads an object until the check passes.
func (t *Tester) WaitFor(obj client.Object, explanation string, check func(g gomega.Gomega)) {
	t.T.Helper()
	t.Eventually(func(g gomega.Gomega) {
		g.Expect(t.Client.Get(t.T.Context(), client.ObjectKeyFromObject(obj), obj)).To(gomega.Succeed())
		check(g)
	}).Should(gomega.Succeed(), explanation)
}

// Update reads an object, changes and writes it, and repeats that after a
// conflict.
func (t *Tester) Update(obj client.Object, change func()) {
	t.T.Helper()
	t.WaitFor(obj, "updating "+obj.GetName(), func(g gomega.Gomega) {
		change()
		g.Expect(t.Client.Update(t.T.Context(), obj)).To(gomega.Succeed())
	})
}

// Object is an object with conditions.
type Object interface {
	client.Object
	conditions.Getter
}

// Condition returns a condition of an object. The status of one that is not set is
// Missing.
func Condition(obj conditions.Getter, kind string) metav1.Condition {
	if c := conditions.Get(obj, kind); c != nil {
		return *c
	}
	return metav1.Condition{Type: kind, Status: "Missing"}
}

// Text returns a condition as "Status Reason: message".
func Text(c metav1.Condition) string {
	return fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message)
}

// WaitForCondition waits until a condition has the status and the reason, its
// message contains the texts, and it is about the latest generation.
func (t *Tester) WaitForCondition(obj Object, condition string, status metav1.ConditionStatus, reason string, message ...string) metav1.Condition {
	t.T.Helper()
	var found metav1.Condition
	t.WaitFor(obj, fmt.Sprintf("%s should be %s with reason %s: %s", condition, status, reason, strings.Join(message, ", ")), func(g gomega.Gomega) {
		c := conditions.Get(obj, condition)
		g.Expect(c).NotTo(gomega.BeNil(), "%v", obj.GetConditions())
		g.Expect(c.Status).To(gomega.Equal(status), "%s: %s", c.Reason, c.Message)
		g.Expect(c.Reason).To(gomega.Equal(reason), "%s", c.Message)
		g.Expect(c.ObservedGeneration).To(gomega.Equal(obj.GetGeneration()))
		for _, text := range message {
			g.Expect(c.Message).To(gomega.ContainSubstring(text))
		}
		found = *c
	})
	return found
}

// WaitUntilGone waits until an object does not exist.
func (t *Tester) WaitUntilGone(obj client.Object, explanation string) {
	t.T.Helper()
	t.Eventually(func() bool {
		return apierrors.IsNotFound(t.Client.Get(t.T.Context(), client.ObjectKeyFromObject(obj), obj))
	}).Should(gomega.BeTrue(), explanation)
}

// ExpectNoWrites waits until objects are not written while the controllers handle what they
// have to: settle returns when they have handled something that was created after its call.
// The results of earlier changes may be late on a busy machine.
func (t *Tester) ExpectNoWrites(settle func(), objects ...client.Object) {
	t.T.Helper()
	versions := func() []string {
		var all []string
		for _, obj := range objects {
			t.Get(obj)
			all = append(all, fmt.Sprintf("%T %s, version %s, %s", obj, obj.GetName(), obj.GetResourceVersion(), lastWrite(obj)))
		}
		return all
	}
	t.Eventually(func(g gomega.Gomega) {
		before := versions()
		settle()
		g.Expect(versions()).To(gomega.Equal(before))
	}).Should(gomega.Succeed(), "objects at rest should not be written")
}

// lastWrite describes the last write of an object, for the message of a failed test.
func lastWrite(obj client.Object) string {
	var last metav1.ManagedFieldsEntry
	for _, entry := range obj.GetManagedFields() {
		if last.Time.Before(entry.Time) {
			last = entry
		}
	}
	if last.FieldsV1 == nil {
		return "never written"
	}
	return fmt.Sprintf("last written by %s (%s %s): %s", last.Manager, last.Operation, last.Subresource, last.FieldsV1.GetRawBytes())
}

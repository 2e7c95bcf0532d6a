package runner

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/command"
	"github.com/appthrust/capt/internal/terraform/record"
)

func lease(holder *string, info string) *coordinationv1.Lease {
	l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: request().Backend.LeaseName()}, Spec: coordinationv1.LeaseSpec{HolderIdentity: holder}}
	if info != "" {
		l.Annotations = map[string]string{record.LockInfoAnnotation: info}
	}
	return l
}

func holder(g Gomega, r *Runner) string {
	l, err := r.kube.lease(context.Background(), "n", request().Backend.LeaseName())
	g.Expect(err).NotTo(HaveOccurred())
	if l.Spec.HolderIdentity == nil {
		return ""
	}
	return *l.Spec.HolderIdentity
}

func TestLock_isTakenOnlyIfFreeOrItsHolderHasEnded(t *testing.T) {
	text := func(s string) *string { return &s }
	const other = "5a3b1c9e"
	tests := []struct {
		name   string
		lease  *coordinationv1.Lease
		change func(*terraform.Request)
		held   *terraform.LockInfo
	}{
		{name: "no lease"},
		{name: "no holder", lease: lease(nil, "")},
		{name: "an empty holder", lease: lease(text(""), "")},
		{name: "held by the run itself", lease: lease(text("hello-r2"), "")},
		{name: "held by a run that has ended", lease: lease(text("hello-r1"), ""), change: func(r *terraform.Request) { r.GoneRuns = []string{"hello-r0", "hello-r1"} }},
		{name: "named by the user", lease: lease(text(other), ""), change: func(r *terraform.Request) { r.BreakLock = other }},
		{
			name: "held by another holder", lease: lease(text(other), `{"ID":"5a3b1c9e","Who":"ada@laptop","Created":"2026-01-01T00:00:00Z"}`),
			held: &terraform.LockInfo{ID: other, Who: "ada@laptop", Created: "2026-01-01T00:00:00Z"},
		},
		{name: "a lock without description", lease: lease(text(other), ""), held: &terraform.LockInfo{ID: other, Who: "unknown"}},
		{name: "a lock with an invalid description", lease: lease(text(other), "{"), held: &terraform.LockInfo{ID: other, Who: "unknown"}},
		{name: "a lock with the description of another", lease: lease(text(other), `{"ID":"old","Who":"ada"}`), held: &terraform.LockInfo{ID: other, Who: "ada"}},
		{name: "another one named by the user", lease: lease(text(other), ""), change: func(r *terraform.Request) { r.BreakLock = "third" }, held: &terraform.LockInfo{ID: other, Who: "unknown"}},
		{name: "held by a run that is not proven to have ended", lease: lease(text("hello-r3"), ""), change: func(r *terraform.Request) { r.GoneRuns = []string{"hello-r1"} }, held: &terraform.LockInfo{ID: "hello-r3", Who: "unknown"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			a, r := newAPI(t)
			if tt.lease != nil {
				a.store(g, leasesPath, tt.lease)
			}
			req := request()
			if tt.change != nil {
				tt.change(req)
			}

			err := r.lease.lock(t.Context(), req)

			if tt.held != nil {
				var held *heldError
				g.Expect(errors.As(err, &held)).To(BeTrue(), "%v", err)
				g.Expect(held.info).To(Equal(*tt.held))
				g.Expect(holder(g, r)).To(Equal(tt.held.ID), "the holder keeps the lock")
				g.Expect(r.lease.unlock(t.Context(), req)).To(Succeed())
				g.Expect(holder(g, r)).To(Equal(tt.held.ID))
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(holder(g, r)).To(Equal("hello-r2"))
			l, err := r.kube.lease(t.Context(), "n", req.Backend.LeaseName())
			g.Expect(err).NotTo(HaveOccurred())
			var info terraform.LockInfo
			g.Expect(json.Unmarshal([]byte(l.Annotations[record.LockInfoAnnotation]), &info)).To(Succeed())
			g.Expect(info.ID).To(Equal("hello-r2"))
			g.Expect(info.Who).To(HavePrefix("capt/n/hello-r2@"))
			g.Expect(info.Info).To(Equal("n/hello"))

			g.Expect(r.lease.unlock(t.Context(), req)).To(Succeed())
			g.Expect(holder(g, r)).To(BeEmpty())
		})
	}
}

func TestLock_isTakenByOneOfTwoRuns(t *testing.T) {
	g := NewWithT(t)
	a, r := newAPI(t)
	a.store(g, leasesPath, lease(nil, ""))
	// Another holder takes the lock between reading and writing.
	once := true
	a.intercept = func(method, path string, _ []byte) *metav1.Status {
		if method == http.MethodPut && once {
			once = false
			holder := map[string]any{"spec": map[string]any{"holderIdentity": "other-holder"}}
			merge(a.objects[path], holder)
			a.put(path, a.objects[path])
		}
		return nil
	}
	var held *heldError
	g.Expect(errors.As(r.lease.lock(t.Context(), request()), &held)).To(BeTrue())
	g.Expect(held.info.ID).To(Equal("other-holder"))
	g.Expect(holder(g, r)).To(Equal("other-holder"))
}

func TestLock_isCreatedByOneOfTwoRuns(t *testing.T) {
	g := NewWithT(t)
	a, r := newAPI(t)
	a.intercept = func(method, path string, _ []byte) *metav1.Status {
		if method == http.MethodPost && len(a.objects) == 0 {
			a.put(path+"/"+request().Backend.LeaseName(), map[string]any{"metadata": map[string]any{"name": request().Backend.LeaseName()}, "spec": map[string]any{"holderIdentity": "other-holder"}})
		}
		return nil
	}
	var held *heldError
	g.Expect(errors.As(r.lease.lock(t.Context(), request()), &held)).To(BeTrue())
}

func TestLock_isNotTakenAfterAnError(t *testing.T) {
	g := NewWithT(t)
	a, r := newAPI(t)
	a.refuse("", "", status(http.StatusInternalServerError, metav1.StatusReasonInternalError))
	g.Expect(r.lease.lock(t.Context(), request())).To(MatchError(HavePrefix("reading the lock: ")))
	g.Expect(a.count(http.MethodPost) + a.count(http.MethodPut)).To(BeZero())
}

func TestUnlock_succeedsWithoutALock(t *testing.T) {
	g := NewWithT(t)
	_, r := newAPI(t)
	g.Expect(r.lease.unlock(t.Context(), request())).To(Succeed())
}

func TestUnlock_retriesAfterAConflict(t *testing.T) {
	g := NewWithT(t)
	a, r := newAPI(t)
	g.Expect(r.lease.lock(t.Context(), request())).To(Succeed())
	once := true
	a.intercept = func(method, _ string, _ []byte) *metav1.Status {
		if method == http.MethodPut && once {
			once = false
			return status(http.StatusConflict, metav1.StatusReasonConflict)
		}
		return nil
	}
	g.Expect(r.lease.unlock(t.Context(), request())).To(Succeed())
	g.Expect(holder(g, r)).To(BeEmpty())
}

func TestCanBreakLock(t *testing.T) {
	at := func(minute int) time.Time { return time.Date(2026, 1, 1, 0, minute, 0, 0, time.UTC) }
	lock := terraform.LockInfo{ID: "l", Who: "root@node-1", Created: "2026-01-01T00:05:00Z"}
	for name, tc := range map[string]struct {
		request terraform.Request
		want    bool
	}{
		"no reason":                  {},
		"named by the user":          {terraform.Request{BreakLock: "l"}, true},
		"another one named":          {terraform.Request{BreakLock: "m"}, false},
		"the holder has ended":       {terraform.Request{GoneHolders: []terraform.Holder{{Host: "node-1", Since: at(0), Until: at(10)}}}, true},
		"the holder of another time": {terraform.Request{GoneHolders: []terraform.Holder{{Host: "node-1", Since: at(6), Until: at(10)}}}, false},
		"the holder of another host": {terraform.Request{GoneHolders: []terraform.Holder{{Host: "node-2", Since: at(0), Until: at(10)}}}, false},
		"one of several holders":     {terraform.Request{GoneHolders: []terraform.Holder{{Host: "node-2"}, {Host: "node-1", Since: at(0), Until: at(10)}}}, true},
	} {
		NewWithT(t).Expect(canBreakLock(&tc.request, lock)).To(Equal(tc.want), name)
	}
}

func TestBreakingLock_performsOnceUnlessTheLockMayBeBroken(t *testing.T) {
	locked := &command.Failure{Class: terraform.ClassLockHeld, Lock: &terraform.LockInfo{ID: "l", Who: "root@node-1"}}
	for name, tc := range map[string]struct {
		err error
		// heldByRun is whether the run itself holds the lock of the state.
		heldByRun bool
		breakLock string
	}{
		"success":                       {},
		"another error":                 {err: errUnreachable, breakLock: "l"},
		"a failure without a lock":      {err: &command.Failure{}, breakLock: "l"},
		"a lock that must not break":    {err: locked},
		"the run holds the lock itself": {err: locked, heldByRun: true, breakLock: "l"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			_, r := newAPI(t)
			run := newExecution()
			run.locked, run.request.BreakLock = tc.heldByRun, tc.breakLock
			attempts := 0
			err := r.inTool.breakingLock(t.Context(), run, func() error { attempts++; return tc.err })
			if tc.err == nil {
				g.Expect(err).NotTo(HaveOccurred())
			} else {
				g.Expect(err).To(MatchError(tc.err))
			}
			g.Expect(attempts).To(Equal(1))
		})
	}
}

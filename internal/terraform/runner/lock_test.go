package runner

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"testing"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/appthrust/capt/internal/terraform"
)

func lease(holder *string, info string) *coordinationv1.Lease {
	l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: request().Backend.LeaseName()}, Spec: coordinationv1.LeaseSpec{HolderIdentity: holder}}
	if info != "" {
		l.Annotations = map[string]string{lockInfoAnnotation: info}
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

func TestLock_isTakenOnlyFromNobodyOrFromWhoIsGone(t *testing.T) {
	text := func(s string) *string { return &s }
	const stranger = "5a3b1c9e"
	tests := []struct {
		name   string
		found  *coordinationv1.Lease
		change func(*terraform.Request)
		held   *terraform.LockInfo
	}{
		{name: "there is none"},
		{name: "nobody holds it", found: lease(nil, "")},
		{name: "its holder has no name", found: lease(text(""), "")},
		{name: "the run itself holds it", found: lease(text("hello-r2"), "")},
		{name: "a run that is gone holds it", found: lease(text("hello-r1"), ""), change: func(r *terraform.Request) { r.GoneRuns = []string{"hello-r0", "hello-r1"} }},
		{name: "a person names it", found: lease(text(stranger), ""), change: func(r *terraform.Request) { r.BreakLock = stranger }},
		{
			name: "somebody else holds it", found: lease(text(stranger), `{"ID":"5a3b1c9e","Who":"ada@laptop","Created":"2026-01-01T00:00:00Z"}`),
			held: &terraform.LockInfo{ID: stranger, Who: "ada@laptop", Created: "2026-01-01T00:00:00Z"},
		},
		{name: "a lock that says nothing", found: lease(text(stranger), ""), held: &terraform.LockInfo{ID: stranger, Who: "unknown"}},
		{name: "a lock that is no JSON", found: lease(text(stranger), "{"), held: &terraform.LockInfo{ID: stranger, Who: "unknown"}},
		{name: "a lock that speaks of another", found: lease(text(stranger), `{"ID":"old","Who":"ada"}`), held: &terraform.LockInfo{ID: stranger, Who: "ada"}},
		{name: "a person names another", found: lease(text(stranger), ""), change: func(r *terraform.Request) { r.BreakLock = "other" }, held: &terraform.LockInfo{ID: stranger, Who: "unknown"}},
		{name: "a run that is not known to be gone", found: lease(text("hello-r3"), ""), change: func(r *terraform.Request) { r.GoneRuns = []string{"hello-r1"} }, held: &terraform.LockInfo{ID: "hello-r3", Who: "unknown"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			a, r := newAPI(t)
			if tt.found != nil {
				a.store(g, leasesAt, tt.found)
			}
			req := request()
			if tt.change != nil {
				tt.change(req)
			}

			err := r.lock(t.Context(), req)

			if tt.held != nil {
				var held *heldError
				g.Expect(errors.As(err, &held)).To(BeTrue(), "%v", err)
				g.Expect(held.info).To(Equal(*tt.held))
				g.Expect(holder(g, r)).To(Equal(tt.held.ID), "it is left to its holder")
				g.Expect(r.unlock(t.Context(), req)).To(Succeed())
				g.Expect(holder(g, r)).To(Equal(tt.held.ID))
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(holder(g, r)).To(Equal("hello-r2"))
			l, err := r.kube.lease(t.Context(), "n", req.Backend.LeaseName())
			g.Expect(err).NotTo(HaveOccurred())
			var info terraform.LockInfo
			g.Expect(json.Unmarshal([]byte(l.Annotations[lockInfoAnnotation]), &info)).To(Succeed())
			g.Expect(info.ID).To(Equal("hello-r2"))
			g.Expect(info.Who).To(HavePrefix("capt/n/hello-r2@"))
			g.Expect(info.Info).To(Equal("n/hello"))

			g.Expect(r.unlock(t.Context(), req)).To(Succeed())
			g.Expect(holder(g, r)).To(BeEmpty())
		})
	}
}

func TestLock_ofTwoOneWins(t *testing.T) {
	g := NewWithT(t)
	a, r := newAPI(t)
	a.store(g, leasesAt, lease(nil, ""))
	// Between reading and writing somebody else takes it.
	once := true
	a.refuse = func(method, path string, _ []byte) *metav1.Status {
		if method == http.MethodPut && once {
			once = false
			other := map[string]any{"spec": map[string]any{"holderIdentity": "stranger"}}
			merge(a.objects[path], other)
			a.put(path, a.objects[path])
		}
		return nil
	}
	var held *heldError
	g.Expect(errors.As(r.lock(t.Context(), request()), &held)).To(BeTrue())
	g.Expect(held.info.ID).To(Equal("stranger"))
	g.Expect(holder(g, r)).To(Equal("stranger"))
}

func TestLock_isMadeByOneOnly(t *testing.T) {
	g := NewWithT(t)
	a, r := newAPI(t)
	a.refuse = func(method, path string, _ []byte) *metav1.Status {
		if method == http.MethodPost && len(a.objects) == 0 {
			a.put(path+"/"+request().Backend.LeaseName(), map[string]any{"metadata": map[string]any{"name": request().Backend.LeaseName()}, "spec": map[string]any{"holderIdentity": "stranger"}})
		}
		return nil
	}
	var held *heldError
	g.Expect(errors.As(r.lock(t.Context(), request()), &held)).To(BeTrue())
}

func TestLock_errorsAreNoFreeLock(t *testing.T) {
	g := NewWithT(t)
	a, r := newAPI(t)
	a.refuse = func(string, string, []byte) *metav1.Status {
		return status(http.StatusInternalServerError, metav1.StatusReasonInternalError)
	}
	g.Expect(r.lock(t.Context(), request())).To(MatchError(HavePrefix("reading the lock: ")))
	g.Expect(a.times(http.MethodPost) + a.times(http.MethodPut)).To(BeZero())
}

func TestUnlock_withoutALockIsFine(t *testing.T) {
	g := NewWithT(t)
	_, r := newAPI(t)
	g.Expect(r.unlock(t.Context(), request())).To(Succeed())
}

func TestUnlock_triesAgainAfterAConflict(t *testing.T) {
	g := NewWithT(t)
	a, r := newAPI(t)
	g.Expect(r.lock(t.Context(), request())).To(Succeed())
	once := true
	a.refuse = func(method, _ string, _ []byte) *metav1.Status {
		if method == http.MethodPut && once {
			once = false
			return status(http.StatusConflict, metav1.StatusReasonConflict)
		}
		return nil
	}
	g.Expect(r.unlock(t.Context(), request())).To(Succeed())
	g.Expect(holder(g, r)).To(BeEmpty())
}

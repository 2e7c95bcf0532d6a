package eventwriter

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

func pod(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name, UID: "1", ResourceVersion: "7"}}
}

// record runs a Writer until it has nothing to do, and returns the events.
func record(t *testing.T, funcs interceptor.Funcs, send func(w *Writer)) []eventsv1.Event {
	t.Helper()
	var list eventsv1.EventList
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		c := fake.NewClientBuilder().WithInterceptorFuncs(funcs).Build()
		w := New(c, clientgoscheme.Scheme, "host", time.Now)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- w.Start(ctx) }()
		send(w)
		time.Sleep(time.Minute) // All attempts have ended: the clock of the bubble jumps.
		stop()
		g.Expect(<-ended).To(Succeed())
		g.Expect(c.List(t.Context(), &list)).To(Succeed())
	})
	return list.Items
}

func TestWriter_writesAnEvent(t *testing.T) {
	g := NewWithT(t)
	found := record(t, interceptor.Funcs{}, func(w *Writer) {
		w.Recorder("capt-test").Eventf(pod("a"), pod("b"), corev1.EventTypeWarning, "Failed", "Apply", "%s: %s", "cause", strings.Repeat("é", 1000))
	})
	g.Expect(found).To(HaveLen(1))
	event := found[0]
	g.Expect(event.Namespace).To(Equal("team"))
	g.Expect(event.Name).To(HavePrefix("a."))
	g.Expect(event.Regarding).To(Equal(corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: "team", Name: "a", UID: "1", ResourceVersion: "7"}))
	g.Expect(event.Related.Name).To(Equal("b"))
	g.Expect(event.EventTime.IsZero()).To(BeFalse())
	g.Expect([]string{event.Type, event.Reason, event.Action}).To(Equal([]string{"Warning", "Failed", "Apply"}))
	g.Expect([]string{event.ReportingController, event.ReportingInstance}).To(Equal([]string{"capt-test", "capt-test-host"}))
	g.Expect(event.Note).To(And(HavePrefix("cause: é"), HaveLen(1023)), "the API server accepts 1024 bytes")
}

func TestWriter_countsRepeatedEvents(t *testing.T) {
	g := NewWithT(t)
	patches := 0
	counting := interceptor.Funcs{Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
		patches++
		return c.Patch(ctx, obj, patch, opts...)
	}}
	found := record(t, counting, func(w *Writer) {
		for range 5 {
			w.Recorder("capt-test").Eventf(pod("a"), nil, corev1.EventTypeNormal, "Retried", "Apply", "again")
		}
		time.Sleep(time.Second) // The name of an event has the time.
		w.Recorder("capt-test").Eventf(pod("a"), nil, corev1.EventTypeNormal, "Retried", "Apply", "for another reason")
	})
	g.Expect(found).To(HaveLen(2))
	g.Expect(patches).To(Equal(2), "the second and the fourth")
	for _, event := range found {
		if event.Note == "again" {
			g.Expect(event.Series).NotTo(BeNil())
			g.Expect(event.Series.Count).To(BeEquivalentTo(4))
		}
	}
}

func TestWriter_writesARepeatedEventThatWasDeletedAgain(t *testing.T) {
	g := NewWithT(t)
	gone := interceptor.Funcs{Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "events"}, "a")
	}}
	found := record(t, gone, func(w *Writer) {
		for range 2 {
			w.Recorder("capt-test").Eventf(pod("a"), nil, corev1.EventTypeNormal, "Retried", "Apply", "again")
			time.Sleep(time.Second)
		}
	})
	g.Expect(found).To(HaveLen(2))
}

func TestWriter_retriesOnlyWithoutAnAnswer(t *testing.T) {
	for name, tc := range map[string]struct {
		err     error
		written int
		tries   int
	}{
		"no connection": {errors.New("connection refused"), 1, 3},
		"rejected":      {apierrors.NewForbidden(schema.GroupResource{Resource: "events"}, "a", nil), 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			tries := 0
			failing := interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
				if tries++; tries < 3 {
					return tc.err
				}
				return c.Create(ctx, obj, opts...)
			}}
			found := record(t, failing, func(w *Writer) {
				w.Recorder("capt-test").Eventf(pod("a"), nil, corev1.EventTypeNormal, "Created", "Create", "text")
			})
			g.Expect(found).To(HaveLen(tc.written))
			g.Expect(tries).To(Equal(tc.tries))
		})
	}
}

func TestWriter_writesWhatWaitsWhenItEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		c := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			time.Sleep(time.Second)
			if err := ctx.Err(); err != nil {
				return err
			}
			return c.Create(ctx, obj, opts...)
		}}).Build()
		w := New(c, clientgoscheme.Scheme, "host", time.Now)
		for _, name := range []string{"a", "b", "c"} {
			w.Recorder("capt-test").Eventf(pod(name), nil, corev1.EventTypeNormal, "Created", "Create", "text")
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- w.Start(ctx) }()
		synctest.Wait() // The first is being written.
		stop()
		g.Expect(<-ended).To(Succeed())
		var list eventsv1.EventList
		g.Expect(c.List(t.Context(), &list)).To(Succeed())
		g.Expect(list.Items).To(HaveLen(3))
	})
}

func TestWriter_endsWithoutAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		c := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{Create: func(ctx context.Context, _ client.WithWatch, _ client.Object, _ ...client.CreateOption) error {
			<-ctx.Done()
			return ctx.Err()
		}}).Build()
		w := New(c, clientgoscheme.Scheme, "host", time.Now)
		for range 3 {
			w.Recorder("capt-test").Eventf(pod("a"), nil, corev1.EventTypeNormal, "Created", "Create", "text")
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- w.Start(ctx) }()
		synctest.Wait()
		stopped := time.Now()
		stop()
		g.Expect(<-ended).To(Succeed())
		g.Expect(time.Since(stopped)).To(Equal(endTimeout))
	})
}

func TestRecorder_doesNotBlock(t *testing.T) {
	g := NewWithT(t)
	w := New(nil, clientgoscheme.Scheme, "host", time.Now)
	for range maxWaiting + 10 {
		w.Recorder("capt-test").Eventf(pod("a"), nil, corev1.EventTypeNormal, "Created", "Create", "text")
	}
	g.Expect(w.waiting).To(HaveLen(maxWaiting))
}

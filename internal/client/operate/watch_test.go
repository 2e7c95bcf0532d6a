package operate

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// watches returns a client whose watches deliver the given events one after the
// other, and then end.
func watches(opened *int, events ...[]watch.Event) client.WithWatch {
	return interceptor.NewClient(newClient(workspace("net")), interceptor.Funcs{
		Watch: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) (watch.Interface, error) {
			if *opened == len(events) {
				return nil, errors.New("no more watches")
			}
			w := watch.NewFakeWithChanSize(len(events[*opened]), false)
			for _, event := range events[*opened] {
				w.Action(event.Type, event.Object)
			}
			w.Stop()
			*opened++
			return w, nil
		},
	})
}

func TestWatch_opensANewWatchWhenTheServerClosesOne(t *testing.T) {
	failed := func(code int32, reason metav1.StatusReason) watch.Event {
		return watch.Event{Type: watch.Error, Object: &metav1.Status{Status: metav1.StatusFailure, Code: code, Reason: reason, Message: "it failed"}}
	}
	added := watch.Event{Type: watch.Added, Object: workspace("first")}
	done := watch.Event{Type: watch.Modified, Object: workspace("done")}
	other := workspace("done")
	other.UID = "other"
	recreated := watch.Event{Type: watch.Added, Object: other}
	for name, tc := range map[string]struct {
		events [][]watch.Event
		opened int
		err    string
	}{
		"done":                   {events: [][]watch.Event{{added, done}}, opened: 1},
		"closed":                 {events: [][]watch.Event{{added}, {}, {done}}, opened: 3},
		"expired":                {events: [][]watch.Event{{failed(http.StatusGone, metav1.StatusReasonExpired)}, {failed(http.StatusGone, metav1.StatusReasonGone)}, {done}}, opened: 3},
		"unavailable":            {events: [][]watch.Event{{added, failed(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable)}, {done}}, opened: 2},
		"bookmark":               {events: [][]watch.Event{{{Type: watch.Bookmark, Object: added.Object}, done}}, opened: 1},
		"deleted":                {events: [][]watch.Event{{added, {Type: watch.Deleted, Object: workspace("first")}}}, opened: 1, err: "watching net: it was deleted"},
		"recreated":              {events: [][]watch.Event{{added}, {recreated}}, opened: 2, err: "watching net: it was deleted"},
		"failed":                 {events: [][]watch.Event{{failed(http.StatusForbidden, metav1.StatusReasonForbidden)}}, opened: 1, err: "watching net: it failed"},
		"cannot be opened again": {events: [][]watch.Event{{added}}, opened: 1, err: "watching net: no more watches"},
		"other kind":             {events: [][]watch.Event{{{Type: watch.Added, Object: &infrav1.CAPTCluster{}}}}, opened: 1, err: "watching net: got a *v1beta1.CAPTCluster"},
		"observer fails":         {events: [][]watch.Event{{{Type: watch.Added, Object: workspace("bad")}}}, opened: 1, err: "bad object"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			opened := 0
			err := Watch(t.Context(), watches(&opened, tc.events...), &infrav1.WorkspaceTemplateApplyList{}, workspace("net"), nil,
				func(a *infrav1.WorkspaceTemplateApply) (bool, error) {
					if a.Name == "bad" {
						return false, errors.New("bad object")
					}
					return a.Name == "done", nil
				})
			if tc.err == "" {
				g.Expect(err).NotTo(HaveOccurred())
			} else {
				g.Expect(err).To(MatchError(tc.err))
			}
			g.Expect(opened).To(Equal(tc.opened))
		})
	}
}

func TestWatch_endsWithTheContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	opened := 0
	err := Watch(ctx, watches(&opened, nil), &infrav1.WorkspaceTemplateApplyList{}, workspace("net"), nil,
		func(*infrav1.WorkspaceTemplateApply) (bool, error) { return false, nil })
	NewWithT(t).Expect(err).To(MatchError(context.Canceled))
}

// A watch of an object that does not exist sends nothing until the server closes it.
func TestWatch_endsIfTheObjectDoesNotExist(t *testing.T) {
	g := NewWithT(t)
	err := Watch(t.Context(), newClient(), &infrav1.WorkspaceTemplateApplyList{}, workspace("net"), nil,
		func(*infrav1.WorkspaceTemplateApply) (bool, error) { return false, nil })
	g.Expect(err).To(MatchError(ErrDeleted))
}

// The decoder of a watch reports the end of the context as an event of the server.
func TestWatch_reportsAnInterruptAsSuch(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	failed := watch.Event{Type: watch.Error, Object: &metav1.Status{Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Message: "unable to decode an event"}}
	opened := 0
	err := Watch(ctx, watches(&opened, []watch.Event{{Type: watch.Added, Object: workspace("net")}, failed}), &infrav1.WorkspaceTemplateApplyList{}, workspace("net"), nil,
		func(*infrav1.WorkspaceTemplateApply) (bool, error) {
			cancel()
			return false, nil
		})
	NewWithT(t).Expect(err).To(MatchError(context.Canceled))
}

// refused is the error of a client if nothing listens.
func refused() error {
	return &url.Error{Op: "Get", URL: "https://10.0.0.1:6443", Err: &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}}
}

// dropped returns the error of a client if its packets are dropped: a dial that times out. It
// matches context.DeadlineExceeded, although the context of the request has no deadline.
func dropped(t *testing.T) error {
	t.Helper()
	_, err := (&net.Dialer{Timeout: time.Nanosecond}).DialContext(t.Context(), "tcp", "127.0.0.1:1")
	NewWithT(t).Expect(err).To(MatchError(context.DeadlineExceeded))
	return &url.Error{Op: "Get", URL: "https://10.0.0.1:6443", Err: err}
}

// interrupted returns a client whose watches fail until the given number was tried. The
// first one works, and ends.
func interrupted(tries *int, works int) client.WithWatch {
	return interceptor.NewClient(newClient(workspace("net")), interceptor.Funcs{
		Watch: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) (watch.Interface, error) {
			*tries++
			name := "first"
			if *tries > 1 {
				if works == 0 || *tries < works {
					return nil, refused()
				}
				name = "done"
			}
			w := watch.NewFakeWithChanSize(1, false)
			w.Add(workspace(name))
			w.Stop()
			return w, nil
		},
	})
}

func TestWatch_survivesAnOutage(t *testing.T) {
	g := NewWithT(t)
	tries := 0
	var reported []error
	report := func(since time.Time, err error) {
		g.Expect(since).To(BeTemporally("~", time.Now(), time.Minute))
		reported = append(reported, err)
	}
	err := Watch(t.Context(), interrupted(&tries, 3), &infrav1.WorkspaceTemplateApplyList{}, workspace("net"), report,
		func(a *infrav1.WorkspaceTemplateApply) (bool, error) { return a.Name == "done", nil })
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(tries).To(Equal(3))
	g.Expect(reported).To(ConsistOf(MatchError(syscall.ECONNREFUSED)))
}

func TestWatch_endsAfterALongOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		tries, start := 0, time.Now()
		err := Watch(t.Context(), interrupted(&tries, 0), &infrav1.WorkspaceTemplateApplyList{}, workspace("net"), nil,
			func(*infrav1.WorkspaceTemplateApply) (bool, error) { return false, nil })
		g.Expect(err).To(MatchError(syscall.ECONNREFUSED))
		g.Expect(tries).To(BeNumerically(">", 20), "it was tried again")
		g.Expect(time.Since(start)).To(BeNumerically("~", OutageLimit, 10*time.Second))
	})
}

// A user must not wait for the end of an outage.
func TestWatch_canBeInterruptedInAnOutage(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	tries := 0
	err := Watch(ctx, interrupted(&tries, 0), &infrav1.WorkspaceTemplateApplyList{}, workspace("net"), func(time.Time, error) { cancel() },
		func(*infrav1.WorkspaceTemplateApply) (bool, error) { return false, nil })
	NewWithT(t).Expect(err).To(MatchError(context.Canceled))
}

// The error of a context that ended looks like that of a connection that timed out.
func TestWatch_endsWithTheDeadline(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
	defer cancel()
	<-ctx.Done()
	c := interceptor.NewClient(newClient(), interceptor.Funcs{
		Watch: func(ctx context.Context, _ client.WithWatch, _ client.ObjectList, _ ...client.ListOption) (watch.Interface, error) {
			return nil, &url.Error{Op: "Get", URL: "https://10.0.0.1:6443", Err: ctx.Err()}
		},
	})
	unexpected := func(time.Time, error) { t.Error("an outage is reported") }
	err := Watch(ctx, c, &infrav1.WorkspaceTemplateApplyList{}, workspace("net"), unexpected,
		func(*infrav1.WorkspaceTemplateApply) (bool, error) { return false, nil })
	NewWithT(t).Expect(err).To(MatchError(context.DeadlineExceeded))
}

// An error of the observer ends the wait, even if it is one of the API server.
func TestWatch_endsWithTheObserver(t *testing.T) {
	tries := 0
	err := Watch(t.Context(), interrupted(&tries, 2), &infrav1.WorkspaceTemplateApplyList{}, workspace("net"), nil,
		func(*infrav1.WorkspaceTemplateApply) (bool, error) { return false, refused() })
	NewWithT(t).Expect(err).To(Equal(refused()))
}

func TestIsOutage(t *testing.T) {
	resource := schema.GroupResource{Resource: "workspacetemplateapplies"}
	for name, tc := range map[string]struct {
		err  error
		want bool
	}{
		"connection refused": {refused(), true},
		"packets dropped":    {dropped(t), true},
		"request timed out":  {&url.Error{Op: "Get", URL: "https://10.0.0.1:6443", Err: context.DeadlineExceeded}, true},
		"none":               {nil, false},
		"connection closed":  {&url.Error{Op: "Get", URL: "https://10.0.0.1:6443", Err: io.EOF}, true},
		"connection lost":    {errors.New("http2: client connection lost"), true},
		"too many requests":  {apierrors.NewTooManyRequests("later", 1), true},
		"unavailable":        {apierrors.NewServiceUnavailable("restarting"), true},
		"gateway":            {&apierrors.StatusError{ErrStatus: metav1.Status{Code: http.StatusBadGateway}}, true},
		"forbidden":          {apierrors.NewForbidden(resource, "net", errors.New("no")), false},
		"unauthorized":       {apierrors.NewUnauthorized("expired"), false},
		"interrupt":          {&url.Error{Op: "Get", URL: "https://10.0.0.1:6443", Err: context.Canceled}, false},
		"other":              {errors.New("no more watches"), false},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(IsOutage(tc.err)).To(Equal(tc.want))
		})
	}
}

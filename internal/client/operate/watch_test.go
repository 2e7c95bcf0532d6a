package operate

import (
	"context"
	"errors"
	"net/http"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

package workspacenotification

import (
	"net/http"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// delivery delivers one message to a real server, with a clock of its own.
type delivery struct {
	Gomega
	t      *testing.T
	server *receiver
	now    time.Time
	r      *Reconciler
	s      *scope
}

func newDelivery(t *testing.T) *delivery {
	t.Helper()
	d := &delivery{Gomega: NewWithT(t), t: t, server: newReceiver(t), now: time.Unix(1_800_000_000, 0)}
	d.r = &Reconciler{Network: local(), Now: func() time.Time { return d.now }}
	d.s = &scope{
		notification: newNotification("team-a"), secret: &corev1.Secret{}, destination: destinationOf(d, d.server.data()),
		pending: []message{{ID: "m1", Time: d.now}},
	}
	return d
}

// try delivers what is pending after a time, and returns how long to wait then.
func (d *delivery) try(after time.Duration) time.Duration {
	d.t.Helper()
	d.now = d.now.Add(after)
	err := d.r.deliver(d.t.Context(), d.s)
	if err == nil {
		return 0
	}
	waiting, ok := fault.AsWaiting(err)
	d.Expect(ok).To(BeTrue(), err.Error())
	d.Expect(waiting.Reason).To(Equal(infrav1.DeliveryFailedReason))
	return waiting.RetryAfter
}

func TestDeliver_repeatsAfterABackoff(t *testing.T) {
	d := newDelivery(t)
	d.server.answer(http.StatusServiceUnavailable)
	wait := d.try(0)
	d.Expect(wait).To(Equal(minBackoff))
	for attempt := 2; attempt < 12; attempt++ {
		d.Expect(d.try(wait-time.Second)).To(Equal(time.Second), "not before its time")
		d.Expect(d.server.all()).To(HaveLen(attempt - 1))
		next := d.try(time.Second)
		d.Expect(d.server.all()).To(HaveLen(attempt))
		d.Expect(next).To(And(BeNumerically(">=", wait), BeNumerically("<=", maxBackoff)))
		wait = next
	}
	d.Expect(wait).To(Equal(maxBackoff))
	d.Expect(d.s.notification.Status.LastFailure.Attempts).To(BeEquivalentTo(11))

	d.server.answer(http.StatusOK)
	d.Expect(d.try(wait)).To(BeZero())
	d.Expect(d.s.notification.Status.Delivered).To(HaveLen(1))
	d.Expect(d.s.notification.Status.LastFailure.Attempts).To(BeZero())
}

func TestDeliver_waitsAsTheDestinationWants(t *testing.T) {
	at := time.Unix(1_800_000_000, 0)
	for name, tt := range map[string]struct {
		status int
		header string
		want   time.Duration
	}{
		"seconds":                        {http.StatusTooManyRequests, "120", 2 * time.Minute},
		"a time":                         {http.StatusTooManyRequests, at.Add(5 * time.Minute).UTC().Format(http.TimeFormat), 5 * time.Minute},
		"of a server that is overloaded": {http.StatusServiceUnavailable, "300", 5 * time.Minute},
		"less than the backoff":          {http.StatusTooManyRequests, "1", minBackoff},
		"more than an hour":              {http.StatusTooManyRequests, "99999999", time.Hour},
		"more than a number can have":    {http.StatusTooManyRequests, "99999999999999999999", minBackoff},
		"the past":                       {http.StatusTooManyRequests, at.Add(-time.Hour).UTC().Format(http.TimeFormat), minBackoff},
		"no time":                        {http.StatusTooManyRequests, "soon", minBackoff},
		"a negative number":              {http.StatusTooManyRequests, "-5", minBackoff},
		"with another status":            {http.StatusInternalServerError, "300", minBackoff},
		"no header":                      {http.StatusTooManyRequests, "", minBackoff},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDelivery(t)
			d.server.answer(tt.status)
			d.server.retryAfter = tt.header
			d.Expect(d.try(0)).To(Equal(tt.want))
			d.Expect(d.try(tt.want - time.Second)).To(Equal(time.Second))
			d.Expect(d.server.all()).To(HaveLen(1), "it is left alone")
			d.server.answer(http.StatusOK)
			d.Expect(d.try(time.Second)).To(BeZero())
			d.Expect(d.server.all()).To(HaveLen(2))
		})
	}
}

package workspacenotification

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

func markAt(at time.Time, id string) infrav1.NotificationMark {
	return infrav1.NotificationMark{At: metav1.NewTime(at), ID: id}
}

func TestSettle_remembersEachMessageOnce(t *testing.T) {
	g := NewWithT(t)
	status := &infrav1.WorkspaceNotificationStatus{}
	settle(status, markAt(start, "b"), start)

	g.Expect(isSettled(status, markAt(start, "b"))).To(BeTrue())
	g.Expect(isSettled(status, markAt(start, "a"))).To(BeFalse(), "another one of the same second")
	g.Expect(isSettled(status, markAt(start.Add(-time.Minute), "a"))).To(BeFalse(), "a late one")
}

func TestSettle_isBounded(t *testing.T) {
	g := NewWithT(t)
	status := &infrav1.WorkspaceNotificationStatus{}
	for i := range 3 * maxDelivered {
		settle(status, markAt(start, fmt.Sprintf("%04d", i)), start)
	}
	g.Expect(status.Delivered).To(HaveLen(maxDelivered))
	for i := range 3 * maxDelivered {
		g.Expect(isSettled(status, markAt(start, fmt.Sprintf("%04d", i)))).To(BeTrue())
	}
	g.Expect(isSettled(status, markAt(start, fmt.Sprintf("%04d", 3*maxDelivered)))).To(BeFalse(), "the rest of the same second")

	hour := start.Add(time.Hour)
	settle(status, markAt(hour, "w"), hour)
	g.Expect(isSettled(status, markAt(start.Add(time.Minute), "a"))).To(BeFalse(), "the manager was away when it happened")

	later := hour.Add(maxAge + time.Second)
	settle(status, markAt(later, "x"), later)
	g.Expect(status.Delivered).To(Equal([]infrav1.NotificationMark{markAt(later, "x")}), "those before are settled by their time")
	g.Expect(isSettled(status, markAt(start, "0000"))).To(BeTrue())
}

func TestIsWanted(t *testing.T) {
	created := start
	notification := &infrav1.WorkspaceNotification{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(created)}}
	filtered := notification.DeepCopy()
	filtered.Spec.Events = []infrav1.NotificationEvent{infrav1.NotifyDrift}
	now := created.Add(48 * time.Hour)
	tests := []struct {
		name         string
		notification *infrav1.WorkspaceNotification
		at           time.Time
		want         bool
	}{
		{"just now", notification, now, true},
		{"another event", filtered, now, false},
		{"before the notification was created", notification, created.Add(-time.Second), false},
		{"more than a day ago", notification, now.Add(-25 * time.Hour), false},
		{"a clock that is somewhat ahead", notification, now.Add(time.Minute), true},
		{"a time that would settle all messages until then", notification, now.Add(time.Hour), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			NewWithT(t).Expect(isWanted(tt.notification, message{Event: infrav1.NotifyFailed, Time: tt.at}, now)).To(Equal(tt.want))
		})
	}
}

package captaddon

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	"github.com/appthrust/capt/internal/reconcile"
)

func TestEvent_reportsChangedReasons(t *testing.T) {
	for name, test := range map[string]struct {
		previous, reason, message string
		want                      reconcile.Event
	}{
		"same reason": {"NotReady", "NotReady", "another message", reconcile.Event{}},
		"ready":       {"NotReady", "Ready", "", reconcile.Event{Type: corev1.EventTypeNormal, Reason: "Ready", Action: "Install", Message: "Cluster a: The add-on is ready"}},
		"waiting":     {"", "Applying", "soon", reconcile.Event{Type: corev1.EventTypeNormal, Reason: "Applying", Action: "Install", Message: "Cluster a: soon"}},
		"failed":      {"Applying", "TimedOut", "too slow", reconcile.Event{Type: corev1.EventTypeWarning, Reason: "TimedOut", Action: "Install", Message: "Cluster a: too slow"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			in := &installation{
				name:     "a",
				previous: addonsv1.ClusterAddonStatus{Reason: test.previous},
				current:  addonsv1.ClusterAddonStatus{Reason: test.reason, Message: test.message},
			}
			event, changed := in.event()
			g.Expect(changed).To(Equal(test.want.Reason != ""))
			g.Expect(event).To(Equal(test.want))
		})
	}
}

// The documentation marks the reasons that are failures.
func TestFailures_areThoseOfTheDocumentation(t *testing.T) {
	g := NewWithT(t)
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "addons.md"))
	g.Expect(err).NotTo(HaveOccurred())
	rows := regexp.MustCompile("(?m)^\\| (\\*\\*)?`([A-Za-z]+)`(\\*\\*)? \\|").FindAllStringSubmatch(string(page), -1)
	g.Expect(len(rows)).To(BeNumerically(">", 20))
	for _, row := range rows {
		g.Expect(addonsv1.IsFailure(row[2])).To(Equal(row[1] != ""), row[2])
	}
}

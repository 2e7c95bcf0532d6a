package captcontrolplane

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

func TestAnnounce(t *testing.T) {
	yes, no := metav1.ConditionTrue, metav1.ConditionFalse
	for name, c := range map[string]struct {
		condition         string
		previous, current metav1.ConditionStatus
		reason            string
		created           bool
		want              string
	}{
		"applied":              {controlplanev1.WorkspaceReadyCondition, no, yes, "Ready", false, "Normal Ready WorkspaceReady is True"},
		"failed":               {controlplanev1.WorkspaceReadyCondition, yes, no, infrav1.WorkspaceFailedReason, false, "Warning WorkspaceFailed WorkspaceReady is False"},
		"became unreachable":   {controlplanev1.AvailableCondition, yes, no, controlplanev1.APIServerUnreachableReason, false, "Warning APIServerUnreachable Available is False"},
		"not available yet":    {controlplanev1.AvailableCondition, "", no, controlplanev1.APIServerUnreachableReason, false, "Normal APIServerUnreachable Available is False"},
		"created the role":     {controlplanev1.SpotRoleReadyCondition, "", yes, "Ready", true, "Normal Ready Created the EC2 Spot service-linked role of the account"},
		"found the role":       {controlplanev1.SpotRoleReadyCondition, "", yes, "Ready", false, "Normal Ready SpotRoleReady is True"},
		"another step's event": {controlplanev1.EndpointReadyCondition, "", yes, "Ready", true, "Normal Ready EndpointReady is True"},
		"Ready":                {clusterv1.ReadyCondition, no, yes, "Ready", false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			recorder := events.NewFakeRecorder(1)
			s := newScope()
			s.spotRoleCreated = c.created
			(&Reconciler{Recorder: recorder}).announce(t.Context(), s, s.controlPlane,
				metav1.Condition{Type: c.condition, Status: c.previous}, metav1.Condition{Type: c.condition, Status: c.current, Reason: c.reason})
			got := ""
			select {
			case got = <-recorder.Events:
			default:
			}
			NewWithT(t).Expect(got).To(Equal(c.want))
		})
	}
}

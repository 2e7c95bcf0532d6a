package captaddon

import (
	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	"github.com/appthrust/capt/internal/reconcile"
)

// transitionEvents announce the add-on as a whole. The events of its clusters
// are made by tell.
var transitionEvents = reconcile.EventTable{
	Rules: []reconcile.EventRule{{
		Conditions: []string{clusterv1.ReadyCondition},
		When:       reconcile.BecomesTrue,
		Action:     "Install",
		Message:    "The add-on is ready in every cluster",
	}},
}

// failures are the reasons that need a user's attention.
var failures = map[string]bool{
	addonsv1.ApplyFailedReason: true, addonsv1.TimedOutReason: true, addonsv1.ReleaseStalledReason: true,
	addonsv1.MissingKeyReason: true, addonsv1.InvalidTargetPathReason: true, addonsv1.VersionUnsupportedReason: true,
	addonsv1.DependencyCycleReason: true, addonsv1.InvalidManifestReason: true, addonsv1.TooLargeReason: true,
	addonsv1.EmptyReason: true, addonsv1.DriftedReason: true,
}

// tell makes an event of a cluster whose reason has changed.
func (r *Reconciler) tell(s *scope, st *standing) {
	if st.is.Reason == st.was.Reason {
		return
	}
	kind, message := corev1.EventTypeNormal, st.is.Message
	if failures[st.is.Reason] {
		kind = corev1.EventTypeWarning
		failed(s, st)
	}
	if message == "" {
		message = "The add-on is ready"
	}
	r.Recorder.Eventf(s.addon, st.cluster, kind, st.is.Reason, "Install", "Cluster %s: %s", st.name, message)
}

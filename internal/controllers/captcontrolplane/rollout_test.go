package captcontrolplane

import (
	"testing"

	. "github.com/onsi/gomega"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
)

func TestRecordRollout(t *testing.T) {
	for name, test := range map[string]struct{ served, wanted, want string }{
		"new":                {"", "v1.35.0", "False NotRollingOut"},
		"current":            {"v1.35.3", "v1.35.0", "False NotRollingOut"},
		"one minor":          {"v1.34.1", "v1.35.0", "True RollingOut Upgrading from 1.34 to 1.35"},
		"several minors":     {"v1.33.1", "v1.35.0", "True RollingOut Upgrading from 1.33 to 1.35"},
		"no version":         {"v1.33.1", "latest", "False NotRollingOut"},
		"upgraded elsewhere": {"v1.36.0", "v1.35.0", "False NotRollingOut"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s := &scope{controlPlane: &controlplanev1.CAPTControlPlane{}}
			s.controlPlane.Spec.Version, s.controlPlane.Status.Version = test.wanted, test.served
			g.Expect(recordRollout(t.Context(), s)).To(Succeed())
			c := conditions.Get(s.controlPlane, clusterv1.RollingOutCondition)
			text := string(c.Status) + " " + c.Reason
			if c.Message != "" {
				text += " " + c.Message
			}
			g.Expect(text).To(Equal(test.want))
		})
	}
}

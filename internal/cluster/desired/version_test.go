package desired

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/kubernetes/kubeversion"
)

func TestNextVersion_stepsOneMinorAtATime(t *testing.T) {
	minor := func(minor int) kubeversion.Minor { return kubeversion.Minor{Major: 1, Minor: minor} }
	requested := func(m int) *kubeversion.Minor { return new(minor(m)) }
	tests := []struct {
		name      string
		target    kubeversion.Minor
		requested *kubeversion.Minor
		reached   bool
		want      kubeversion.Minor
	}{
		{"a new control plane starts at the target", minor(33), nil, false, minor(33)},
		{"nothing to do", minor(33), requested(33), true, minor(33)},
		{"one step", minor(33), requested(32), true, minor(33)},
		{"one of several steps", minor(34), requested(31), true, minor(32)},
		{"not before the last step is reached", minor(34), requested(31), false, minor(31)},
		{"never down", minor(31), requested(33), true, minor(33)},
		{"another major is one step", kubeversion.Minor{Major: 2}, requested(40), true, kubeversion.Minor{Major: 2}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			NewWithT(t).Expect(nextVersion(tt.target, tt.requested, tt.reached)).To(Equal(tt.want))
		})
	}
}

func TestVersion_followsTheCloud(t *testing.T) {
	control := func(spec, requested, served string) *ControlPlane {
		existing := &infrav1.WorkspaceTemplateApply{}
		value, err := infrav1.NewValue(requested)
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		existing.Spec.Variables = map[string]infrav1.Value{versionVariable: value}
		existing.Status.Conditions = []metav1.Condition{{Type: infrav1.AppliedCondition, Status: metav1.ConditionTrue, Reason: "Applied"}, {Type: clusterv1.ReadyCondition, Status: metav1.ConditionTrue, Reason: "Ready"}}
		c := &ControlPlane{ControlPlane: &controlplanev1.CAPTControlPlane{}, Existing: existing}
		c.ControlPlane.Spec.Version, c.ControlPlane.Status.Version = spec, served
		return c
	}
	running := func(c *ControlPlane) {
		c.Existing.Status.Conditions = []metav1.Condition{{Type: clusterv1.ReadyCondition, Status: metav1.ConditionFalse, Reason: infrav1.RunInProgressReason}}
	}
	failed := func(c *ControlPlane) {
		c.Existing.Status.Conditions = []metav1.Condition{{Type: clusterv1.ReadyCondition, Status: metav1.ConditionFalse, Reason: infrav1.RunFailedReason}}
	}
	output := func(c *ControlPlane) {
		c.ControlPlane.Spec.Kubeconfig = &controlplanev1.KubeconfigConfig{Source: controlplanev1.KubeconfigSourceOutput}
	}
	for name, change := range map[string]func(*ControlPlane){"during a run": running, "a kubeconfig of an output": output} {
		t.Run("does not follow "+name, func(t *testing.T) {
			g := NewWithT(t)
			c := control("v1.33.0", "1.33", "v1.34.1")
			change(c)
			version, err := c.Version()
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(version.Next.String()).To(Equal("1.33"))
			g.Expect(version.Hold().Next.String()).To(Equal("1.33"))
		})
	}
	t.Run("has followed before a run", func(t *testing.T) {
		g := NewWithT(t)
		c := control("v1.33.0", "1.34", "v1.34.1")
		running(c)
		version, err := c.Version()
		g.Expect(err).NotTo(HaveOccurred(), "it is not a downgrade")
		g.Expect(version.Next.String()).To(Equal("1.34"))
	})
	t.Run("follows after a failed run", func(t *testing.T) {
		g := NewWithT(t)
		c := control("v1.33.0", "1.33", "v1.34.1")
		failed(c)
		version, err := c.Version()
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(version.Next.String()).To(Equal("1.34"))
	})
	tests := map[string]struct {
		spec, requested, served string
		next, held              string
		upgrades, behind        bool
	}{
		"nothing to do":                            {"v1.33.0", "1.33", "v1.33.4", "1.33", "1.33", false, false},
		"the cloud has upgraded":                   {"v1.33.0", "1.33", "v1.34.1", "1.34", "1.34", false, true},
		"the workspace has followed the cloud":     {"v1.33.0", "1.34", "v1.34.1", "1.34", "1.34", false, true},
		"the cloud has upgraded to the target":     {"v1.34.0", "1.33", "v1.34.1", "1.34", "1.34", false, false},
		"the cloud has upgraded on the way":        {"v1.36.0", "1.33", "v1.34.1", "1.35", "1.34", true, false},
		"an API server that still serves the last": {"v1.34.0", "1.34", "v1.33.1", "1.34", "1.34", false, false},
		"an API server whose version is not known": {"v1.34.0", "1.33", "", "1.33", "1.33", false, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			version, err := control(tt.spec, tt.requested, tt.served).Version()
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(version.Next.String()).To(Equal(tt.next))
			g.Expect(version.Hold().Next.String()).To(Equal(tt.held))
			g.Expect(version.Upgrades()).To(Equal(tt.upgrades))
			g.Expect(version.IsBehind()).To(Equal(tt.behind))
		})
	}
}

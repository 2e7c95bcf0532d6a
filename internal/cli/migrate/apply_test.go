package migrate

import (
	"testing"

	. "github.com/onsi/gomega"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

func TestCompareWorkloads(t *testing.T) {
	before := func() *record {
		s := newState()
		return &record{From: "v1", Revision: 4, Before: &s.running}
	}
	for name, c := range map[string]struct {
		edit    func(*clusterState)
		text    string
		failure string
	}{
		"nothing was recorded":       {edit: func(s *clusterState) { s.record = nil }, text: "revision 4 of the release is running"},
		"no workloads were recorded": {edit: func(s *clusterState) { s.record.Before = nil }, text: "revision 4 of the release is running"},
		"same revision":              {edit: func(*clusterState) {}, text: "the same Deployment and the same 2 pods are running, still at revision 4"},
		"next revision":              {edit: func(s *clusterState) { s.release.Revision = 5 }, text: "the same Deployment and the same 2 pods are running, revision 4 became 5"},
		"other pods": {
			edit: func(s *clusterState) { s.running.Pods["karpenter/karpenter"] = []string{"p1", "p3"} },
			text: "the same Deployment is running, some of its pods were replaced, still at revision 4",
		},
		"no release":       {edit: func(s *clusterState) { s.release = nil }, failure: "demo: the release no longer exists"},
		"other Deployment": {edit: func(s *clusterState) { s.running.Deployments["karpenter/karpenter"] = "d2" }, failure: "demo: the Deployments were replaced"},
		"earlier revision": {edit: func(s *clusterState) { s.release.Revision = 1 }, failure: "demo: the release was reinstalled: its revision was 4 and is 1"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s := newState(func(s *clusterState) { s.record = before() }, c.edit)
			text, err := s.compareWorkloads()
			if c.failure != "" {
				g.Expect(err).To(MatchError(ContainSubstring(c.failure)))
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(text).To(Equal(c.text))
		})
	}
}

func TestDropVariables_recordsThemOnce(t *testing.T) {
	g := NewWithT(t)
	m, s := newMigration(), newState(withVariables("karpenter_values", "region"))
	cp := s.controlPlane.DeepCopy()
	(&work{m, s}).dropVariables(cp, "v1")
	g.Expect(cp.Spec.Variables).To(And(HaveKey("region"), Not(HaveKey("karpenter_values"))))
	want := &record{From: "v1", To: "v2", Dropped: map[string]infrav1.Value{"karpenter_values": s.controlPlane.Spec.Variables["karpenter_values"]}}
	g.Expect(recordOf(cp)).To(Equal(want))

	cp.Spec.WorkspaceTemplateRef.Name = "v2"
	(&work{m, s}).dropVariables(cp, "v1")
	g.Expect(recordOf(cp)).To(Equal(want), "a repeated edit keeps the recorded values")
}

func TestRecordOf_isEmptyWithoutAValidRecord(t *testing.T) {
	g := NewWithT(t)
	cp := newState().controlPlane
	g.Expect(recordOf(cp)).To(Equal(&record{}))
	cp.Annotations = map[string]string{RecordAnnotation: `{"from":1}`}
	g.Expect(recordOf(cp)).To(Equal(&record{}))
}

func TestForgottenBy(t *testing.T) {
	NewWithT(t).Expect(forgottenBy(plan(0, "forget", "helm_release.a", "update", "aws_eks_cluster.this"))).To(Equal([]string{"helm_release.a"}))
}

func TestAddonPending(t *testing.T) {
	for name, c := range map[string]struct {
		edits []func(*clusterState)
		want  string
	}{
		"not selected": {nil, "add-on fluxcd does not select the cluster"},
		"not observed": {[]func(*clusterState){withReady(flux), func(s *clusterState) { s.flux.Status.Clusters = s.flux.Status.Clusters[:1] }}, "CAPT has not observed add-on fluxcd yet"},
		"unknown":      {[]func(*clusterState){withReady(flux), func(s *clusterState) { s.flux.Status.Clusters[1].Ready = nil }}, "add-on fluxcd: Ready "},
		"not ready": {[]func(*clusterState){withReady(flux), func(s *clusterState) {
			s.flux.Status.Clusters[1] = addonsv1.ClusterAddonStatus{Name: "demo", Ready: new(false), Reason: "Applying", Message: "Waiting for CRDs"}
		}}, "add-on fluxcd: Applying Waiting for CRDs"},
		"changed since": {[]func(*clusterState){withReady(flux), func(s *clusterState) { s.flux.Generation++ }}, "add-on fluxcd: Ready "},
		"ready":         {[]func(*clusterState){withReady(flux)}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newState(c.edits...)
			NewWithT(t).Expect(s.addonPending(s.flux)).To(Equal(c.want))
		})
	}
}

package migrate

import (
	"errors"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

func TestPlanMigration_stages(t *testing.T) {
	for name, c := range map[string]struct {
		edits []func(*clusterState)
		next  Stage
	}{
		"add-ons do not exist":                                 {[]func(*clusterState){func(s *clusterState) { s.addonsExist = false }}, StageAddons},
		"add-ons only of the files select the cluster already": {[]func(*clusterState){withReady(flux), withTemplate("v2"), withReady(karpenter), func(s *clusterState) { s.addonsExist = false }}, StageAddons},
		"Flux does not select the cluster":                     {nil, StageFlux},
		"Flux is not ready": {[]func(*clusterState){withReady(flux), func(s *clusterState) {
			s.flux.Status.Clusters[1].Ready = new(false)
		}}, StageFlux},
		"Flux is ready":                     {[]func(*clusterState){withReady(flux)}, StageForget},
		"the new template is applied":       {[]func(*clusterState){withReady(flux), withTemplate("v2")}, StageAdopt},
		"only the control plane has it":     {[]func(*clusterState){withReady(flux), func(s *clusterState) { s.controlPlane.Spec.WorkspaceTemplateRef.Name = "v2" }}, StageForget},
		"only the workspace has it":         {[]func(*clusterState){withReady(flux), func(s *clusterState) { s.workspace = newWorkspace("v2") }}, StageForget},
		"the new template is being applied": {[]func(*clusterState){withReady(flux), withTemplate("v2"), func(s *clusterState) { setConditions(s.workspace, metav1.ConditionFalse, "Running") }}, StageForget},
		"the approval mode is not restored": {[]func(*clusterState){withReady(flux), withTemplate("v2"), func(s *clusterState) {
			s.workspace.Annotations = map[string]string{approvalAnnotation: unset}
		}}, StageForget},
		"everything is done": {[]func(*clusterState){withReady(flux), withTemplate("v2"), withReady(karpenter), withFluxRelease}, StageDone},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			r := newMigration().planMigration(newState(c.edits...))
			g.Expect(r.Blockers).To(BeEmpty())
			g.Expect(r.Next()).To(Equal(c.next))
			if c.next == StageDone {
				g.Expect(r.Notes).To(ContainElement("the cluster is migrated: nothing to do"))
			} else {
				g.Expect(r.text(c.next)).NotTo(BeEmpty())
			}
		})
	}
}

func TestPlanMigration_blockers(t *testing.T) {
	now := metav1.Now()
	for name, c := range map[string]struct {
		edit    func(*Migration, *clusterState)
		blocker string
	}{
		"no CAPTControlPlane":  {func(_ *Migration, s *clusterState) { s.controlPlane = nil }, "not a CAPTControlPlane"},
		"paused":               {func(_ *Migration, s *clusterState) { s.cluster.Spec.Paused = new(true) }, "is paused"},
		"deleted":              {func(_ *Migration, s *clusterState) { s.cluster.DeletionTimestamp = &now }, "is being deleted"},
		"no workspace":         {func(_ *Migration, s *clusterState) { s.workspace = nil }, "no workspace yet"},
		"unknown template":     {func(_ *Migration, s *clusterState) { withTemplate("mine")(s) }, "uses template mine, neither v1 nor v2"},
		"unreachable":          {func(_ *Migration, s *clusterState) { s.unreachable = errTest }, "unreachable: connection refused"},
		"no Flux add-on":       {func(_ *Migration, s *clusterState) { s.flux = nil }, "must both exist in namespace default"},
		"no Karpenter add-on":  {func(_ *Migration, s *clusterState) { s.addon = nil }, "must both exist"},
		"add-on without chart": {func(_ *Migration, s *clusterState) { s.addon.Spec.Helm = nil }, "must both exist"},
		"no new template":      {func(_ *Migration, s *clusterState) { s.newTemplate = nil }, "WorkspaceTemplate v2 does not exist"},
		"control plane is not ready": {func(_ *Migration, s *clusterState) {
			s.controlPlane.Status.Conditions[0].Status = metav1.ConditionFalse
		}, "the control plane is not ready"},
		"control plane was not observed": {func(_ *Migration, s *clusterState) { s.controlPlane.Generation++ }, "the control plane is not ready"},
		"control plane without status":   {func(_ *Migration, s *clusterState) { s.controlPlane.Status.Conditions = nil }, "the control plane is not ready"},
		"class without a variable":       {func(_ *Migration, s *clusterState) { s.class = &class{name: "eks"} }, "ClusterClass eks"},
		"class sets a dropped variable": {func(_ *Migration, s *clusterState) {
			s.class = &class{name: "eks", variable: "template"}
			withVariables("karpenter_values", "region")(s)
		}, "ClusterClass eks sets the variables karpenter_values, which template v2 does not declare"},
		"selector with expressions": {func(_ *Migration, s *clusterState) {
			s.addon.Spec.ClusterSelector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "tier", Operator: metav1.LabelSelectorOpExists}}
		}, "add-on karpenter selects clusters by expressions"},
		"incompatible version": {func(m *Migration, s *clusterState) {
			m.Versions = noVersion{}
			s.controlPlane.Status.Version = "v1.30.0"
		}, "add-on fluxcd: not for v1.30.0"},
		"release of another name": {func(_ *Migration, s *clusterState) {
			s.release, s.releases = nil, []*helmRelease{newRelease("kube-system", "k", "1.14.1")}
		}, "running release is kube-system/k, but add-on karpenter installs karpenter/karpenter"},
		"no release":        {func(_ *Migration, s *clusterState) { s.release, s.releases = nil, nil }, "no release of chart karpenter to migrate: label the Cluster karpenter.sh/enabled=true"},
		"failed release":    {func(_ *Migration, s *clusterState) { s.release.Info.Status = "failed" }, "has status failed"},
		"other chart":       {func(_ *Migration, s *clusterState) { s.release.Chart.Metadata.Version = "1.13.0" }, "chart version 1.13.0 is running and add-on karpenter installs 1.14.1"},
		"missing output":    {func(_ *Migration, s *clusterState) { withTemplate("v2")(s); needsOutput(s) }, "add-on karpenter needs output queue, which is not in Secret demo-eks-connection"},
		"undeclared output": {func(_ *Migration, s *clusterState) { needsOutput(s); declaresOutput(s, "other") }, "add it to template v2"},
	} {
		t.Run(name, func(t *testing.T) {
			m, s := newMigration(), newState()
			c.edit(m, s)
			NewWithT(t).Expect(m.planMigration(s).Blockers).To(ContainElement(ContainSubstring(c.blocker)))
		})
	}
}

// noVersion refuses every version.
type noVersion struct{}

func (noVersion) CheckAddon(_ *addonsv1.CAPTAddon, kubernetes string) error {
	return errors.New("not for " + kubernetes)
}

func needsOutput(s *clusterState) {
	s.connectionSecret = "demo-eks-connection"
	s.addon.Spec.Helm.ValuesFrom = []addonsv1.OutputValue{{ValuesKey: "queue", TargetPath: "settings.interruptionQueue"}}
}

func declaresOutput(s *clusterState, name string) {
	s.newTemplate.Status.Outputs = []infrav1.DeclaredOutput{{Name: name}}
}

func TestPlanMigration_isNotBlockedWhenTheStageNoLongerNeedsIt(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*Migration, *clusterState)
	}{
		"not ready while the new template is applied": {func(_ *Migration, s *clusterState) {
			s.controlPlane.Spec.WorkspaceTemplateRef.Name = "v2"
			s.controlPlane.Status.Conditions[0].Status = metav1.ConditionFalse
		}},
		"class whose template is set": {func(_ *Migration, s *clusterState) {
			s.class = &class{name: "eks"}
			withTemplate("v2")(s)
			withVariables("karpenter_values")(s)
		}},
		"class with a variable": {func(_ *Migration, s *clusterState) {
			s.class = &class{name: "eks", variable: "template"}
			withVariables("region")(s)
		}},
		"expressions that match": {func(_ *Migration, s *clusterState) {
			withReady(karpenter)(s)
			s.addon.Spec.ClusterSelector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: karpenterLabel, Operator: metav1.LabelSelectorOpExists}}
		}},
		"unknown version":            {func(m *Migration, _ *clusterState) { m.Versions = noVersion{} }},
		"release that Flux upgrades": {func(_ *Migration, s *clusterState) { withFluxRelease(s); s.release.Info.Status = "pending-upgrade" }},
		"chart that Flux upgrades":   {func(_ *Migration, s *clusterState) { withFluxRelease(s); s.release.Chart.Metadata.Version = "1.13.0" }},
		"allowed upgrade": {func(m *Migration, s *clusterState) {
			m.AllowUpgrade = true
			s.release.Chart.Metadata.Version = "1.13.0"
		}},
		"version with prefix and digest": {func(_ *Migration, s *clusterState) { s.release.Chart.Metadata.Version = "v1.14.1+0123abc" }},
		"existing output":                {func(_ *Migration, s *clusterState) { needsOutput(s); s.connection = map[string][]byte{"queue": nil} }},
		"optional output": {func(_ *Migration, s *clusterState) {
			needsOutput(s)
			s.addon.Spec.Helm.ValuesFrom[0].Optional = new(true)
		}},
		"output with a default": {func(_ *Migration, s *clusterState) {
			needsOutput(s)
			s.addon.Spec.Helm.ValuesFrom[0].Default = new("")
		}},
		"output of the new template":      {func(_ *Migration, s *clusterState) { needsOutput(s); declaresOutput(s, "queue") }},
		"template that was not inspected": {func(_ *Migration, s *clusterState) { needsOutput(s) }},
		"template of the record": {func(_ *Migration, s *clusterState) {
			withTemplate("mine")(s)
			s.record = &record{From: "mine"}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			m, s := newMigration(), newState()
			c.edit(m, s)
			NewWithT(t).Expect(m.planMigration(s).Blockers).To(BeEmpty())
		})
	}
}

func TestPlanMigration_notes(t *testing.T) {
	g := NewWithT(t)
	m := newMigration()
	m.AllowUpgrade = true
	s := newState(withVariables("karpenter_values", "region"), func(s *clusterState) {
		needsOutput(s)
		s.release.Chart.Metadata.Version = "1.13.0"
		s.addons = append(s.addons, *newAddon("nodepool", karpenterLabel), *newAddon("logs", "logs"))
	})
	s.flux, s.addon = &s.addons[0], &s.addons[1]
	r := m.planMigration(s)
	g.Expect(r.Blockers).To(BeEmpty())
	g.Expect(r.Notes).To(ConsistOf(
		ContainSubstring("values cannot be compared"),
		ContainSubstring("output queue is not in Secret demo-eks-connection yet"),
		ContainSubstring("the labels also select add-on nodepool"),
		ContainSubstring("template v2 does not declare the variables karpenter_values, "),
		ContainSubstring("chart version 1.13.0 becomes 1.14.1"),
	))
}

func TestPlanMigration_predictsRestarts(t *testing.T) {
	for name, c := range map[string]struct {
		edit      func(*clusterState)
		restarts  Restarts
		differing []string
	}{
		"same chart and values": {func(s *clusterState) {
			s.release.Chart.Values = map[string]any{"replicas": 2}
			s.addon.Spec.Helm.Values = &infrav1.Value{Raw: []byte(`{"replicas":2}`)}
		}, RestartsNo, nil},
		"other values": {func(s *clusterState) { s.addon.Spec.Helm.Values = &infrav1.Value{Raw: []byte(`{"replicas":1}`)} }, RestartsPossible, []string{"replicas"}},
		"other chart":  {func(s *clusterState) { s.release.Chart.Metadata.Version = "1.13.0" }, RestartsPossible, nil},
		"no release":   {func(s *clusterState) { s.release = nil }, RestartsUnknown, nil},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			r := newMigration().planMigration(newState(c.edit))
			g.Expect(r.Restarts).To(Equal(c.restarts))
			g.Expect(r.DifferingValues).To(Equal(c.differing))
		})
	}
}

func TestPlanMigration_describesTheRelease(t *testing.T) {
	g := NewWithT(t)
	r := newMigration().planMigration(newState())
	g.Expect(r.Namespace + "/" + r.Cluster + " " + r.Template).To(Equal("default/demo v1"))
	g.Expect(*r.Release).To(Equal(Release{Namespace: "karpenter", Name: "karpenter", Chart: "karpenter", Version: "1.14.1", Revision: 4, Pods: 2}))
	g.Expect(newMigration().planMigration(migrated()).Release.ManagedByFlux).To(BeTrue())
}

func TestDroppedVariables(t *testing.T) {
	for name, c := range map[string]struct {
		edits   []func(*clusterState)
		dropped []string
	}{
		"declared variables decide":          {[]func(*clusterState){withVariables("karpenter_values", "region", "mine")}, []string{"karpenter_values", "mine"}},
		"template that was not inspected":    {[]func(*clusterState){withVariables("karpenter_values", "region", "mine"), func(s *clusterState) { s.newTemplate = newTemplate("v2") }}, []string{"karpenter_values"}},
		"template that does not exist":       {[]func(*clusterState){withVariables(ImportVariable, "mine"), func(s *clusterState) { s.newTemplate = nil }}, []string{ImportVariable}},
		"the control plane already uses it":  {[]func(*clusterState){withVariables("karpenter_values"), withTemplate("v2")}, nil},
		"the control plane has no variables": {nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(newMigration().droppedVariables(newState(c.edits...))).To(Equal(c.dropped))
		})
	}
}

func TestNewClass_findsTheVariableOfTheTemplate(t *testing.T) {
	g := NewWithT(t)
	c := &clusterv1.ClusterClass{}
	c.Name = "eks"
	c.Spec.ControlPlane.TemplateRef.Name = "eks"
	g.Expect(newClass(c).variable).To(BeEmpty())
	g.Expect(newClass(c).advice("v2")).To(And(ContainSubstring("ClusterClass eks"), ContainSubstring(templatePath)))
	c.Spec.Patches = []clusterv1.ClusterClassPatch{{Definitions: []clusterv1.PatchDefinition{{
		Selector:    clusterv1.PatchSelector{Kind: "CAPTControlPlaneTemplate"},
		JSONPatches: []clusterv1.JSONPatch{{Op: "replace", Path: templatePath, ValueFrom: &clusterv1.JSONPatchValue{Variable: "template"}}},
	}}}}
	g.Expect(newClass(c).variable).To(Equal("template"))
}

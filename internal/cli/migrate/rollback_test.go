package migrate

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// deselected removes the add-on from the cluster and from CAPT's and Flux's care.
func deselected(s *clusterState) {
	delete(s.cluster.Labels, karpenterLabel)
	s.addon.Status.Clusters = nil
	s.fluxRelease = nil
}

func TestPlanRollback_stages(t *testing.T) {
	for name, c := range map[string]struct {
		edits []func(*clusterState)
		next  Stage
	}{
		"migrated":                      {nil, StageRelease},
		"the label is removed":          {[]func(*clusterState){func(s *clusterState) { delete(s.cluster.Labels, karpenterLabel) }}, StageRelease},
		"CAPT still manages the add-on": {[]func(*clusterState){deselected, func(s *clusterState) { s.addon.Status.Clusters = []addonsv1.ClusterAddonStatus{{Name: "demo"}} }}, StageRelease},
		"Flux still manages it":         {[]func(*clusterState){deselected, withFluxRelease}, StageRelease},
		"the annotation is not removed": {[]func(*clusterState){deselected, func(s *clusterState) {
			s.cluster.Annotations = map[string]string{addonsv1.LeaveAddonsAnnotation: ""}
		}}, StageRelease},
		"released":                         {[]func(*clusterState){deselected}, StageImport},
		"the old template is applied":      {[]func(*clusterState){deselected, withTemplate("v1")}, StageDone},
		"the old template is not ready":    {[]func(*clusterState){deselected, withTemplate("v1"), func(s *clusterState) { setConditions(s.workspace, metav1.ConditionFalse, "Running") }}, StageImport},
		"the import variable is still set": {[]func(*clusterState){deselected, withTemplate("v1"), withVariables(ImportVariable)}, StageImport},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			r := newMigration().planRollback(migrated(c.edits...))
			g.Expect(r.Blockers).To(BeEmpty())
			g.Expect(r.Next()).To(Equal(c.next))
			if c.next == StageDone {
				g.Expect(r.Notes).To(ContainElement("Terraform manages the release: nothing to do"))
			}
		})
	}
}

func TestPlanRollback_blockers(t *testing.T) {
	for name, c := range map[string]struct {
		edit    func(*clusterState)
		blocker string
	}{
		"unreachable":              {func(s *clusterState) { s.unreachable = errTest }, "unreachable: connection refused"},
		"no add-on":                {func(s *clusterState) { s.addon = nil }, "add-on karpenter does not exist in namespace default"},
		"add-on without chart":     {func(s *clusterState) { s.addon.Spec.Helm = nil }, "add-on karpenter does not exist"},
		"no old template":          {func(s *clusterState) { s.oldTemplate = nil }, "WorkspaceTemplate v1 does not exist"},
		"no way to take over":      {func(s *clusterState) { inline(s, "resource") }, "neither the variable karpenter_import nor upgrade_install"},
		"class without a variable": {func(s *clusterState) { s.class = &class{name: "eks"} }, "ClusterClass eks"},
		"no release":               {func(s *clusterState) { s.release = nil }, "release karpenter/karpenter does not exist"},
		"foreign HelmRelease":      {func(s *clusterState) { s.fluxRelease.SetLabels(nil) }, "HelmRelease karpenter/karpenter does not belong to the add-on"},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(newMigration().planRollback(migrated(c.edit)).Blockers).To(ConsistOf(ContainSubstring(c.blocker)))
		})
	}
}

// inline gives the old template a module without ImportVariable.
func inline(s *clusterState, module string) {
	s.oldTemplate = newTemplate("v1", "region")
	s.oldTemplate.Spec.Template.Spec.ForProvider.Source = infrav1.ModuleSourceInline
	s.oldTemplate.Spec.Template.Spec.ForProvider.Module = module
}

func TestPlanRollback_isNotBlocked(t *testing.T) {
	for name, edit := range map[string]func(*clusterState){
		"module with upgrade_install": func(s *clusterState) { inline(s, "upgrade_install = true") },
		"remote module": func(s *clusterState) {
			inline(s, "git::https://example.com/eks")
			s.oldTemplate.Spec.Template.Spec.ForProvider.Source = infrav1.ModuleSourceRemote
		},
		"class whose template is set": func(s *clusterState) { s.class = &class{}; withTemplate("v1")(s) },
		"class with a variable":       func(s *clusterState) { s.class = &class{variable: "template"} },
		"release of the old template": func(s *clusterState) { s.release = nil; withTemplate("v1")(s) },
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(newMigration().planRollback(migrated(edit)).Blockers).To(BeEmpty())
		})
	}
}

func TestPlanRollback_choosesImportOrTakeOver(t *testing.T) {
	g := NewWithT(t)
	g.Expect(newMigration().planRollback(migrated()).text(StageImport)).To(Equal(
		"change the template from v2 to v1, with karpenter_import=karpenter/karpenter; the plan is applied only if it imports the helm_release and destroys nothing"))
	g.Expect(newMigration().planRollback(migrated(func(s *clusterState) { inline(s, "upgrade_install") })).text(StageImport)).To(Equal(
		"change the template from v2 to v1, which takes over the running release with upgrade_install; the plan is applied only if it creates the helm_release and destroys nothing"))
}

func TestPlanRollback_predictsRestarts(t *testing.T) {
	for name, c := range map[string]struct {
		record *record
		want   Restarts
	}{
		"no record":                  {nil, RestartsPossible},
		"chart values were dropped":  {&record{From: "v1", Dropped: map[string]infrav1.Value{"karpenter_values": {}}}, RestartsPossible},
		"other variable was dropped": {&record{From: "v1", Dropped: map[string]infrav1.Value{"mine": {}}}, RestartsNo},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(newMigration().planRollback(migrated(func(s *clusterState) { s.record = c.record })).Restarts).To(Equal(c.want))
		})
	}
}

// A rollback must keep the objects of each add-on that the removed label selected:
// deleted node pools would take their nodes with them.
func TestDeselectedAddons(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*clusterState)
		want []string
	}{
		"the add-on alone": {func(*clusterState) {}, []string{"karpenter"}},
		"others with the same label": {func(s *clusterState) {
			s.addons = append(s.addons, *newAddon("nodepool", karpenterLabel), *newAddon("logs", fluxLabel), *newAddon("unused", "unused"))
		}, []string{"karpenter", "nodepool"}},
		"the label is shared with Flux": {func(s *clusterState) {
			s.flux.Spec.ClusterSelector.MatchLabels[karpenterLabel] = "true"
		}, nil},
		"interrupted after the label was removed": {func(s *clusterState) {
			deselected(s)
			s.cluster.Annotations = map[string]string{addonsv1.LeaveAddonsAnnotation: "karpenter, nodepool,"}
		}, []string{"karpenter", "nodepool"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s := migrated(c.edit)
			g.Expect(newMigration().deselectedAddons(s)).To(Equal(c.want))
			for _, note := range newMigration().planRollback(s).Notes {
				g.Expect(note).NotTo(ContainSubstring("add-on karpenter "), "a note names only other add-ons")
			}
		})
	}
}

func TestLabelsToRemove_withoutFlux(t *testing.T) {
	NewWithT(t).Expect(migrated(func(s *clusterState) { s.flux = nil }).labelsToRemove()).To(Equal([]string{karpenterLabel}))
}

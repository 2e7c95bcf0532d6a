package migrate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// planRollback decides what a rollback of the cluster will do.
func (m *Migration) planRollback(s *clusterState) *Report {
	r := s.newReport()
	if !m.checkCluster(s, r) {
		return r
	}
	if s.addon == nil || s.addon.Spec.Helm == nil {
		r.block("add-on %s does not exist in namespace %s: it names the release to return to Terraform", m.Addon, s.key.Namespace)
		return r
	}
	oldTemplate := m.oldTemplateName(s)
	_, importing := s.controlPlane.Spec.Variables[ImportVariable]
	method := fmt.Sprintf("with %s=%s; the plan is applied only if it imports the %s and destroys nothing", ImportVariable, s.releaseID(), releaseType)
	if !s.importsRelease() {
		method = fmt.Sprintf("which takes over the running release with upgrade_install; the plan is applied only if it creates the %s and destroys nothing", releaseType)
	}
	r.Stages = []StagePlan{
		{StageRelease, m.isReleased(s), fmt.Sprintf("remove the label %s from the Cluster, then suspend and delete the HelmRelease of %s, which keeps its workloads", labelPairs(s.addon), s.releaseID())},
		{StageImport, s.hasApplied(oldTemplate) && !importing, fmt.Sprintf("change the template from %s to %s, %s", m.To, oldTemplate, method)},
	}
	r.Restarts = RestartsNo
	if s.record == nil || slices.ContainsFunc(oldVariables, func(name string) bool { _, found := s.record.Dropped[name]; return found }) {
		r.Restarts = RestartsPossible
	}
	for _, name := range m.deselectedAddons(s) {
		if name != m.Addon {
			r.note("the objects of add-on %s stay in the cluster, but CAPT no longer manages them", name)
		}
	}
	m.blockRollback(s, r)
	if r.Next() == StageDone {
		r.note("Terraform manages the release: nothing to do")
	}
	return r
}

func (m *Migration) blockRollback(s *clusterState, r *Report) {
	oldTemplate := m.oldTemplateName(s)
	switch {
	case s.oldTemplate == nil:
		r.block("WorkspaceTemplate %s does not exist: apply it, or pass another with --from", oldTemplate)
	case !s.importsRelease() && !mayInstallOver(s.oldTemplate.Spec.Template.Spec.ForProvider):
		r.block("template %s has neither the variable %s nor upgrade_install, so Terraform cannot take over the running release: see docs/migration.md", oldTemplate, ImportVariable)
	case s.class != nil && s.class.variable == "" && s.templateName() != oldTemplate:
		r.block("%s", s.class.advice(oldTemplate))
	case s.release == nil && s.templateName() == m.To:
		r.block("release %s does not exist, so Terraform would install it instead of taking it over", s.releaseID())
	case s.fluxRelease != nil && s.fluxRelease.GetLabels()[addonsv1.AddonLabel] != s.addon.Name:
		r.block("HelmRelease %s/%s does not belong to the add-on: suspend and delete it, or label it %s=%s", s.fluxRelease.GetNamespace(), s.fluxRelease.GetName(), addonsv1.AddonLabel, s.addon.Name)
	}
}

// mayInstallOver reports whether a module may take over a release that exists. A remote
// module is unknown.
func mayInstallOver(module infrav1.ModuleParameters) bool {
	const option = "upgrade_install"
	return module.Source != infrav1.ModuleSourceInline || strings.Contains(module.Module, option) ||
		slices.ContainsFunc(slices.Collect(maps.Values(module.Files)), func(text string) bool { return strings.Contains(text, option) })
}

// importsRelease reports whether the old template imports the release with an
// import block. Otherwise it takes over the release when it installs it.
func (s *clusterState) importsRelease() bool {
	return s.oldTemplate != nil && slices.ContainsFunc(s.oldTemplate.Status.Variables, func(v infrav1.DeclaredVariable) bool { return v.Name == ImportVariable })
}

// isReleased reports whether neither CAPT nor Flux manages the release.
func (m *Migration) isReleased(s *clusterState) bool {
	_, leaving := s.cluster.Annotations[addonsv1.LeaveAddonsAnnotation]
	return !s.addon.Selects(s.cluster.Labels) && s.addon.StatusIn(s.key.Name) == nil && s.fluxRelease == nil && !leaving
}

// labelsToRemove returns the keys of the add-on's labels that Flux does not need.
func (s *clusterState) labelsToRemove() []string {
	var keys []string
	for key := range s.addon.Spec.ClusterSelector.MatchLabels {
		if s.flux != nil {
			if _, needed := s.flux.Spec.ClusterSelector.MatchLabels[key]; needed {
				continue
			}
		}
		keys = append(keys, key)
	}
	return keys
}

// deselectedAddons returns the add-ons that no longer select the cluster without
// labelsToRemove, and those of an interrupted rollback. One of them may own
// Karpenter's node pools, whose nodes would be deleted with them.
func (m *Migration) deselectedAddons(s *clusterState) []string {
	names := map[string]bool{}
	for name := range strings.SplitSeq(s.cluster.Annotations[addonsv1.LeaveAddonsAnnotation], ",") {
		if name = strings.TrimSpace(name); name != "" {
			names[name] = true
		}
	}
	after := maps.Clone(s.cluster.Labels)
	for _, key := range s.labelsToRemove() {
		delete(after, key)
	}
	for i := range s.addons {
		if s.addons[i].Selects(s.cluster.Labels) && !s.addons[i].Selects(after) {
			names[s.addons[i].Name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// releaseFromFlux stops CAPT and Flux from managing the release and keeps all
// workloads.
func (m *Migration) releaseFromFlux(ctx context.Context, s *clusterState) (string, error) {
	if s.release != nil && (s.record == nil || s.record.MigratedAt != nil) {
		if err := m.recordWorkloads(ctx, s); err != nil {
			return "", err
		}
		if err := m.editRecord(ctx, s, func(rec *record) { rec.MigratedAt = nil }); err != nil {
			return "", err
		}
	}
	names := m.deselectedAddons(s)
	// A single write: CAPT must not observe the removed labels without the
	// annotation that keeps the add-ons' objects.
	err := edit(ctx, m.Client, s.key, func(cluster *clusterv1.Cluster) {
		if cluster.Annotations == nil {
			cluster.Annotations = map[string]string{}
		}
		if len(names) > 0 {
			cluster.Annotations[addonsv1.LeaveAddonsAnnotation] = strings.Join(names, ",")
		}
		for _, key := range s.labelsToRemove() {
			delete(cluster.Labels, key)
		}
	})
	if err != nil {
		return "", err
	}
	if err := m.waitDeselected(ctx, s, names); err != nil {
		return "", err
	}
	if s.fluxRelease != nil {
		if err := m.deleteFluxRelease(ctx, s); err != nil {
			return "", err
		}
	}
	err = edit(ctx, m.Client, s.key, func(cluster *clusterv1.Cluster) { delete(cluster.Annotations, addonsv1.LeaveAddonsAnnotation) })
	return "Flux no longer manages the release, which is still running", err
}

// waitDeselected waits until CAPT no longer manages the add-ons in the cluster.
func (m *Migration) waitDeselected(ctx context.Context, s *clusterState, names []string) error {
	return poll(ctx, func() (string, error) {
		var list addonsv1.CAPTAddonList
		if err := m.Client.List(ctx, &list, client.InNamespace(s.key.Namespace)); err != nil {
			return "", fmt.Errorf("listing add-ons: %w", err)
		}
		for i := range list.Items {
			if slices.Contains(names, list.Items[i].Name) && list.Items[i].StatusIn(s.key.Name) != nil {
				return "CAPT still manages add-on " + list.Items[i].Name + " in the cluster", nil
			}
		}
		return "", nil
	})
}

// deleteFluxRelease deletes Flux's objects for the release. The HelmRelease is
// suspended first, so that Flux does not uninstall the release.
func (m *Migration) deleteFluxRelease(ctx context.Context, s *clusterState) error {
	hr := s.fluxRelease.DeepCopy()
	if err := s.workload.Patch(ctx, hr, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"suspend":true}}`))); err != nil {
		return fmt.Errorf("suspending HelmRelease %s: %w", hr.GetName(), err)
	}
	// The preconditions make sure that the deleted object is still suspended.
	version := hr.GetResourceVersion()
	uid := hr.GetUID()
	err := s.workload.Delete(ctx, hr, client.Preconditions{UID: &uid, ResourceVersion: &version})
	if apierrors.IsConflict(err) {
		return m.deleteFluxRelease(ctx, s)
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting HelmRelease %s: %w", hr.GetName(), err)
	}
	err = poll(ctx, func() (string, error) {
		err := s.workload.Get(ctx, client.ObjectKeyFromObject(hr), hr)
		if apierrors.IsNotFound(err) {
			return "", nil
		}
		if err != nil {
			return "", fmt.Errorf("reading HelmRelease %s: %w", hr.GetName(), err)
		}
		return "Flux has not removed its finalizer from HelmRelease " + hr.GetName() + " yet: helm-controller must be running", nil
	})
	if err != nil {
		return err
	}
	return m.deleteFluxSources(ctx, s)
}

// deleteFluxSources deletes the add-on's objects that only its HelmRelease used: the
// chart's source and the Secret with the outputs.
func (m *Migration) deleteFluxSources(ctx context.Context, s *clusterState) error {
	source := "HelmRepository"
	if _, found, err := unstructured.NestedMap(s.fluxRelease.Object, "spec", "chartRef"); err == nil && found {
		source = "OCIRepository"
	}
	for _, of := range []struct {
		gvk  schema.GroupVersionKind
		name string
	}{
		{schema.GroupVersionKind{Group: "source.toolkit.fluxcd.io", Version: "v1", Kind: source}, s.addon.Name},
		{schema.GroupVersionKind{Version: "v1", Kind: "Secret"}, s.addon.Name + "-connection"},
	} {
		obj := &unstructured.Unstructured{}
		obj.SetGroupVersionKind(of.gvk)
		err := s.workload.Get(ctx, client.ObjectKey{Namespace: s.fluxRelease.GetNamespace(), Name: of.name}, obj)
		if apierrors.IsNotFound(err) || err == nil && obj.GetLabels()[addonsv1.AddonLabel] != s.addon.Name {
			continue
		}
		if err == nil {
			err = client.IgnoreNotFound(s.workload.Delete(ctx, obj))
		}
		if err != nil {
			return fmt.Errorf("deleting %s %s: %w", of.gvk.Kind, of.name, err)
		}
	}
	return nil
}

// importRelease makes Terraform import the release, then removes ImportVariable,
// which must change nothing.
func (m *Migration) importRelease(ctx context.Context, s *clusterState) (string, error) {
	oldTemplate := m.oldTemplateName(s)
	previous := s.controlPlane.DeepCopy()
	imports, check := s.importsRelease(), checkTakeOver
	if imports {
		check = checkImport
	}
	plan, err := m.applyChange(ctx, s, change{
		template: oldTemplate,
		edit: func(cp *controlplanev1.CAPTControlPlane) {
			if cp.Spec.Variables == nil {
				cp.Spec.Variables = map[string]infrav1.Value{}
			}
			maps.Copy(cp.Spec.Variables, recordOf(cp).Dropped)
			if imports {
				cp.Spec.Variables[ImportVariable] = infrav1.StringValue(s.releaseID())
			}
		},
		reached: func(ws *infrav1.WorkspaceTemplateApply) bool {
			_, given := ws.Spec.Variables[ImportVariable]
			return ws.Spec.TemplateRef.Name == oldTemplate && given == imports
		},
		check: check,
	})
	if errors.Is(err, errNotApplied) && previous.Spec.WorkspaceTemplateRef.Name == m.To {
		return "", errors.Join(fmt.Errorf("%w; template %s was restored, and neither Flux nor Terraform manages the release: migrate again, or fix the old template", err, m.To), m.restoreNewTemplate(ctx, s, previous))
	}
	if err != nil {
		return "", err
	}
	_, err = m.applyChange(ctx, s, change{
		template: oldTemplate,
		edit:     func(cp *controlplanev1.CAPTControlPlane) { delete(cp.Spec.Variables, ImportVariable) },
		reached: func(ws *infrav1.WorkspaceTemplateApply) bool {
			_, given := ws.Spec.Variables[ImportVariable]
			return !given
		},
		check: checkImport,
	})
	if err != nil {
		return "", err
	}
	text := "Terraform manages the release"
	if plan != nil {
		text += fmt.Sprintf(": plan %s was applied: %d to add, %d to change, %d to destroy", plan.ID, plan.Add, plan.Change, plan.Destroy)
	}
	return text, m.waitAndRestoreApproval(ctx, s, oldTemplate)
}

// restoreNewTemplate restores template and variables after a refused rollback.
func (m *Migration) restoreNewTemplate(ctx context.Context, s *clusterState, previous *controlplanev1.CAPTControlPlane) error {
	current, err := m.read(ctx, s.key)
	if err != nil {
		return err
	}
	err = m.editControlPlane(ctx, current, change{template: m.To, edit: func(cp *controlplanev1.CAPTControlPlane) { cp.Spec.Variables = maps.Clone(previous.Spec.Variables) }})
	if err != nil {
		return err
	}
	return m.waitAndRestoreApproval(ctx, s, m.To)
}

// finishRollback compares the workloads with those before the rollback, and removes
// the record.
func (m *Migration) finishRollback(ctx context.Context, s *clusterState) (string, error) {
	if s.record == nil {
		return "Terraform manages the release", nil
	}
	text, err := s.compareWorkloads()
	if err != nil {
		return "", err
	}
	return text, m.editControlPlane(ctx, s, change{template: s.templateName(), edit: func(cp *controlplanev1.CAPTControlPlane) { delete(cp.Annotations, RecordAnnotation) }})
}

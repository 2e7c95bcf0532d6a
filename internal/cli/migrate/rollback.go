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
func (w *work) releaseFromFlux(ctx context.Context) (string, error) {
	if w.release != nil && (w.record == nil || w.record.MigratedAt != nil) {
		if err := w.recordWorkloads(ctx); err != nil {
			return "", err
		}
		if err := w.editRecord(ctx, func(rec *record) { rec.MigratedAt = nil }); err != nil {
			return "", err
		}
	}
	names := w.deselectedAddons(w.clusterState)
	// A single write: CAPT must not observe the removed labels without the
	// annotation that keeps the add-ons' objects.
	err := edit(ctx, w.Client, w.key, func(cluster *clusterv1.Cluster) {
		if cluster.Annotations == nil {
			cluster.Annotations = map[string]string{}
		}
		if len(names) > 0 {
			cluster.Annotations[addonsv1.LeaveAddonsAnnotation] = strings.Join(names, ",")
		}
		for _, key := range w.labelsToRemove() {
			delete(cluster.Labels, key)
		}
	})
	if err != nil {
		return "", err
	}
	if err := w.waitDeselected(ctx, names); err != nil {
		return "", err
	}
	if w.fluxRelease != nil {
		if err := w.deleteFluxRelease(ctx); err != nil {
			return "", err
		}
	}
	err = edit(ctx, w.Client, w.key, func(cluster *clusterv1.Cluster) { delete(cluster.Annotations, addonsv1.LeaveAddonsAnnotation) })
	return "Flux no longer manages the release, which is still running", err
}

// waitDeselected waits until CAPT no longer manages the add-ons in the cluster.
func (w *work) waitDeselected(ctx context.Context, names []string) error {
	return poll(ctx, func() (string, error) {
		var list addonsv1.CAPTAddonList
		if err := w.Client.List(ctx, &list, client.InNamespace(w.key.Namespace)); err != nil {
			return "", fmt.Errorf("listing add-ons: %w", err)
		}
		for i := range list.Items {
			if slices.Contains(names, list.Items[i].Name) && list.Items[i].StatusIn(w.key.Name) != nil {
				return "CAPT still manages add-on " + list.Items[i].Name + " in the cluster", nil
			}
		}
		return "", nil
	})
}

// deleteFluxRelease deletes Flux's objects for the release. The HelmRelease is
// suspended first, so that Flux does not uninstall the release.
func (w *work) deleteFluxRelease(ctx context.Context) error {
	hr := w.fluxRelease.DeepCopy()
	if err := w.workload.Patch(ctx, hr, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"suspend":true}}`))); err != nil {
		return fmt.Errorf("suspending HelmRelease %s: %w", hr.GetName(), err)
	}
	// The preconditions make sure that the deleted object is still suspended.
	version := hr.GetResourceVersion()
	uid := hr.GetUID()
	err := w.workload.Delete(ctx, hr, client.Preconditions{UID: &uid, ResourceVersion: &version})
	if apierrors.IsConflict(err) {
		return w.deleteFluxRelease(ctx)
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting HelmRelease %s: %w", hr.GetName(), err)
	}
	err = poll(ctx, func() (string, error) {
		err := w.workload.Get(ctx, client.ObjectKeyFromObject(hr), hr)
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
	return w.deleteFluxSources(ctx)
}

// deleteFluxSources deletes the add-on's objects that only its HelmRelease used: the
// chart's source and the Secret with the outputs.
func (w *work) deleteFluxSources(ctx context.Context) error {
	source := "HelmRepository"
	if _, found, err := unstructured.NestedMap(w.fluxRelease.Object, "spec", "chartRef"); err == nil && found {
		source = "OCIRepository"
	}
	for _, of := range []struct {
		gvk  schema.GroupVersionKind
		name string
	}{
		{schema.GroupVersionKind{Group: "source.toolkit.fluxcd.io", Version: "v1", Kind: source}, w.addon.Name},
		{schema.GroupVersionKind{Version: "v1", Kind: "Secret"}, w.addon.Name + "-connection"},
	} {
		obj := &unstructured.Unstructured{}
		obj.SetGroupVersionKind(of.gvk)
		err := w.workload.Get(ctx, client.ObjectKey{Namespace: w.fluxRelease.GetNamespace(), Name: of.name}, obj)
		if apierrors.IsNotFound(err) || err == nil && obj.GetLabels()[addonsv1.AddonLabel] != w.addon.Name {
			continue
		}
		if err == nil {
			err = client.IgnoreNotFound(w.workload.Delete(ctx, obj))
		}
		if err != nil {
			return fmt.Errorf("deleting %s %s: %w", of.gvk.Kind, of.name, err)
		}
	}
	return nil
}

// importRelease makes Terraform import the release, then removes ImportVariable,
// which must change nothing.
func (w *work) importRelease(ctx context.Context) (string, error) {
	oldTemplate := w.oldTemplateName(w.clusterState)
	previous := w.controlPlane.DeepCopy()
	imports, check := w.importsRelease(), checkTakeOver
	if imports {
		check = checkImport
	}
	plan, err := w.applyChange(ctx, change{
		template: oldTemplate,
		edit: func(cp *controlplanev1.CAPTControlPlane) {
			if cp.Spec.Variables == nil {
				cp.Spec.Variables = map[string]infrav1.Value{}
			}
			maps.Copy(cp.Spec.Variables, recordOf(cp).Dropped)
			if imports {
				cp.Spec.Variables[ImportVariable] = infrav1.StringValue(w.releaseID())
			}
		},
		reached: func(ws *infrav1.WorkspaceTemplateApply) bool {
			_, given := ws.Spec.Variables[ImportVariable]
			return ws.Spec.TemplateRef.Name == oldTemplate && given == imports
		},
		check: check,
	})
	if errors.Is(err, errNotApplied) && previous.Spec.WorkspaceTemplateRef.Name == w.To {
		return "", errors.Join(fmt.Errorf("%w; template %s was restored, and neither Flux nor Terraform manages the release: migrate again, or fix the old template", err, w.To), w.restoreNewTemplate(ctx, previous))
	}
	if err != nil {
		return "", err
	}
	_, err = w.applyChange(ctx, change{
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
	return text, w.waitAndRestoreApproval(ctx, oldTemplate)
}

// restoreNewTemplate restores template and variables after a refused rollback.
func (w *work) restoreNewTemplate(ctx context.Context, previous *controlplanev1.CAPTControlPlane) error {
	current, err := w.read(ctx, w.key)
	if err != nil {
		return err
	}
	err = (&work{w.Migration, current}).editControlPlane(ctx, change{template: w.To, edit: func(cp *controlplanev1.CAPTControlPlane) { cp.Spec.Variables = maps.Clone(previous.Spec.Variables) }})
	if err != nil {
		return err
	}
	return w.waitAndRestoreApproval(ctx, w.To)
}

// finishRollback compares the workloads with those before the rollback, and removes
// the record.
func (w *work) finishRollback(ctx context.Context) (string, error) {
	if w.record == nil {
		return "Terraform manages the release", nil
	}
	text, err := w.compareWorkloads()
	if err != nil {
		return "", err
	}
	return text, w.editControlPlane(ctx, change{template: w.templateName(), edit: func(cp *controlplanev1.CAPTControlPlane) { delete(cp.Annotations, RecordAnnotation) }})
}

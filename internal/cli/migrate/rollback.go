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

// backward plans the rollback.
func (m *Migration) backward(w *world) *Report {
	r := w.report()
	if !m.sound(w, r) {
		return r
	}
	if w.addon == nil || w.addon.Spec.Helm == nil {
		r.block("the add-on %s is not in namespace %s: nothing tells which release is meant", m.Addon, w.key.Namespace)
		return r
	}
	from := m.fromOf(w)
	release := w.addon.Spec.Helm.Namespace + "/" + w.releaseName()
	_, importing := w.controlPlane.Spec.Variables[ImportVariable]
	way := fmt.Sprintf("with %s=%s; the plan is applied only if it imports the %s and destroys nothing", ImportVariable, release, releaseType)
	if !w.imports() {
		way = fmt.Sprintf("which takes the running release over by upgrade_install; the plan is applied only if it makes the %s and destroys nothing", releaseType)
	}
	r.Stages = []StagePlan{
		{StageRelease, m.released(w), fmt.Sprintf("take the label %s from the Cluster and delete the HelmRelease of %s, suspended, so that what runs stays", pairs(w.addon), release)},
		{StageImport, w.switched(from) && !importing, fmt.Sprintf("change the template from %s to %s, %s", m.To, from, way)},
	}
	r.Restarts = RestartsNo
	if w.record == nil || slices.ContainsFunc(onlyOld, func(name string) bool { _, found := w.record.Dropped[name]; return found }) {
		r.Restarts = RestartsPossible
	}
	for _, name := range m.affected(w) {
		if name != m.Addon {
			r.note("what the add-on %s has installed is left in the cluster: nobody keeps it from then on", name)
		}
	}
	switch {
	case w.from == nil:
		r.block("WorkspaceTemplate %s does not exist: apply it, or name another by --from", from)
	case !w.imports() && w.from.Spec.Template.Spec.ForProvider.Source == infrav1.ModuleSourceInline && !strings.Contains(w.from.Spec.Template.Spec.ForProvider.Module, "upgrade_install"):
		r.block("the template %s has neither the variable %s nor upgrade_install, by which Terraform takes the running release back: see docs/migration.md", from, ImportVariable)
	case w.class != nil && w.class.variable == "" && w.template() != from:
		r.block("%s", w.class.advice(from))
	case w.release == nil && w.template() == m.To:
		r.block("no release %s runs: there is nothing to take back; Terraform would install it anew", release)
	case w.managed != nil && w.managed.GetLabels()[addonsv1.AddonLabel] != w.addon.Name:
		r.block("HelmRelease %s/%s is not the add-on's: delete it suspended, or label it %s=%s", w.managed.GetNamespace(), w.managed.GetName(), addonsv1.AddonLabel, w.addon.Name)
	}
	if r.Next() == StageDone {
		r.note("Terraform has the release: nothing is left to do")
	}
	return r
}

// imports tells whether the old template gets the release back by an import block.
// Otherwise it takes the release over where it would install it.
func (w *world) imports() bool {
	return w.from != nil && slices.ContainsFunc(w.from.Status.Variables, func(v infrav1.DeclaredVariable) bool { return v.Name == ImportVariable })
}

// released tells whether neither CAPT nor Flux keeps the release.
func (m *Migration) released(w *world) bool {
	_, leaving := w.cluster.Annotations[addonsv1.LeaveAddonsAnnotation]
	return !selects(w.addon, w.cluster.Labels) && w.standing(w.addon) == nil && w.managed == nil && !leaving
}

// taken are the labels that are taken from the cluster: those of the add-on that
// Flux does not need.
func (w *world) taken() []string {
	var keys []string
	for key := range w.addon.Spec.ClusterSelector.MatchLabels {
		if w.flux != nil {
			if _, needed := w.flux.Spec.ClusterSelector.MatchLabels[key]; needed {
				continue
			}
		}
		keys = append(keys, key)
	}
	return keys
}

// affected are the add-ons that no longer select the cluster then. Karpenter's
// node pools may be among them: removed, they would take their nodes with them.
func (m *Migration) affected(w *world) []string {
	names := map[string]bool{}
	for name := range strings.SplitSeq(w.cluster.Annotations[addonsv1.LeaveAddonsAnnotation], ",") {
		if name = strings.TrimSpace(name); name != "" {
			names[name] = true
		}
	}
	after := maps.Clone(w.cluster.Labels)
	for _, key := range w.taken() {
		delete(after, key)
	}
	for i := range w.all {
		if selects(&w.all[i], w.cluster.Labels) && !selects(&w.all[i], after) {
			names[w.all[i].Name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// release takes the release from CAPT and Flux, and leaves everything running.
func (m *Migration) release(ctx context.Context, w *world) (string, error) {
	if w.release != nil && (w.record == nil || w.record.MigratedAt != nil) {
		if err := m.remember(ctx, w); err != nil {
			return "", err
		}
		if err := m.editRecord(ctx, w, func(rec *record) { rec.MigratedAt = nil }); err != nil {
			return "", err
		}
	}
	names := m.affected(w)
	// One write: the labels go together with the word that everything stays.
	err := m.editCluster(ctx, w, func(cluster *clusterv1.Cluster) {
		if cluster.Annotations == nil {
			cluster.Annotations = map[string]string{}
		}
		if len(names) > 0 {
			cluster.Annotations[addonsv1.LeaveAddonsAnnotation] = strings.Join(names, ",")
		}
		for _, key := range w.taken() {
			delete(cluster.Labels, key)
		}
	})
	if err != nil {
		return "", err
	}
	if err := m.waitLeft(ctx, w, names); err != nil {
		return "", err
	}
	if w.managed != nil {
		if err := m.dropHelmRelease(ctx, w); err != nil {
			return "", err
		}
	}
	err = m.editCluster(ctx, w, func(cluster *clusterv1.Cluster) { delete(cluster.Annotations, addonsv1.LeaveAddonsAnnotation) })
	return "Flux no longer keeps the release, which still runs", err
}

// waitLeft waits until CAPT has let go of the cluster.
func (m *Migration) waitLeft(ctx context.Context, w *world, names []string) error {
	return until(ctx, func() (string, error) {
		var list addonsv1.CAPTAddonList
		if err := m.Client.List(ctx, &list, client.InNamespace(w.key.Namespace)); err != nil {
			return "", fmt.Errorf("listing add-ons: %w", err)
		}
		for i := range list.Items {
			if slices.Contains(names, list.Items[i].Name) && w.standing(&list.Items[i]) != nil {
				return "add-on " + list.Items[i].Name + " has not let go of the cluster yet", nil
			}
		}
		return "", nil
	})
}

// dropHelmRelease deletes Flux' objects of the release. Flux uninstalls nothing
// when its object is suspended.
func (m *Migration) dropHelmRelease(ctx context.Context, w *world) error {
	hr := w.managed.DeepCopy()
	if err := w.workload.Patch(ctx, hr, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"suspend":true}}`))); err != nil {
		return fmt.Errorf("suspending HelmRelease %s: %w", hr.GetName(), err)
	}
	// Only the object that was seen suspended is deleted.
	version := hr.GetResourceVersion()
	uid := hr.GetUID()
	err := w.workload.Delete(ctx, hr, client.Preconditions{UID: &uid, ResourceVersion: &version})
	if apierrors.IsConflict(err) {
		return m.dropHelmRelease(ctx, w)
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting HelmRelease %s: %w", hr.GetName(), err)
	}
	err = until(ctx, func() (string, error) {
		err := w.workload.Get(ctx, client.ObjectKeyFromObject(hr), hr)
		if apierrors.IsNotFound(err) {
			return "", nil
		}
		if err != nil {
			return "", fmt.Errorf("reading HelmRelease %s: %w", hr.GetName(), err)
		}
		return "Flux has not let go of HelmRelease " + hr.GetName() + " yet: its helm-controller must run", nil
	})
	if err != nil {
		return err
	}
	return m.dropSources(ctx, w)
}

// dropSources deletes what only Flux has used: where the chart comes from, and
// the outputs.
func (m *Migration) dropSources(ctx context.Context, w *world) error {
	source := "HelmRepository"
	if _, found, err := unstructured.NestedMap(w.managed.Object, "spec", "chartRef"); err == nil && found {
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
		err := w.workload.Get(ctx, client.ObjectKey{Namespace: w.managed.GetNamespace(), Name: of.name}, obj)
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

// takeBack has Terraform import the release, then takes the order to import it
// away again, which must change nothing.
func (m *Migration) takeBack(ctx context.Context, w *world) (string, error) {
	from := m.fromOf(w)
	id := w.addon.Spec.Helm.Namespace + "/" + w.releaseName()
	back := w.controlPlane.DeepCopy()
	imports, check := w.imports(), checkTakeOver
	if imports {
		check = checkImport
	}
	plan, err := m.carryOut(ctx, w, change{
		template: from,
		edit: func(cp *controlplanev1.CAPTControlPlane) {
			if cp.Spec.Variables == nil {
				cp.Spec.Variables = map[string]infrav1.Value{}
			}
			maps.Copy(cp.Spec.Variables, recordOf(cp).Dropped)
			if imports {
				cp.Spec.Variables[ImportVariable] = infrav1.StringValue(id)
			}
		},
		seen: func(ws *infrav1.WorkspaceTemplateApply) bool {
			_, given := ws.Spec.Variables[ImportVariable]
			return ws.Spec.TemplateRef.Name == from && given == imports
		},
		check: check,
	})
	if errors.Is(err, errRefused) && back.Spec.WorkspaceTemplateRef.Name == m.To {
		return "", errors.Join(fmt.Errorf("%w; the template is %s again and the release runs without a keeper: migrate again, or mend the old template", err, m.To), m.restore(ctx, w, back))
	}
	if err != nil {
		return "", err
	}
	_, err = m.carryOut(ctx, w, change{
		template: from,
		edit:     func(cp *controlplanev1.CAPTControlPlane) { delete(cp.Spec.Variables, ImportVariable) },
		seen: func(ws *infrav1.WorkspaceTemplateApply) bool {
			_, given := ws.Spec.Variables[ImportVariable]
			return !given
		},
		check: checkImport,
	})
	if err != nil {
		return "", err
	}
	text := "Terraform has the release again"
	if plan != nil {
		text += fmt.Sprintf(": plan %s was applied: %d to add, %d to change, %d to destroy", plan.ID, plan.Add, plan.Change, plan.Destroy)
	}
	return text, m.settled(ctx, w, from)
}

// restore puts the new template back after a refused rollback.
func (m *Migration) restore(ctx context.Context, w *world, back *controlplanev1.CAPTControlPlane) error {
	now, err := m.read(ctx, w.key)
	if err != nil {
		return err
	}
	err = m.edit(ctx, now, change{template: m.To, edit: func(cp *controlplanev1.CAPTControlPlane) { cp.Spec.Variables = maps.Clone(back.Spec.Variables) }})
	if err != nil {
		return err
	}
	return m.settled(ctx, w, m.To)
}

// forgetRecord ends a rollback.
func (m *Migration) forgetRecord(ctx context.Context, w *world) (string, error) {
	if w.record == nil {
		return "Terraform has the release", nil
	}
	text, err := w.compareRunning()
	if err != nil {
		return "", err
	}
	return text, m.edit(ctx, w, change{template: w.template(), edit: func(cp *controlplanev1.CAPTControlPlane) { delete(cp.Annotations, RecordAnnotation) }})
}

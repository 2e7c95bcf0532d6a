package migrate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/terraform"
)

// installAddons creates the objects of Install that do not exist. It changes no
// existing object.
func (w *work) installAddons(ctx context.Context) (string, error) {
	for _, obj := range w.Install {
		created := obj.DeepCopy()
		created.SetNamespace(w.key.Namespace)
		if err := w.Client.Create(ctx, created); err != nil && !apierrors.IsAlreadyExists(err) {
			return "", fmt.Errorf("creating %s %s: %w", obj.GetKind(), obj.GetName(), err)
		}
	}
	return fmt.Sprintf("add-ons %s and %s exist", w.Flux, w.Addon), nil
}

// startFlux labels the cluster and waits for Flux.
func (w *work) startFlux(ctx context.Context) (string, error) {
	if err := w.labelCluster(ctx, w.flux); err != nil {
		return "", err
	}
	return "Flux is running in the cluster", w.waitForAddon(ctx, w.Flux)
}

// labelCluster sets the labels by which an add-on selects the cluster.
func (w *work) labelCluster(ctx context.Context, addon *addonsv1.CAPTAddon) error {
	return edit(ctx, w.Client, w.key, func(cluster *clusterv1.Cluster) {
		if cluster.Labels == nil {
			cluster.Labels = map[string]string{}
		}
		maps.Copy(cluster.Labels, addon.Spec.ClusterSelector.MatchLabels)
	})
}

// waitForAddon waits until an add-on is ready in the cluster.
func (w *work) waitForAddon(ctx context.Context, name string) error {
	return poll(ctx, func() (string, error) {
		addon := &addonsv1.CAPTAddon{}
		if err := w.Client.Get(ctx, client.ObjectKey{Namespace: w.key.Namespace, Name: name}, addon); err != nil {
			return "", fmt.Errorf("reading add-on %s: %w", name, err)
		}
		if err := w.Client.Get(ctx, w.key, w.cluster); err != nil {
			return "", fmt.Errorf("reading Cluster %s: %w", w.key.Name, err)
		}
		return w.addonPending(addon), nil
	})
}

// forgetRelease makes Terraform forget the release. It applies no plan that does
// anything else, and restores the old template then.
func (w *work) forgetRelease(ctx context.Context) (string, error) {
	previous := w.controlPlane.DeepCopy()
	oldTemplate := w.oldTemplateName(w.clusterState)
	plan, err := w.applyChange(ctx, change{
		template: w.To,
		edit:     func(cp *controlplanev1.CAPTControlPlane) { w.dropVariables(cp, oldTemplate) },
		reached:  func(ws *infrav1.WorkspaceTemplateApply) bool { return ws.Spec.TemplateRef.Name == w.To },
		check:    checkForget,
	})
	if errors.Is(err, errNotApplied) {
		return "", errors.Join(fmt.Errorf("%w; template %s was restored", err, oldTemplate), w.restoreOldTemplate(ctx, previous, oldTemplate))
	}
	if err != nil {
		return "", err
	}
	if err := w.waitAndRestoreApproval(ctx, w.To); err != nil {
		return "", err
	}
	if plan == nil {
		return "Terraform has forgotten the release", nil
	}
	return fmt.Sprintf("plan %s was applied: %d to add, %d to change, %d to destroy, forgotten %v", plan.ID, plan.Add, plan.Change, plan.Destroy, forgottenBy(plan)), nil
}

// dropVariables removes the variables that the new template does not declare, and
// records them for a rollback.
func (w *work) dropVariables(cp *controlplanev1.CAPTControlPlane, oldTemplate string) {
	rec := recordOf(cp)
	rec.From, rec.To = oldTemplate, w.To
	if cp.Spec.WorkspaceTemplateRef.Name != w.To {
		for _, name := range w.droppedVariables(w.clusterState) {
			if rec.Dropped == nil {
				rec.Dropped = map[string]infrav1.Value{}
			}
			rec.Dropped[name] = cp.Spec.Variables[name]
			delete(cp.Spec.Variables, name)
		}
	}
	setRecord(cp, rec)
}

// forgottenBy returns the addresses that a plan forgets.
func forgottenBy(plan *infrav1.PlanStatus) []string {
	var addresses []string
	for _, c := range plan.Changes {
		if terraform.Action(c.Action) == terraform.ActionForget {
			addresses = append(addresses, c.Address)
		}
	}
	return addresses
}

// restoreOldTemplate restores template and variables after a refused migration.
func (w *work) restoreOldTemplate(ctx context.Context, previous *controlplanev1.CAPTControlPlane, template string) error {
	current, err := w.read(ctx, w.key)
	if err != nil {
		return err
	}
	err = (&work{w.Migration, current}).editControlPlane(ctx, change{template: template, edit: func(cp *controlplanev1.CAPTControlPlane) {
		rec := recordOf(cp)
		cp.Spec.Variables = maps.Clone(previous.Spec.Variables)
		if len(rec.Dropped) > 0 && cp.Spec.Variables == nil {
			cp.Spec.Variables = map[string]infrav1.Value{}
		}
		maps.Copy(cp.Spec.Variables, rec.Dropped)
		delete(cp.Annotations, RecordAnnotation)
	}})
	if err != nil {
		return err
	}
	return w.waitAndRestoreApproval(ctx, template)
}

// adoptRelease labels the cluster and waits until Flux has adopted the release.
func (w *work) adoptRelease(ctx context.Context) (string, error) {
	if w.fluxRelease == nil {
		if err := w.recordWorkloads(ctx); err != nil {
			return "", err
		}
	}
	if err := w.labelCluster(ctx, w.addon); err != nil {
		return "", err
	}
	return fmt.Sprintf("Flux manages the release %s/%s", w.release.Namespace, w.release.Name), w.waitForAddon(ctx, w.Addon)
}

// recordWorkloads records the running workloads and the revision of the release.
func (w *work) recordWorkloads(ctx context.Context) error {
	return w.editRecord(ctx, func(rec *record) {
		rec.Before, rec.Revision = &w.running, w.release.Revision
		if rec.From == "" {
			rec.From, rec.To = w.oldTemplateName(w.clusterState), w.To
		}
	})
}

func (w *work) editRecord(ctx context.Context, edit func(*record)) error {
	return w.editControlPlane(ctx, change{template: w.templateName(), edit: func(cp *controlplanev1.CAPTControlPlane) {
		rec := recordOf(cp)
		edit(rec)
		setRecord(cp, rec)
	}})
}

// finishMigration compares the workloads with those before the migration, and
// records that it is complete.
func (w *work) finishMigration(ctx context.Context) (string, error) {
	if w.record == nil || w.record.MigratedAt != nil {
		return "the cluster is migrated", nil
	}
	text, err := w.compareWorkloads()
	if err != nil {
		return "", err
	}
	return text, w.editRecord(ctx, func(rec *record) { rec.MigratedAt = &metav1.Time{Time: w.Now()} })
}

// compareWorkloads returns an error if the running release is not the one that ran
// before the migration, and otherwise a message about what changed.
func (s *clusterState) compareWorkloads() (string, error) {
	if s.release == nil {
		return "", fmt.Errorf("%s: the release no longer exists: install it with the add-on or the old template", s.key.Name)
	}
	if s.record == nil || s.record.Before == nil {
		return fmt.Sprintf("revision %d of the release is running", s.release.Revision), nil
	}
	before := s.record.Before
	if !maps.Equal(before.Deployments, s.running.Deployments) {
		return "", fmt.Errorf("%s: the Deployments were replaced: before %v, now %v", s.key.Name, before.Deployments, s.running.Deployments)
	}
	if s.release.Revision < s.record.Revision {
		return "", fmt.Errorf("%s: the release was reinstalled: its revision was %d and is %d", s.key.Name, s.record.Revision, s.release.Revision)
	}
	history := fmt.Sprintf("revision %d became %d", s.record.Revision, s.release.Revision)
	if s.record.Revision == s.release.Revision {
		history = fmt.Sprintf("still at revision %d", s.release.Revision)
	}
	if maps.EqualFunc(before.Pods, s.running.Pods, slices.Equal) {
		return fmt.Sprintf("the same Deployment and the same %d pods are running, %s", s.running.pods(), history), nil
	}
	return "the same Deployment is running, some of its pods were replaced, " + history, nil
}

// recordOf returns the record of a control plane, or an empty one.
func recordOf(cp *controlplanev1.CAPTControlPlane) *record {
	rec := &record{}
	if text, found := cp.Annotations[RecordAnnotation]; found && json.Unmarshal([]byte(text), rec) != nil {
		return &record{}
	}
	return rec
}

func setRecord(cp *controlplanev1.CAPTControlPlane, rec *record) {
	text, err := json.Marshal(rec)
	if err != nil {
		// Cannot happen: the raw values in the record were decoded from JSON.
		return
	}
	if cp.Annotations == nil {
		cp.Annotations = map[string]string{}
	}
	cp.Annotations[RecordAnnotation] = string(text)
}

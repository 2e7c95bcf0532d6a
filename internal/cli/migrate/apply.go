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

// installAddons makes what does not exist. What exists is left as it is.
func (m *Migration) installAddons(ctx context.Context, w *world) (string, error) {
	for _, obj := range m.Install {
		made := obj.DeepCopy()
		made.SetNamespace(w.key.Namespace)
		if err := m.Client.Create(ctx, made); err != nil && !apierrors.IsAlreadyExists(err) {
			return "", fmt.Errorf("making %s %s: %w", obj.GetKind(), obj.GetName(), err)
		}
	}
	return fmt.Sprintf("the add-ons %s and %s exist", m.Flux, m.Addon), nil
}

// startFlux labels the cluster and waits for Flux.
func (m *Migration) startFlux(ctx context.Context, w *world) (string, error) {
	if err := m.label(ctx, w, w.flux); err != nil {
		return "", err
	}
	return "Flux runs in the cluster", m.waitReady(ctx, w, m.Flux)
}

// label gives the cluster the labels that an add-on asks for.
func (m *Migration) label(ctx context.Context, w *world, addon *addonsv1.CAPTAddon) error {
	return m.editCluster(ctx, w, func(cluster *clusterv1.Cluster) {
		if cluster.Labels == nil {
			cluster.Labels = map[string]string{}
		}
		maps.Copy(cluster.Labels, addon.Spec.ClusterSelector.MatchLabels)
	})
}

func (m *Migration) editCluster(ctx context.Context, w *world, edit func(*clusterv1.Cluster)) error {
	cluster := &clusterv1.Cluster{}
	if err := m.Client.Get(ctx, w.key, cluster); err != nil {
		return fmt.Errorf("reading Cluster %s: %w", w.key.Name, err)
	}
	before := cluster.DeepCopy()
	edit(cluster)
	if err := m.Client.Patch(ctx, cluster, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("changing Cluster %s: %w", w.key.Name, err)
	}
	return nil
}

// waitReady waits until an add-on is ready in the cluster.
func (m *Migration) waitReady(ctx context.Context, w *world, name string) error {
	return until(ctx, func() (string, error) {
		addon := &addonsv1.CAPTAddon{}
		if err := m.Client.Get(ctx, client.ObjectKey{Namespace: w.key.Namespace, Name: name}, addon); err != nil {
			return "", fmt.Errorf("reading add-on %s: %w", name, err)
		}
		if err := m.Client.Get(ctx, w.key, w.cluster); err != nil {
			return "", fmt.Errorf("reading Cluster %s: %w", w.key.Name, err)
		}
		return w.ready(addon), nil
	})
}

// forget has Terraform let go of the release. A plan that does anything else is
// not applied, and the template is put back.
func (m *Migration) forget(ctx context.Context, w *world) (string, error) {
	back := w.controlPlane.DeepCopy()
	old := m.fromOf(w)
	plan, err := m.carryOut(ctx, w, change{
		template: m.To,
		edit: func(cp *controlplanev1.CAPTControlPlane) {
			rec := recordOf(cp)
			rec.From, rec.To = old, m.To
			if cp.Spec.WorkspaceTemplateRef.Name != m.To {
				for _, name := range m.dropped(w) {
					if rec.Dropped == nil {
						rec.Dropped = map[string]infrav1.Value{}
					}
					rec.Dropped[name] = cp.Spec.Variables[name]
					delete(cp.Spec.Variables, name)
				}
			}
			keep(cp, rec)
		},
		seen:  func(ws *infrav1.WorkspaceTemplateApply) bool { return ws.Spec.TemplateRef.Name == m.To },
		check: checkForget,
	})
	if errors.Is(err, errRefused) {
		return "", errors.Join(fmt.Errorf("%w; the template is %s again", err, old), m.undo(ctx, w, back, old))
	}
	if err != nil {
		return "", err
	}
	if err := m.settled(ctx, w, m.To); err != nil {
		return "", err
	}
	if plan == nil {
		return "Terraform has forgotten the release", nil
	}
	return fmt.Sprintf("plan %s was applied: %d to add, %d to change, %d to destroy, forgotten %v", plan.ID, plan.Add, plan.Change, plan.Destroy, forgottenBy(plan)), nil
}

func forgottenBy(plan *infrav1.PlanStatus) []string {
	var addresses []string
	for _, c := range plan.Changes {
		if terraform.Action(c.Action) == terraform.ActionForget {
			addresses = append(addresses, c.Address)
		}
	}
	return addresses
}

// undo puts template and variables back as they were.
func (m *Migration) undo(ctx context.Context, w *world, back *controlplanev1.CAPTControlPlane, template string) error {
	now, err := m.read(ctx, w.key)
	if err != nil {
		return err
	}
	err = m.edit(ctx, now, change{template: template, edit: func(cp *controlplanev1.CAPTControlPlane) {
		rec := recordOf(cp)
		cp.Spec.Variables = maps.Clone(back.Spec.Variables)
		if len(rec.Dropped) > 0 && cp.Spec.Variables == nil {
			cp.Spec.Variables = map[string]infrav1.Value{}
		}
		maps.Copy(cp.Spec.Variables, rec.Dropped)
		delete(cp.Annotations, RecordAnnotation)
	}})
	if err != nil {
		return err
	}
	return m.settled(ctx, w, template)
}

// adopt lets Flux take the release over.
func (m *Migration) adopt(ctx context.Context, w *world) (string, error) {
	if w.managed == nil {
		if err := m.remember(ctx, w); err != nil {
			return "", err
		}
	}
	if err := m.label(ctx, w, w.addon); err != nil {
		return "", err
	}
	return fmt.Sprintf("Flux keeps the release %s/%s", w.release.Namespace, w.release.Name), m.waitReady(ctx, w, m.Addon)
}

// remember records what runs now.
func (m *Migration) remember(ctx context.Context, w *world) error {
	return m.editRecord(ctx, w, func(rec *record) {
		rec.Before, rec.Revision = &w.runs, w.release.Revision
		if rec.From == "" {
			rec.From, rec.To = m.fromOf(w), m.To
		}
	})
}

// editRecord changes what the control plane remembers.
func (m *Migration) editRecord(ctx context.Context, w *world, edit func(*record)) error {
	return m.edit(ctx, w, change{template: w.template(), edit: func(cp *controlplanev1.CAPTControlPlane) {
		rec := recordOf(cp)
		edit(rec)
		keep(cp, rec)
	}})
}

// finish compares what runs with what ran, and records the end.
func (m *Migration) finish(ctx context.Context, w *world) (string, error) {
	if w.record == nil || w.record.MigratedAt != nil {
		return "the cluster is migrated", nil
	}
	text, err := w.compareRunning()
	if err != nil {
		return "", err
	}
	return text, m.editRecord(ctx, w, func(rec *record) { rec.MigratedAt = &metav1.Time{Time: m.Now()} })
}

// compareRunning tells whether the release that runs is the one that ran.
func (w *world) compareRunning() (string, error) {
	if w.release == nil {
		return "", fmt.Errorf("%s: the release is gone: install it again with the add-on or the old template", w.key.Name)
	}
	if w.record == nil || w.record.Before == nil {
		return fmt.Sprintf("revision %d of the release runs", w.release.Revision), nil
	}
	before := w.record.Before
	if !maps.Equal(before.Deployments, w.runs.Deployments) {
		return "", fmt.Errorf("%s: the Deployments are not the same as before: %v, now %v", w.key.Name, before.Deployments, w.runs.Deployments)
	}
	if w.release.Revision < w.record.Revision {
		return "", fmt.Errorf("%s: the release began anew: it is at revision %d and was at %d", w.key.Name, w.release.Revision, w.record.Revision)
	}
	history := fmt.Sprintf("revision %d became %d", w.record.Revision, w.release.Revision)
	if w.record.Revision == w.release.Revision {
		history = fmt.Sprintf("still at revision %d", w.release.Revision)
	}
	if maps.EqualFunc(before.Pods, w.runs.Pods, slices.Equal) {
		pods := 0
		for _, of := range w.runs.Pods {
			pods += len(of)
		}
		return fmt.Sprintf("the same Deployment and the same %d pods run, %s", pods, history), nil
	}
	return "the same Deployment runs, some of its pods were replaced, " + history, nil
}

func recordOf(cp *controlplanev1.CAPTControlPlane) *record {
	rec := &record{}
	if text, found := cp.Annotations[RecordAnnotation]; found && json.Unmarshal([]byte(text), rec) != nil {
		return &record{}
	}
	return rec
}

func keep(cp *controlplanev1.CAPTControlPlane, rec *record) {
	text, err := json.Marshal(rec)
	if err != nil {
		// Everything in it came from JSON.
		return
	}
	if cp.Annotations == nil {
		cp.Annotations = map[string]string{}
	}
	cp.Annotations[RecordAnnotation] = string(text)
}

func ignoreConflict(err error) error {
	if apierrors.IsConflict(err) {
		return nil
	}
	return err
}

package history

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/runs"
	"github.com/appthrust/capt/internal/terraform/change"
	"github.com/appthrust/capt/internal/terraform/record"
)

// showRun creates the WorkspaceRun of a run that is in the history of the status. It is deleted
// with the Secret of the run.
func (r *Recorder) showRun(ctx context.Context, s *Status, run *runs.Run) error {
	i := slices.IndexFunc(s.Apply.Status.History, func(h infrav1.RunRecord) bool { return h.ID == run.ID })
	if i < 0 {
		return nil
	}
	return r.show(ctx, &infrav1.WorkspaceRun{
		ObjectMeta: viewMeta(s.Apply, run, run.Secret),
		Spec:       infrav1.WorkspaceRunSpec{Workspace: s.Apply.Name, RunRecord: s.Apply.Status.History[i]},
	})
}

// showPlan creates the WorkspacePlan of a run that has stored what its plan changes. It is deleted
// with that Secret, which has no owner if the plan destroys: a foreground deletion of the
// workspace would delete the Secret of the run before the plan is approved.
func (r *Recorder) showPlan(ctx context.Context, s *Status, run *runs.Run) error {
	plan := s.Apply.Status.Plan
	if plan == nil || plan.Run != run.ID {
		return nil
	}
	plans, err := r.Secrets(ctx, s.Workspace, record.ComponentPlan)
	if err != nil {
		return err
	}
	name := record.ChunkName(record.ChangesName(plan.ID), 0)
	if !slices.ContainsFunc(plans, func(secret corev1.Secret) bool { return secret.Name == name && record.RunID(&secret) == run.ID }) {
		return nil
	}
	stored := &corev1.Secret{}
	err = r.Reader.Get(ctx, client.ObjectKey{Namespace: s.Apply.Namespace, Name: name}, stored)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the changes of %s: %w", plan.ID, err)
	}
	view := &infrav1.WorkspacePlan{
		ObjectMeta: viewMeta(s.Apply, run, stored),
		Spec:       infrav1.WorkspacePlanSpec{Workspace: s.Apply.Name, Plan: plan.ID},
	}
	if err := setChanges(&view.Spec, stored); err != nil {
		// The run wrote it, and may have written anything.
		ctrl.LoggerFrom(ctx).Info("Plan is not shown", "run", run.ID, "plan", plan.ID, "cause", err.Error())
		return nil
	}
	return r.show(ctx, view)
}

// maxStored is the size of the stored changes of a plan, with what separates them.
const maxStored = 1 << 20

// setChanges sets the changes of a plan to those that its run has stored.
func setChanges(spec *infrav1.WorkspacePlanSpec, stored *corev1.Secret) error {
	content, err := record.JoinUpTo([]*corev1.Secret{stored}, maxStored)
	if err != nil {
		return err
	}
	size := 0
	for decoder := json.NewDecoder(bytes.NewReader(content)); decoder.More(); {
		var entry change.Entry
		if err := decoder.Decode(&entry); err != nil {
			return fmt.Errorf("decoding a change: %w", err)
		}
		if entry.Omitted > 0 {
			spec.OmittedChanges = count(entry.Omitted)
			continue
		}
		value, err := infrav1.NewValue(entry)
		if err != nil {
			return err
		}
		if size += len(value.Raw); size > change.MaxStored || len(spec.Changes) == change.MaxEntries {
			return errors.New("the changes are larger than those of a runner")
		}
		spec.Changes = append(spec.Changes, value)
	}
	return nil
}

// viewMeta returns the metadata of an object that shows what a run did. It is deleted with its
// owner.
func viewMeta(apply *infrav1.WorkspaceTemplateApply, run *runs.Run, owner *corev1.Secret) metav1.ObjectMeta {
	meta := metav1.ObjectMeta{
		Namespace: apply.Namespace, Name: run.ID,
		Labels:          map[string]string{infrav1.WorkspaceLabel: record.LabelValue(apply.Name)},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Secret", Name: owner.Name, UID: owner.UID}},
	}
	if cluster := apply.Labels[clusterv1.ClusterNameLabel]; cluster != "" {
		meta.Labels[clusterv1.ClusterNameLabel] = cluster
	}
	return meta
}

// show creates an object for users, which the manager does not read. A run is recorded again if
// the write of the status failed, so the object may exist. An administrator may have removed
// the permission to create it, and nothing can be created in a namespace that is being deleted.
// The values of a plan are JSON that its run wrote: the API server may not accept their numbers or
// their depth.
func (r *Recorder) show(ctx context.Context, view client.Object) error {
	err := r.Client.Create(ctx, view)
	switch {
	case apierrors.IsForbidden(err), apierrors.IsBadRequest(err), apierrors.IsInvalid(err), apierrors.IsRequestEntityTooLargeError(err):
		ctrl.LoggerFrom(ctx).V(1).Info("Run is not shown", "run", view.GetName(), "cause", err.Error())
		return nil
	case err != nil && !apierrors.IsAlreadyExists(err):
		return fmt.Errorf("showing run %s: %w", view.GetName(), err)
	}
	return nil
}

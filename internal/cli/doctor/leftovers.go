package doctor

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	clusteraddonsv1 "sigs.k8s.io/cluster-api/api/addons/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/terraform/record"
)

// leftovers looks for what belongs to objects that are gone.
func (d *Doctor) leftovers(ctx context.Context) ([]Result, error) {
	ofWorkspaces, err := d.workspaceLeftovers(ctx)
	if err != nil {
		return nil, err
	}
	ofAddons, err := d.addonLeftovers(ctx)
	if err != nil {
		return nil, err
	}
	return orFine(append(ofWorkspaces, ofAddons...), "nothing is left of workspaces and add-ons that are gone"), nil
}

// workspaceLeftovers are Secrets of workspaces that are gone.
func (d *Doctor) workspaceLeftovers(ctx context.Context) ([]Result, error) {
	applies, err := d.workspaces(ctx)
	if err != nil {
		return nil, err
	}
	alive := map[client.ObjectKey]bool{}
	for _, apply := range applies {
		alive[client.ObjectKey{Namespace: apply.Namespace, Name: record.LabelValue(apply.Name)}] = true
	}
	var secrets corev1.SecretList
	if err := d.list(ctx, &secrets, client.HasLabels{infrav1.WorkspaceLabel, infrav1.ComponentLabel}); err != nil {
		return nil, err
	}
	var found []Result
	for i := range secrets.Items {
		secret := &secrets.Items[i]
		workspace := secret.Labels[infrav1.WorkspaceLabel]
		if !secret.DeletionTimestamp.IsZero() || alive[client.ObjectKey{Namespace: secret.Namespace, Name: workspace}] {
			continue
		}
		found = append(found, leftover(secret, workspace))
	}
	return found, nil
}

func leftover(secret *corev1.Secret, workspace string) Result {
	component := secret.Labels[infrav1.ComponentLabel]
	remove := fmt.Sprintf("kubectl delete secret -n %s %s", secret.Namespace, secret.Name)
	result := Result{Status: Warn, Object: nameOf("Secret", secret), Mend: remove}
	switch component {
	case record.ComponentState:
		empty, err := record.StateIsEmpty(secret)
		switch {
		case err != nil:
			result.Message = fmt.Sprintf("the state of workspace %s, which is gone, cannot be read: %v", workspace, err)
			result.Mend = "captctl state snapshots"
		case empty:
			result.Message = fmt.Sprintf("the state of workspace %s, which is gone, holds nothing", workspace)
		default:
			result.Message = fmt.Sprintf("the state of workspace %s, which is gone, still holds resources", workspace)
			result.Mend = fmt.Sprintf("create WorkspaceTemplateApply %s again to take them over; or, if they are to be forgotten, %s", workspace, remove)
		}
	case record.ComponentRescue:
		result.Status = Fail
		result.Message = fmt.Sprintf("a state of workspace %s, which is gone, was rescued here and never put back", workspace)
		result.Mend = fmt.Sprintf("create WorkspaceTemplateApply %s again, which puts it back", workspace)
	default:
		result.Message = fmt.Sprintf("a %s of workspace %s, which is gone", component, workspace)
	}
	return result
}

// addonLeftovers are what was rendered for add-ons that are gone.
func (d *Doctor) addonLeftovers(ctx context.Context) ([]Result, error) {
	var addons addonsv1.CAPTAddonList
	if err := d.list(ctx, &addons); err != nil {
		return nil, err
	}
	alive := map[client.ObjectKey]bool{}
	for _, addon := range addons.Items {
		alive[client.ObjectKey{Namespace: addon.Namespace, Name: record.LabelValue(addon.Name)}] = true
	}
	var sets clusteraddonsv1.ClusterResourceSetList
	if err := d.list(ctx, &sets, client.HasLabels{addonsv1.AddonLabel}); err != nil {
		return nil, err
	}
	var secrets corev1.SecretList
	if err := d.list(ctx, &secrets, client.HasLabels{addonsv1.AddonLabel}); err != nil {
		return nil, err
	}
	var found []Result
	add := func(kind, resource string, obj client.Object) {
		addon := obj.GetLabels()[addonsv1.AddonLabel]
		if !obj.GetDeletionTimestamp().IsZero() || alive[client.ObjectKey{Namespace: obj.GetNamespace(), Name: addon}] {
			return
		}
		found = append(found, Result{
			Status: Warn, Object: nameOf(kind, obj), Message: fmt.Sprintf("it was rendered for CAPTAddon %s, which is gone", addon),
			Mend: fmt.Sprintf("kubectl delete %s -n %s %s", resource, obj.GetNamespace(), obj.GetName()),
		})
	}
	for i := range sets.Items {
		add("ClusterResourceSet", "clusterresourceset", &sets.Items[i])
	}
	for i := range secrets.Items {
		add("Secret", "secret", &secrets.Items[i])
	}
	return found, nil
}

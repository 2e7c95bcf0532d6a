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

// leftovers reports objects of workspaces and add-ons that do not exist any more.
func (d *Doctor) leftovers(ctx context.Context) ([]Result, error) {
	ofWorkspaces, err := d.workspaceLeftovers(ctx)
	if err != nil {
		return nil, err
	}
	ofAddons, err := d.addonLeftovers(ctx)
	if err != nil {
		return nil, err
	}
	return orOK(append(ofWorkspaces, ofAddons...), "no leftovers of deleted workspaces and add-ons"), nil
}

// workspaceLeftovers returns the Secrets of deleted workspaces.
func (d *Doctor) workspaceLeftovers(ctx context.Context) ([]Result, error) {
	applies, err := d.workspaces(ctx)
	if err != nil {
		return nil, err
	}
	owners := owners{label: infrav1.WorkspaceLabel, names: map[client.ObjectKey]bool{}}
	for i := range applies {
		owners.add(&applies[i])
	}
	var secrets corev1.SecretList
	if err := d.list(ctx, &secrets, client.HasLabels{infrav1.WorkspaceLabel, infrav1.ComponentLabel}); err != nil {
		return nil, err
	}
	var problems []Result
	for i := range secrets.Items {
		if secret := &secrets.Items[i]; owners.isLeftover(secret) {
			problems = append(problems, secretLeftover(secret))
		}
	}
	return problems, nil
}

// owners are the existing owners of objects that name theirs in a label.
type owners struct {
	label string
	// names are the namespaces and label values of the owners.
	names map[client.ObjectKey]bool
}

func (o owners) add(owner client.Object) {
	o.names[client.ObjectKey{Namespace: owner.GetNamespace(), Name: record.LabelValue(owner.GetName())}] = true
}

// isLeftover reports whether the owner of an object does not exist and the object
// is not being deleted.
func (o owners) isLeftover(obj client.Object) bool {
	return obj.GetDeletionTimestamp().IsZero() && !o.names[client.ObjectKey{Namespace: obj.GetNamespace(), Name: obj.GetLabels()[o.label]}]
}

// secretLeftover returns the result for a Secret of a deleted workspace.
func secretLeftover(secret *corev1.Secret) Result {
	workspace, component := secret.Labels[infrav1.WorkspaceLabel], secret.Labels[infrav1.ComponentLabel]
	remove := fmt.Sprintf("kubectl delete secret -n %s %s", secret.Namespace, secret.Name)
	result := Result{Status: Warn, Object: objectName("Secret", secret), Fix: remove}
	switch component {
	case record.ComponentState:
		empty, _, err := record.StateIsEmpty(secret)
		switch {
		case err != nil:
			result.Message = fmt.Sprintf("state of the deleted workspace %s, unreadable: %v", workspace, err)
			result.Fix = fmt.Sprintf("kubectl describe secret -n %s %s", secret.Namespace, secret.Name)
		case empty:
			result.Message = fmt.Sprintf("state of the deleted workspace %s, without resources", workspace)
		default:
			result.Message = fmt.Sprintf("state of the deleted workspace %s, which still has resources", workspace)
			result.Fix = fmt.Sprintf("create WorkspaceTemplateApply %s again to manage them; or, to abandon them, %s", workspace, remove)
		}
	case record.ComponentRescue:
		result.Status = Fail
		result.Message = fmt.Sprintf("state of the deleted workspace %s that a run could not save and that was never restored", workspace)
		result.Fix = fmt.Sprintf("create WorkspaceTemplateApply %s again, which restores it", workspace)
	default:
		result.Message = fmt.Sprintf("%s of the deleted workspace %s", component, workspace)
	}
	return result
}

// addonLeftovers returns the objects that were rendered for deleted add-ons.
func (d *Doctor) addonLeftovers(ctx context.Context) ([]Result, error) {
	var addons addonsv1.CAPTAddonList
	if err := d.list(ctx, &addons); err != nil {
		return nil, err
	}
	owners := owners{label: addonsv1.AddonLabel, names: map[client.ObjectKey]bool{}}
	for i := range addons.Items {
		owners.add(&addons.Items[i])
	}
	var sets clusteraddonsv1.ClusterResourceSetList
	if err := d.list(ctx, &sets, client.HasLabels{addonsv1.AddonLabel}); err != nil {
		return nil, err
	}
	var secrets corev1.SecretList
	if err := d.list(ctx, &secrets, client.HasLabels{addonsv1.AddonLabel}); err != nil {
		return nil, err
	}
	var problems []Result
	add := func(kind, resource string, obj client.Object) {
		if owners.isLeftover(obj) {
			problems = append(problems, Result{
				Status: Warn, Object: objectName(kind, obj), Message: "rendered for the deleted CAPTAddon " + obj.GetLabels()[addonsv1.AddonLabel],
				Fix: fmt.Sprintf("kubectl delete %s -n %s %s", resource, obj.GetNamespace(), obj.GetName()),
			})
		}
	}
	for i := range sets.Items {
		add("ClusterResourceSet", "clusterresourceset", &sets.Items[i])
	}
	for i := range secrets.Items {
		add("Secret", "secret", &secrets.Items[i])
	}
	return problems, nil
}

package operate

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/change"
	"github.com/appthrust/capt/internal/terraform/record"
)

// RunIDs returns the IDs of the recorded runs, the newest first.
func RunIDs(ctx context.Context, c client.Reader, apply *infrav1.WorkspaceTemplateApply) ([]string, error) {
	// The Secrets hold logs: read only their metadata.
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
	err := c.List(ctx, list, client.InNamespace(apply.Namespace), client.MatchingLabels{
		infrav1.WorkspaceLabel: record.LabelValue(apply.Name), infrav1.ComponentLabel: record.ComponentRun,
	})
	if err != nil {
		return nil, fmt.Errorf("listing the runs of %s: %w", apply.Name, err)
	}
	var ids []string
	for i := range list.Items {
		if metav1.IsControlledBy(&list.Items[i], apply) {
			ids = append(ids, record.RunID(&list.Items[i]))
		}
	}
	slices.SortFunc(ids, func(a, b string) int {
		// An ID without a number sorts last.
		x, _ := record.RunNumber(a)
		y, _ := record.RunNumber(b)
		return cmp.Compare(y, x)
	})
	return ids, nil
}

// maxHostedName is the limit for the name of a workspace.
const maxHostedName = 200

// checkHosted returns an error that names the workspace that runs for this one in another
// namespace, if there is one.
func checkHosted(apply *infrav1.WorkspaceTemplateApply) error {
	host := apply.Annotations[infrav1.HostedInAnnotation]
	if host == "" {
		return nil
	}
	name := record.Shorten(apply.Namespace+"."+apply.Name, maxHostedName)
	return fmt.Errorf("%s runs in namespace %s, which has its logs and its state: use -n %s %s, if you may", apply.Name, host, host, name)
}

// RunSecret returns the record of a run, or of the newest run if id is empty.
func RunSecret(ctx context.Context, c client.Reader, apply *infrav1.WorkspaceTemplateApply, id string) (*corev1.Secret, error) {
	ids, err := RunIDs(ctx, c, apply)
	if err != nil {
		return nil, err
	}
	switch err := checkHosted(apply); {
	case err != nil && len(ids) == 0:
		return nil, err
	case len(ids) == 0:
		return nil, fmt.Errorf("%s has no runs yet: see kubectl describe wsta %s", apply.Name, apply.Name)
	case id == "":
		id = ids[0]
	case !slices.Contains(ids, id):
		return nil, notFoundOf("run", id, ids, "captctl history "+apply.Name)
	}
	secret := &corev1.Secret{}
	if err := c.Get(ctx, client.ObjectKey{Namespace: apply.Namespace, Name: record.SecretName(id)}, secret); err != nil {
		return nil, fmt.Errorf("reading run %s: %w", id, err)
	}
	return secret, nil
}

// Plan is a plan with all of its changes.
type Plan struct {
	Workspace string `json:"workspace"`
	infrav1.PlanStatus
	// Directory is the directory of the module of a speculative plan. Such a plan is not
	// stored, so it has neither an ID nor a run.
	Directory string `json:"directory,omitempty"`
	// Resources are all changes with their reasons, or those of the status if the
	// record of the run is not available.
	Resources []terraform.Change `json:"resources,omitempty"`
	// OutputsOnly reports that no resource changes.
	OutputsOnly bool `json:"outputsOnly,omitempty"`
	// Details are the changes with values, if they are available.
	Details []change.Entry `json:"details,omitempty"`
}

// PlanOf returns the latest plan of a workspace. It is read from the record of
// its run, or from the status if that was deleted or the user may not read it.
func PlanOf(ctx context.Context, c client.Reader, apply *infrav1.WorkspaceTemplateApply) (*Plan, error) {
	status := apply.Status.Plan
	if status == nil {
		return nil, fmt.Errorf("%s has no plan yet: see captctl history %s", apply.Name, apply.Name)
	}
	var secret corev1.Secret
	err := c.Get(ctx, client.ObjectKey{Namespace: apply.Namespace, Name: record.SecretName(status.Run)}, &secret)
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return planFromStatus(apply.Name, status), nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading run %s: %w", status.Run, err)
	}
	result, err := record.Result(&secret)
	if err != nil {
		return nil, err
	}
	plan := planFromStatus(apply.Name, status)
	plan.complete(result)
	return plan, nil
}

func planFromStatus(workspace string, status *infrav1.PlanStatus) *Plan {
	plan := &Plan{Workspace: workspace, PlanStatus: *status}
	for _, change := range status.Changes {
		plan.Resources = append(plan.Resources, terraform.Change{Address: change.Address, Action: terraform.Action(change.Action)})
	}
	return plan
}

// maxChanges limits what is read of the changes of a plan. Runs store less.
const maxChanges = 64 << 20

// PlanChanges passes what a plan changes in each resource to emit. It returns false if
// that is not available: the plan was made and applied in one run, it is an old one, or
// the user may not read Secrets.
func PlanChanges(ctx context.Context, c client.Reader, apply *infrav1.WorkspaceTemplateApply, planID string, emit func(change.Entry) error) (bool, error) {
	var secrets []*corev1.Secret
	for count := 1; len(secrets) < count; {
		secret := &corev1.Secret{}
		name := record.ChunkName(record.ChangesName(planID), len(secrets))
		err := c.Get(ctx, client.ObjectKey{Namespace: apply.Namespace, Name: name}, secret)
		if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("reading the changes of %s: %w", planID, err)
		}
		if len(secrets) == 0 {
			if count, err = record.ChunkCount(secret); err != nil {
				return false, err
			}
		}
		secrets = append(secrets, secret)
	}
	content, err := record.JoinUpTo(secrets, maxChanges)
	if err != nil {
		return false, err
	}
	decoder := json.NewDecoder(bytes.NewReader(content))
	for decoder.More() {
		var entry change.Entry
		if err := decoder.Decode(&entry); err != nil {
			return false, fmt.Errorf("reading the changes of %s: %w", planID, err)
		}
		if err := emit(entry); err != nil {
			return false, err
		}
	}
	return true, nil
}

// ReadDetails adds the changes with values, if they are available.
func (p *Plan) ReadDetails(ctx context.Context, c client.Reader, apply *infrav1.WorkspaceTemplateApply) error {
	_, err := PlanChanges(ctx, c, apply, p.ID, func(entry change.Entry) error {
		p.Details = append(p.Details, entry)
		return nil
	})
	return err
}

// complete replaces the summary of the status by the plan of a run's result.
func (p *Plan) complete(result *terraform.Result) {
	if result != nil && result.Plan != nil && result.Plan.ID == p.ID {
		p.Resources, p.OutputsOnly, p.OmittedChanges = result.Plan.Changes, result.Plan.OutputsOnly, 0
	}
	p.Changes = nil
}

// NewLog returns the part of a log that was added since it was last read. The
// record keeps only the last part of a log, so the current log starts at any line
// of the previous one.
func NewLog(previous, current []byte) []byte {
	for len(previous) > 0 {
		if added, found := bytes.CutPrefix(current, previous); found {
			return added
		}
		end := bytes.IndexByte(previous, '\n')
		if end < 0 {
			break
		}
		previous = previous[end+1:]
	}
	return current
}

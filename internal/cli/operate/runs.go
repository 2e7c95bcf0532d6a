package operate

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
)

// secrets lists the Secrets of a component kept beside a workspace.
func secrets(ctx context.Context, c client.Reader, apply *infrav1.WorkspaceTemplateApply, component string) ([]corev1.Secret, error) {
	var list corev1.SecretList
	err := c.List(ctx, &list, client.InNamespace(apply.Namespace), client.MatchingLabels{
		infrav1.WorkspaceLabel: record.LabelValue(apply.Name), infrav1.ComponentLabel: component,
	})
	if err != nil {
		return nil, fmt.Errorf("listing the Secrets of %s: %w", apply.Name, err)
	}
	return list.Items, nil
}

// runNumber is the number of a run; 0 if its name has none.
func runNumber(id string) int {
	i := strings.LastIndex(id, "-r")
	if i < 0 {
		return 0
	}
	number, err := strconv.Atoi(id[i+2:])
	if err != nil {
		return 0
	}
	return number
}

// RunIDs are the runs on record, the newest first.
func RunIDs(ctx context.Context, c client.Reader, apply *infrav1.WorkspaceTemplateApply) ([]string, error) {
	// Their Secrets hold logs: their names are enough.
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
	slices.SortFunc(ids, func(a, b string) int { return runNumber(b) - runNumber(a) })
	return ids, nil
}

// RunSecret reads the record of a run; of the newest when none is named.
func RunSecret(ctx context.Context, c client.Reader, apply *infrav1.WorkspaceTemplateApply, id string) (*corev1.Secret, error) {
	ids, err := RunIDs(ctx, c, apply)
	if err != nil {
		return nil, err
	}
	switch {
	case len(ids) == 0:
		return nil, fmt.Errorf("%s has had no run yet: see kubectl describe wsta %s", apply.Name, apply.Name)
	case id == "":
		id = ids[0]
	case !slices.Contains(ids, id):
		return nil, missingOf("run", id, ids, "captctl history "+apply.Name)
	}
	secret := &corev1.Secret{}
	if err := c.Get(ctx, client.ObjectKey{Namespace: apply.Namespace, Name: record.SecretName(id)}, secret); err != nil {
		return nil, fmt.Errorf("reading run %s: %w", id, err)
	}
	return secret, nil
}

// Plan is a plan as people look at it.
type Plan struct {
	Workspace string `json:"workspace"`
	infrav1.PlanStatus
	// Resources are all changes with their reasons, where they are on record.
	Resources []terraform.Change `json:"resources,omitempty"`
	// OutputsOnly is set when no resource changes.
	OutputsOnly bool `json:"outputsOnly,omitempty"`
}

// PlanOf is a workspace's latest plan: as its run recorded it, or, when that is
// gone or may not be read, as the status sums it up.
func PlanOf(ctx context.Context, c client.Reader, apply *infrav1.WorkspaceTemplateApply) (*Plan, error) {
	status := apply.Status.Plan
	if status == nil {
		return nil, fmt.Errorf("%s has no plan yet: see captctl history %s", apply.Name, apply.Name)
	}
	plan := &Plan{Workspace: apply.Name, PlanStatus: *status}
	for _, change := range status.Changes {
		plan.Resources = append(plan.Resources, terraform.Change{Address: change.Address, Action: terraform.Action(change.Action)})
	}
	var secret corev1.Secret
	err := c.Get(ctx, client.ObjectKey{Namespace: apply.Namespace, Name: record.SecretName(status.Run)}, &secret)
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return plan, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading run %s: %w", status.Run, err)
	}
	result, err := record.Result(&secret)
	if err != nil {
		return nil, err
	}
	if result != nil && result.Plan != nil && result.Plan.ID == status.ID {
		plan.Resources, plan.OutputsOnly, plan.OmittedChanges = result.Plan.Changes, result.Plan.OutputsOnly, 0
	}
	plan.Changes = nil
	return plan, nil
}

// NewLog is what a log has that was not there before. A log keeps its last part
// only: it begins with some line of what it was.
func NewLog(was, is []byte) []byte {
	for len(was) > 0 {
		if rest, found := bytes.CutPrefix(is, was); found {
			return rest
		}
		end := bytes.IndexByte(was, '\n')
		if end < 0 {
			break
		}
		was = was[end+1:]
	}
	return is
}

// Snapshot is a kept state.
type Snapshot struct {
	// Name is the Secret that restore takes.
	Name string `json:"name"`
	// Kind tells a snapshot from a rescued state.
	Kind string `json:"kind"`
	// Run is the run before which it was taken.
	Run   string      `json:"run"`
	Taken metav1.Time `json:"taken"`
	// Serial and Resources tell what is in it; nothing when it is encrypted.
	Serial    *uint64 `json:"serial,omitempty"`
	Resources *int    `json:"resources,omitempty"`
	Restored  bool    `json:"restored,omitempty"`
}

// Snapshots are the kept states of a workspace, the newest first.
func Snapshots(ctx context.Context, c client.Reader, apply *infrav1.WorkspaceTemplateApply) ([]Snapshot, error) {
	var snapshots []Snapshot
	for _, component := range []string{record.ComponentSnapshot, record.ComponentRescue} {
		items, err := secrets(ctx, c, apply, component)
		if err != nil {
			return nil, err
		}
		for i := range items {
			whole, first := strings.CutSuffix(items[i].Name, "-0")
			if !first {
				continue
			}
			s := Snapshot{
				Name: items[i].Name, Kind: component, Run: record.RunID(&items[i]), Taken: items[i].CreationTimestamp,
				Restored: apply.Status.HandledRestore == items[i].Name,
			}
			s.look(whole, items)
			snapshots = append(snapshots, s)
		}
	}
	slices.SortStableFunc(snapshots, func(a, b Snapshot) int { return b.Taken.Compare(a.Taken.Time) })
	return snapshots, nil
}

// look counts what is in a snapshot. It keeps nothing of its content.
func (s *Snapshot) look(whole string, items []corev1.Secret) {
	var parts []*corev1.Secret
	for n := 0; ; n++ {
		i := slices.IndexFunc(items, func(secret corev1.Secret) bool { return secret.Name == whole+"-"+strconv.Itoa(n) })
		if i < 0 {
			break
		}
		parts = append(parts, &items[i])
	}
	content, err := record.Join(parts)
	if err != nil {
		return
	}
	var state struct {
		Serial    *uint64 `json:"serial"`
		Encrypted string  `json:"encrypted_data"`
		Resources []struct {
			Mode      string            `json:"mode"`
			Instances []json.RawMessage `json:"instances"`
		} `json:"resources"`
	}
	if json.Unmarshal(content, &state) != nil || state.Encrypted != "" {
		return
	}
	count := 0
	for _, resource := range state.Resources {
		if resource.Mode == "managed" {
			count += len(resource.Instances)
		}
	}
	s.Serial, s.Resources = state.Serial, &count
}

// FindSnapshot returns a snapshot by the name of its Secret, or by that of the
// run before which it was taken.
func FindSnapshot(ctx context.Context, c client.Reader, apply *infrav1.WorkspaceTemplateApply, name string) (Snapshot, error) {
	snapshots, err := Snapshots(ctx, c, apply)
	if err != nil {
		return Snapshot{}, err
	}
	var names []string
	for _, s := range snapshots {
		if s.Name == name || s.Run == name && s.Kind == record.ComponentSnapshot {
			return s, nil
		}
		names = append(names, s.Name)
	}
	return Snapshot{}, missingOf("snapshot", name, names, "captctl state snapshots "+apply.Name)
}

package operate

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/terraform/record"
)

// Snapshot is a stored state of a workspace.
type Snapshot struct {
	// Name is the name of the Secret that restore takes.
	Name string `json:"name"`
	// Kind is record.ComponentSnapshot for a state from before a run, or
	// record.ComponentRescue for a state that a run could not save.
	Kind string `json:"kind"`
	// Run is the run before which the snapshot was taken.
	Run   string      `json:"run"`
	Taken metav1.Time `json:"taken"`
	// Serial and Resources describe the state; they are nil if it is encrypted.
	Serial    *uint64 `json:"serial,omitempty"`
	Resources *int    `json:"resources,omitempty"`
	Restored  bool    `json:"restored,omitempty"`
	// Superseded is set if a user has replaced the state that a rescued one continues.
	Superseded bool `json:"superseded,omitempty"`
}

// Snapshots returns the snapshots of a workspace, the newest first.
func Snapshots(ctx context.Context, c client.Reader, apply *infrav1.WorkspaceTemplateApply) ([]Snapshot, error) {
	// An operation is kept for a week after it has ended.
	restores, err := operations(ctx, c, apply, func(o *infrav1.WorkspaceOperation) bool {
		return o.Spec.Type == infrav1.OperationRestore && o.Status.Phase == infrav1.OperationSucceeded
	})
	if err != nil {
		return nil, err
	}
	restored := ""
	if len(restores) > 0 {
		restored = restores[len(restores)-1].Spec.Restore.Snapshot
	}
	var snapshots []Snapshot
	for _, component := range []string{record.ComponentSnapshot, record.ComponentRescue} {
		var list corev1.SecretList
		err := c.List(ctx, &list, client.InNamespace(apply.Namespace), client.MatchingLabels{
			infrav1.WorkspaceLabel: record.LabelValue(apply.Name), infrav1.ComponentLabel: component,
		})
		if err != nil {
			return nil, fmt.Errorf("listing the snapshots of %s: %w", apply.Name, err)
		}
		list.Items = slices.DeleteFunc(list.Items, func(secret corev1.Secret) bool { return !record.IsOf(&secret, apply.Name) })
		snapshots = append(snapshots, snapshotsOf(list.Items, component, restored)...)
	}
	slices.SortStableFunc(snapshots, func(a, b Snapshot) int { return b.Taken.Compare(a.Taken.Time) })
	return snapshots, nil
}

// snapshotsOf returns the snapshots in the Secrets of a component. A snapshot has
// one Secret per chunk, and the name of the first.
func snapshotsOf(secrets []corev1.Secret, component, restored string) []Snapshot {
	var snapshots []Snapshot
	for i := range secrets {
		whole, first := strings.CutSuffix(secrets[i].Name, "-0")
		if !first {
			continue
		}
		s := Snapshot{
			Name: secrets[i].Name, Kind: component, Run: record.RunID(&secrets[i]), Taken: secrets[i].CreationTimestamp,
			Restored:   restored == secrets[i].Name,
			Superseded: secrets[i].Annotations[record.SupersededAnnotation] != "",
		}
		if content, err := record.Join(chunksOf(whole, secrets)); err == nil {
			s.Serial, s.Resources = summarizeState(content)
		}
		snapshots = append(snapshots, s)
	}
	return snapshots
}

// chunksOf returns the Secrets whole-0, whole-1 and so on.
func chunksOf(whole string, secrets []corev1.Secret) []*corev1.Secret {
	var chunks []*corev1.Secret
	for n := 0; ; n++ {
		i := slices.IndexFunc(secrets, func(secret corev1.Secret) bool { return secret.Name == whole+"-"+strconv.Itoa(n) })
		if i < 0 {
			return chunks
		}
		chunks = append(chunks, &secrets[i])
	}
}

// summarizeState returns the serial of a state and the number of its managed
// resources, or nil if it is encrypted or unreadable. No value of the state leaves
// this function: states hold secrets.
func summarizeState(content []byte) (serial *uint64, resources *int) {
	var state struct {
		Serial    *uint64 `json:"serial"`
		Encrypted string  `json:"encrypted_data"`
		Resources []struct {
			Mode      string            `json:"mode"`
			Instances []json.RawMessage `json:"instances"`
		} `json:"resources"`
	}
	if json.Unmarshal(content, &state) != nil || state.Encrypted != "" {
		return nil, nil
	}
	count := 0
	for _, resource := range state.Resources {
		if resource.Mode == "managed" {
			count += len(resource.Instances)
		}
	}
	return state.Serial, &count
}

// FindSnapshot returns a snapshot by the name of its Secret, or by the name of
// the run before which it was taken.
func FindSnapshot(ctx context.Context, c client.Reader, apply *infrav1.WorkspaceTemplateApply, name string) (Snapshot, error) {
	snapshots, err := Snapshots(ctx, c, apply)
	if err != nil {
		return Snapshot{}, err
	}
	return pickSnapshot(snapshots, name, apply.Name)
}

func pickSnapshot(snapshots []Snapshot, name, workspace string) (Snapshot, error) {
	var names []string
	for _, s := range snapshots {
		if s.Name == name || s.Run == name && s.Kind == record.ComponentSnapshot {
			return s, nil
		}
		names = append(names, s.Name)
	}
	return Snapshot{}, notFoundOf("snapshot", name, names, "captctl state snapshots "+workspace)
}

package runs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
)

// Unsettled reports whether resources may exist that are missing from the state.
// The holder of the lock is running, or was killed before Terraform saved the
// state. The state that Terraform could not save is in the working directory
// until a later run pushes it.
func (r *Store) Unsettled(ctx context.Context, s *Workspace, results []*terraform.Result) (bool, error) {
	var lease coordinationv1.Lease
	err := r.Reader.Get(ctx, client.ObjectKey{Namespace: s.Apply.Namespace, Name: s.KubernetesBackend().LeaseName()}, &lease)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("reading the lock: %w", err)
	}
	return err == nil && isHeld(&lease) || lastRunUnsettled(results), nil
}

// isHeld reports whether a lock has a holder.
func isHeld(lease *coordinationv1.Lease) bool {
	return lease.Spec.HolderIdentity != nil && *lease.Spec.HolderIdentity != ""
}

// ModuleSource returns a hash of where the module comes from.
func ModuleSource(module terraform.Module) string {
	sum := sha256.Sum256(MustJSON(module.Origin()))
	return hex.EncodeToString(sum[:8])
}

// BackendName returns a name that distinguishes backends by type and
// configuration.
func BackendName(b terraform.Backend) string {
	if b.HCL == "" {
		return b.Type
	}
	sum := sha256.Sum256([]byte(b.HCL))
	return b.Type + "-" + hex.EncodeToString(sum[:4])
}

// KeyOf returns the key of a reference.
func KeyOf(ref *infrav1.ObjectReference) client.ObjectKey {
	return client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}
}

// RequirementsIn returns the requirements of a state, or nil.
func RequirementsIn(state *infrav1.StateStatus) *infrav1.StateRequirements {
	if state == nil {
		return nil
	}
	return state.Requirements
}

// maxLineage is the size of a lineage in the status, in bytes. Those of tools are UUIDs.
const maxLineage = 128

// SetVersion sets the version of a state that a run reports.
func SetVersion(state *infrav1.StateStatus, info terraform.StateInfo) {
	state.Lineage, state.Serial = record.Shorten(info.Lineage, maxLineage), int64(min(info.Serial, math.MaxInt64))
}

// StateInfo returns what identifies a version of a state.
func StateInfo(state *infrav1.StateStatus) terraform.StateInfo {
	return terraform.StateInfo{Lineage: state.Lineage, Serial: uint64(state.Serial), Resources: int(state.Resources)}
}

// InUse reports whether a state has, or may have, resources.
func InUse(state *infrav1.StateStatus) bool {
	return state != nil && (state.Resources > 0 || state.Confirmation == infrav1.StateUnconfirmed)
}

// StateBackend returns the name of the backend that has the state, or an empty
// string if the state has no resources.
func StateBackend(state *infrav1.StateStatus) string {
	if !InUse(state) || state.Backend == "" {
		return ""
	}
	return BackendOf(state)
}

// BackendOf returns the backend of a state, with the digest of its configuration.
func BackendOf(state *infrav1.StateStatus) string {
	return strings.TrimSuffix(state.Backend+"-"+state.Configuration, "-")
}

// CanProve reports whether a run finds out if the backend has the state, although its
// configuration has another text, such as another way to lock: equal lineage and a serial that
// is not older prove it. After a run that did not report its state, a copy may have them too.
func CanProve(state *infrav1.StateStatus, b terraform.Backend) bool {
	return state != nil && state.Backend == b.Type && state.Lineage != "" && state.Confirmation != infrav1.StateUnconfirmed
}

// UsesKubernetes reports whether the Secret of the Kubernetes backend has the state
// of a workspace: the last known state is there, and no run since then used another
// backend.
func UsesKubernetes(state *infrav1.StateStatus, runs []*Run) bool {
	if state != nil && state.Backend != "" {
		return state.Backend == terraform.BackendKubernetes
	}
	return !slices.ContainsFunc(runs, func(run *Run) bool {
		return run.Secret.Annotations[record.BackendAnnotation] != terraform.BackendKubernetes
	})
}

// RescuedStates returns the names of the states that runs could not save to their
// backend. Each is read from the API server: the cache may still have one that was saved
// and deleted, and a run that is told to read it has no access to it.
func (r *Store) RescuedStates(ctx context.Context, s *Workspace) ([]string, error) {
	secrets, err := r.Secrets(ctx, s, record.ComponentRescue)
	if err != nil {
		return nil, err
	}
	var names []string
	for i := range secrets {
		name, first := record.FirstChunk(secrets[i].Name)
		if !first || secrets[i].Type != corev1.SecretTypeOpaque {
			continue
		}
		var live corev1.Secret
		err := r.Reader.Get(ctx, client.ObjectKeyFromObject(&secrets[i]), &live)
		if apierrors.IsNotFound(err) || err == nil && live.Annotations[record.SupersededAnnotation] != "" {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", name, err)
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return names, nil
}

// Package workspace keeps the WorkspaceTemplateApply behind another object: it
// makes it, keeps it as wanted, tells what has become of it, and takes it away
// in its turn.
package workspace

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

const (
	// fieldManager owns the fields that CAPT sets, and no others: people may
	// set approval, drift or approvedPlan of the same workspace.
	fieldManager = "capt-owner"
	// wantedAnnotation is the hash of what was wanted last. It tells that a
	// field is to be taken back.
	wantedAnnotation = "capt.appthrust.io/wanted"
	// ownerIndex finds workspaces by the UID of their controller.
	ownerIndex = "capt.owner"
)

// Index lets the cache find workspaces by their owner. It is called once,
// before the manager starts.
func Index(ctx context.Context, indexer client.FieldIndexer) error {
	err := indexer.IndexField(ctx, &infrav1.WorkspaceTemplateApply{}, ownerIndex, func(obj client.Object) []string {
		if owner := metav1.GetControllerOf(obj); owner != nil {
			return []string{string(owner.UID)}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("indexing workspaces by owner: %w", err)
	}
	return nil
}

// Keeper keeps workspaces.
type Keeper struct {
	// Client reads from a cache that was given to Index.
	Client client.Client
	// Live reads past the cache.
	Live client.Reader
}

// Wanted is a workspace as its owner wants it.
type Wanted struct {
	// Name is the name of the workspace, unless it is taken by somebody else.
	Name string
	// Cluster is the name of the Cluster it belongs to.
	Cluster string
	// Spec holds what the owner decides; what is left empty is anybody's.
	Spec infrav1.WorkspaceTemplateApplySpec
	// Connection names the connection Secret after the workspace.
	Connection func(workspace string) string
}

// Find returns the workspace that an object controls, or nil.
func (k *Keeper) Find(ctx context.Context, owner client.Object) (*infrav1.WorkspaceTemplateApply, error) {
	var list infrav1.WorkspaceTemplateApplyList
	err := k.Client.List(ctx, &list, client.InNamespace(owner.GetNamespace()), client.MatchingFields{ownerIndex: string(owner.GetUID())})
	if err != nil {
		return nil, fmt.Errorf("listing workspaces: %w", err)
	}
	if len(list.Items) == 0 {
		return nil, nil
	}
	return &list.Items[0], nil
}

// Ensure makes the workspace what its owner wants, and writes nothing when it
// is. It returns the workspace as it is now.
func (k *Keeper) Ensure(ctx context.Context, owner client.Object, wanted Wanted) (*infrav1.WorkspaceTemplateApply, error) {
	found, err := k.Find(ctx, owner)
	if err != nil {
		return nil, err
	}
	name := ""
	if found != nil {
		name = found.Name
	} else if name, err = k.freeName(ctx, owner, wanted.Name); err != nil {
		return nil, err
	}
	if found != nil && !found.DeletionTimestamp.IsZero() {
		// A finalizer cannot be added and nothing will be applied any more.
		return found, nil
	}
	apply, err := Render(k.Client.Scheme(), owner, name, wanted)
	if err != nil {
		return nil, err
	}
	if found != nil && asWanted(found, apply) {
		return found, nil
	}
	body, err := toUnstructured(apply)
	if err != nil {
		return nil, err
	}
	if err := k.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(body), client.FieldOwner(fieldManager), client.ForceOwnership); err != nil {
		return nil, fmt.Errorf("applying workspace %s: %w", name, err)
	}
	written := &infrav1.WorkspaceTemplateApply{}
	if err := fromUnstructured(body, written); err != nil {
		return nil, err
	}
	return written, nil
}

// freeName chooses the name of a new workspace. Names of clusters may make the
// name of one cluster's VPC that of another's control plane.
func (k *Keeper) freeName(ctx context.Context, owner client.Object, preferred string) (string, error) {
	for _, name := range []string{preferred, preferred + "-" + short(string(owner.GetUID()))} {
		var taken infrav1.WorkspaceTemplateApply
		err := k.Live.Get(ctx, client.ObjectKey{Namespace: owner.GetNamespace(), Name: name}, &taken)
		switch {
		case apierrors.IsNotFound(err):
			return name, nil
		case err != nil:
			return "", fmt.Errorf("reading workspace %s: %w", name, err)
		case metav1.IsControlledBy(&taken, owner):
			return name, nil
		}
	}
	return "", fault.Stall(infrav1.WorkspaceNameTakenReason, "WorkspaceTemplateApply %s exists and belongs to somebody else: delete or rename it", preferred)
}

// Render is the workspace as its owner wants it, under a name.
func Render(scheme *runtime.Scheme, owner client.Object, name string, wanted Wanted) (*infrav1.WorkspaceTemplateApply, error) {
	apply := &infrav1.WorkspaceTemplateApply{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: owner.GetNamespace(), Name: name,
			Finalizers: []string{infrav1.WorkspaceHeldFinalizer},
			Labels:     map[string]string{clusterv1.ClusterNameLabel: wanted.Cluster},
		},
		Spec: *wanted.Spec.DeepCopy(),
	}
	if filter, found := owner.GetLabels()[clusterv1.WatchLabel]; found {
		apply.Labels[clusterv1.WatchLabel] = filter
	}
	if wanted.Connection != nil {
		apply.Spec.WriteConnectionSecretToRef = &infrav1.ObjectReference{Name: wanted.Connection(name)}
	}
	if err := controllerutil.SetControllerReference(owner, apply, scheme); err != nil {
		return nil, fmt.Errorf("owning workspace %s: %w", name, err)
	}
	text, err := json.Marshal(apply)
	if err != nil {
		return nil, fmt.Errorf("encoding workspace %s: %w", name, err)
	}
	sum := sha256.Sum256(text)
	apply.Annotations = map[string]string{wantedAnnotation: hex.EncodeToString(sum[:8])}
	return apply, nil
}

// asWanted tells whether everything that is wanted is there, and nothing is to
// be taken back.
func asWanted(found, wanted *infrav1.WorkspaceTemplateApply) bool {
	have, err := toUnstructured(found)
	if err != nil {
		return false
	}
	want, err := toUnstructured(wanted)
	if err != nil {
		return false
	}
	return found.Annotations[wantedAnnotation] == wanted.Annotations[wantedAnnotation] &&
		contains(have.Object["spec"], want.Object["spec"]) &&
		contains(toAny(found.Labels), toAny(wanted.Labels)) &&
		controllerutil.ContainsFinalizer(found, infrav1.WorkspaceHeldFinalizer)
}

// contains tells whether have is want and possibly more: further keys of maps.
func contains(have, want any) bool {
	wanted, isMap := want.(map[string]any)
	if !isMap {
		return equal(have, want)
	}
	had, _ := have.(map[string]any)
	for key, value := range wanted {
		if !contains(had[key], value) {
			return false
		}
	}
	return true
}

func equal(a, b any) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && string(x) == string(y)
}

func toAny(labels map[string]string) map[string]any {
	converted := map[string]any{}
	for key, value := range maps.All(labels) {
		converted[key] = value
	}
	return converted
}

func toUnstructured(apply *infrav1.WorkspaceTemplateApply) (*unstructured.Unstructured, error) {
	text, err := json.Marshal(apply)
	if err != nil {
		return nil, fmt.Errorf("encoding workspace %s: %w", apply.Name, err)
	}
	body := &unstructured.Unstructured{}
	if err := json.Unmarshal(text, &body.Object); err != nil {
		return nil, fmt.Errorf("encoding workspace %s: %w", apply.Name, err)
	}
	body.SetGroupVersionKind(infrav1.GroupVersion.WithKind("WorkspaceTemplateApply"))
	unstructured.RemoveNestedField(body.Object, "status")
	unstructured.RemoveNestedField(body.Object, "metadata", "creationTimestamp")
	return body, nil
}

func fromUnstructured(body *unstructured.Unstructured, apply *infrav1.WorkspaceTemplateApply) error {
	text, err := body.MarshalJSON()
	if err != nil {
		return fmt.Errorf("decoding workspace: %w", err)
	}
	if err := json.Unmarshal(text, apply); err != nil {
		return fmt.Errorf("decoding workspace: %w", err)
	}
	return nil
}

func short(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:4])
}

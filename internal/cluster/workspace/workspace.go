// Package workspace manages the WorkspaceTemplateApply of an owner, such as a
// CAPTCluster: it creates, updates and deletes it, and reports its outcome.
package workspace

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/grant"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

const (
	// fieldManager owns the fields that CAPT sets and no others. Users can set
	// approvedPlan of the same workspace, and what the settings of its owner leave open.
	fieldManager = "capt-owner"
	// desiredAnnotation is the hash of the workspace that was last applied. A
	// different hash reveals a field that is no longer desired and has to be
	// removed.
	desiredAnnotation = "capt.appthrust.io/wanted"
	// ownerIndex indexes workspaces by the UID of their controlling owner.
	ownerIndex = "capt.owner"
)

// Index adds the index of workspaces by owner to a cache. It must be called once,
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

// Keeper creates, updates and deletes the workspaces of owners.
type Keeper struct {
	// Client reads from a cache with the index of Index.
	Client client.Client
	// Live reads from the API server, without a cache.
	Live client.Reader
	// Grants decides about templates of other namespaces.
	Grants *grant.Checker
}

// Desired is the desired workspace of an owner.
type Desired struct {
	// Name is the name of the workspace, unless another owner's workspace has it.
	Name string
	// Cluster is the name of the Cluster.
	Cluster string
	// Spec holds the fields that the owner sets. Empty fields are left to users.
	Spec infrav1.WorkspaceTemplateApplySpec
	// Settings are those of the owner, or nil.
	Settings *infrav1.WorkspaceSettings
	// Connection returns the name of the connection Secret of a workspace.
	Connection func(workspace string) string
}

// Find returns the workspace that an object controls, or nil if there is none. A workspace in
// the status of the object that lost its owner is found too: Ensure restores the owner.
func (k *Keeper) Find(ctx context.Context, owner client.Object) (*infrav1.WorkspaceTemplateApply, error) {
	var list infrav1.WorkspaceTemplateApplyList
	err := k.Client.List(ctx, &list, client.InNamespace(owner.GetNamespace()), client.MatchingFields{ownerIndex: string(owner.GetUID())})
	if err != nil {
		return nil, fmt.Errorf("listing workspaces: %w", err)
	}
	if released, err := k.findReleased(ctx, owner, list.Items); err != nil || released != nil {
		return released, err
	}
	if len(list.Items) == 0 {
		return nil, nil
	}
	found := slices.MinFunc(list.Items, func(a, b infrav1.WorkspaceTemplateApply) int { return compare(owner, &a, &b) })
	return &found, nil
}

// compare orders workspaces that name the same owner. Users can create further ones, and
// must not replace the outputs of the right one: it has the name that CAPT gives it, and
// is the oldest.
func compare(owner client.Object, a, b *infrav1.WorkspaceTemplateApply) int {
	if first, second := hasNameOf(owner, a.Name), hasNameOf(owner, b.Name); first != second {
		if first {
			return -1
		}
		return 1
	}
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
}

// nameSuffix is what freeName adds to a name that is taken. The UID of the owner changes
// when it is moved.
var nameSuffix = regexp.MustCompile(`-[0-9a-f]{8}$`)

// hasNameOf reports whether a workspace has one of the names that CAPT gives to the
// workspaces of an owner: its own name, that of the cluster, or that of the network.
func hasNameOf(owner client.Object, name string) bool {
	names := []string{owner.GetName()}
	clusters := []string{owner.GetLabels()[clusterv1.ClusterNameLabel]}
	for _, ref := range owner.GetOwnerReferences() {
		if ref.Kind == "Cluster" {
			clusters = append(clusters, ref.Name)
		}
	}
	for _, cluster := range clusters {
		if cluster != "" {
			names = append(names, cluster, cluster+"-vpc", cluster+"-infrastructure")
		}
	}
	return slices.Contains(names, name) || slices.Contains(names, nameSuffix.ReplaceAllString(name, ""))
}

// Ensure creates or updates the workspace of an owner and returns it. It writes
// nothing if the workspace is as desired already.
func (k *Keeper) Ensure(ctx context.Context, owner client.Object, desired Desired) (*infrav1.WorkspaceTemplateApply, error) {
	found, err := k.Find(ctx, owner)
	if err != nil {
		return nil, err
	}
	name := ""
	if found != nil {
		name = found.Name
	} else if name, err = k.freeName(ctx, owner, desired.Name); err != nil {
		return nil, err
	}
	if found != nil && !found.DeletionTimestamp.IsZero() {
		// Finalizers cannot be added any more, and nothing will be applied.
		return found, nil
	}
	apply, err := Render(k.Client.Scheme(), owner, name, desired)
	if err != nil {
		return nil, err
	}
	if found != nil && matchesDesired(found, apply) {
		return found, nil
	}
	body, err := toUnstructured(apply)
	if err != nil {
		return nil, err
	}
	if found != nil {
		// If this manager was suspended, the name may belong to the workspace of another owner
		// now. The API server refuses another UID.
		body.SetUID(found.UID)
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

// freeName returns the name of a new workspace. The preferred name can belong to
// another cluster: with clusters a and a-vpc, the VPC of the first has the name of
// the control plane of the second.
func (k *Keeper) freeName(ctx context.Context, owner client.Object, preferred string) (string, error) {
	if err := k.checkTaken(ctx, owner); err != nil {
		return "", err
	}
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
	return "", fault.Stall(infrav1.WorkspaceNameTakenReason, "WorkspaceTemplateApply %s exists and has another owner: delete or rename it", preferred)
}

// Render returns the desired workspace of an owner with a name.
func Render(scheme *runtime.Scheme, owner client.Object, name string, desired Desired) (*infrav1.WorkspaceTemplateApply, error) {
	apply := &infrav1.WorkspaceTemplateApply{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: owner.GetNamespace(), Name: name,
			Finalizers: []string{infrav1.WorkspaceHeldFinalizer},
			Labels:     map[string]string{clusterv1.ClusterNameLabel: desired.Cluster},
		},
		Spec: *desired.Spec.DeepCopy(),
	}
	desired.Settings.ApplyTo(&apply.Spec)
	if filter, found := owner.GetLabels()[clusterv1.WatchLabel]; found {
		apply.Labels[clusterv1.WatchLabel] = filter
	}
	if desired.Connection != nil {
		apply.Spec.WriteConnectionSecretToRef = &infrav1.ObjectReference{Name: desired.Connection(name)}
	}
	if err := controllerutil.SetControllerReference(owner, apply, scheme); err != nil {
		return nil, fmt.Errorf("owning workspace %s: %w", name, err)
	}
	text, err := json.Marshal(apply)
	if err != nil {
		return nil, fmt.Errorf("encoding workspace %s: %w", name, err)
	}
	sum := sha256.Sum256(text)
	apply.Annotations = map[string]string{desiredAnnotation: hex.EncodeToString(sum[:8])}
	return apply, nil
}

// matchesDesired reports whether a workspace has all desired fields, and none that
// were removed from the desired state.
func matchesDesired(found, desired *infrav1.WorkspaceTemplateApply) bool {
	have, err := toUnstructured(found)
	if err != nil {
		return false
	}
	want, err := toUnstructured(desired)
	if err != nil {
		return false
	}
	// Users can protect further resources.
	unstructured.RemoveNestedField(want.Object, "spec", "protect")
	return sets.New(found.Spec.Protect...).HasAll(desired.Spec.Protect...) &&
		found.Annotations[desiredAnnotation] == desired.Annotations[desiredAnnotation] &&
		contains(have.Object["spec"], want.Object["spec"]) && hasController(found, desired) &&
		labels.SelectorFromSet(desired.Labels).Matches(labels.Set(found.Labels)) &&
		controllerutil.ContainsFinalizer(found, infrav1.WorkspaceHeldFinalizer)
}

// contains reports whether decoded JSON equals want, except for additional keys of
// objects.
func contains(have, want any) bool {
	desired, isMap := want.(map[string]any)
	if !isMap {
		return reflect.DeepEqual(have, want)
	}
	observed, _ := have.(map[string]any)
	for key, value := range desired {
		if !contains(observed[key], value) {
			return false
		}
	}
	return true
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

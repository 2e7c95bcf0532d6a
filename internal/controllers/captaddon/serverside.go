package captaddon

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/csaupgrade"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	"github.com/appthrust/capt/internal/addon/render"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// applyContent applies the rendered content to the workload cluster with server-side
// apply. Cluster API only installs it: its merge patch would remove the finalizers,
// labels and annotations that others added.
func (r *Reconciler) applyContent(ctx context.Context, s *scope, in *installation) error {
	c, err := r.Clusters.GetUncachedClient(ctx, in.key(s))
	if err != nil {
		return connectionError(err)
	}
	rendered, err := r.renderData(ctx, s, in, render.Round(in.secret))
	if err != nil {
		return err
	}
	if rendered.Hash != in.rendered.Hash {
		return fault.WaitFor(time.Second, addonsv1.ApplyingReason, "The content changed while it was applied")
	}
	// An object that is rejected does not prevent the others, such as its CRD.
	var errs []error
	in.rendered.applied = map[render.Object]version{}
	objects, err := parseData(rendered.Data)
	if err != nil {
		return err
	}
	for _, obj := range objects {
		identity := render.IdentityOf(obj)
		if err := applyObject(ctx, c, obj, in.createdFromOtherContent()); err != nil {
			errs = append(errs, err)
			continue
		}
		in.rendered.applied[identity] = version{uid: obj.GetUID(), generation: obj.GetGeneration()}
	}
	for _, err := range errs {
		if rejected, found := errors.AsType[*problem](err); found {
			return rejected
		}
	}
	return errors.Join(errs...)
}

// createdFromOtherContent reports whether Cluster API may have created objects from other
// content than the present one: it creates an object once, and changes it never again.
func (in *installation) createdFromOtherContent() bool {
	return in.previous.AppliedHash != "" || in.secret != nil && in.secret.Annotations[addonsv1.ContentReplacedAnnotation] != ""
}

// applyObject applies an object, which becomes the one in the cluster. The controller takes
// over the fields that Cluster API set: all of them if Cluster API may have created it from
// other content, whose remaining fields are removed, and else those that the content has.
// It returns a problem if the cluster rejects the object.
func applyObject(ctx context.Context, c client.Client, obj *unstructured.Unstructured, otherContent bool) error {
	var err error
	if otherContent {
		err = takeOver(ctx, c, render.IdentityOf(obj))
	}
	if err == nil {
		err = c.Apply(ctx, client.ApplyConfigurationFromUnstructured(obj), client.FieldOwner(fieldManager), client.ForceOwnership)
	}
	if err == nil {
		err = share(ctx, c, obj)
	}
	if err == nil {
		return nil
	}
	return rejection(obj, err)
}

// rejection returns the problem of an object that the cluster rejects, and other errors without
// what may be secret.
func rejection(obj *unstructured.Unstructured, err error) error {
	switch {
	case apimeta.IsNoMatchError(err):
		return &problem{
			reason: addonsv1.ApplyFailedReason, failed: true,
			message: fmt.Sprintf("%s: its kind is not installed: add the add-on that installs the CRD to dependsOn", render.IdentityOf(obj)),
		}
	case apierrors.IsInternalError(err), apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsForbidden(err), apierrors.IsNotFound(err), apierrors.IsMethodNotSupported(err):
		return &problem{
			reason: addonsv1.ApplyFailedReason, failed: true,
			message: fmt.Sprintf("%s %s was rejected: %s", obj.GetKind(), obj.GetName(), withoutSecrets(obj, err)),
		}
	default:
		return fmt.Errorf("applying %s: %s", render.IdentityOf(obj), withoutSecrets(obj, err))
	}
}

// takeOver makes this controller the manager of the fields that Cluster API set, so
// that a field that the content no longer has is removed.
func takeOver(ctx context.Context, c client.Client, object render.Object) error {
	current := object.Unstructured()
	if err := c.Get(ctx, client.ObjectKey{Namespace: object.Namespace, Name: object.Name}, current); err != nil {
		return client.IgnoreNotFound(err)
	}
	managers := labelManagers(current.GetManagedFields())
	if managers.Len() == 0 {
		return nil
	}
	if err := csaupgrade.UpgradeManagedFields(current, managers, fieldManager); err != nil {
		return fmt.Errorf("reading the managed fields: %w", err)
	}
	fields := current.GetManagedFields()
	for i := range fields {
		if isApplied(fields[i]) {
			// Content without a finalizer must not remove it: its owner would not clean up.
			isFinalizer := func(path fieldpath.Path) bool { return strings.HasPrefix(path.String(), ".metadata.finalizers") }
			if _, err := drop(&fields[i], isFinalizer); err != nil {
				return err
			}
		}
	}
	return patchManagedFields(ctx, c, current, fields)
}

// share leaves Cluster API only the fields that the content does not have. Other
// controllers have the same name, manager, and one entry with it: what they set stays.
func share(ctx context.Context, c client.Client, applied *unstructured.Unstructured) error {
	fields := applied.GetManagedFields()
	managers := labelManagers(fields)
	if managers.Len() == 0 {
		return nil
	}
	mine := &fieldpath.Set{}
	for _, entry := range fields {
		if isApplied(entry) {
			var err error
			if mine, err = fieldsOf(entry); err != nil {
				return err
			}
		}
	}
	// A field is part of the content if it has the field, or one below it.
	isMine := func(path fieldpath.Path) bool {
		below := mine
		for _, element := range path {
			below = below.WithPrefix(element)
		}
		return !below.Empty() || mine.Has(path)
	}
	var kept []metav1.ManagedFieldsEntry
	for _, entry := range fields {
		if isUpdate(entry) && managers.Has(entry.Manager) {
			others, err := drop(&entry, isMine)
			if err != nil {
				return err
			}
			if !others {
				continue
			}
		}
		kept = append(kept, entry)
	}
	return patchManagedFields(ctx, c, applied.DeepCopy(), kept)
}

// fieldsOf returns the fields of a manager.
func fieldsOf(entry metav1.ManagedFieldsEntry) (*fieldpath.Set, error) {
	fields := &fieldpath.Set{}
	if err := fields.FromJSON(bytes.NewReader(entry.FieldsV1.GetRawBytes())); err != nil {
		return nil, fmt.Errorf("reading the managed fields: %w", err)
	}
	return fields, nil
}

// drop removes fields of a manager, and reports whether it has others.
func drop(entry *metav1.ManagedFieldsEntry, isDropped func(fieldpath.Path) bool) (others bool, err error) {
	fields, err := fieldsOf(*entry)
	if err != nil {
		return false, err
	}
	rest := &fieldpath.Set{}
	fields.Iterate(func(path fieldpath.Path) {
		if !isDropped(path) {
			rest.Insert(path.Copy())
		}
	})
	text, err := rest.ToJSON()
	if err != nil {
		return false, fmt.Errorf("encoding the managed fields: %w", err)
	}
	entry.FieldsV1 = metav1.NewFieldsV1(string(text))
	return !rest.Empty(), nil
}

// patchManagedFields writes the managed fields of an object. It fails if the object changed
// meanwhile.
func patchManagedFields(ctx context.Context, c client.Client, obj *unstructured.Unstructured, fields []metav1.ManagedFieldsEntry) error {
	patch, err := json.Marshal([]map[string]any{
		{"op": "replace", "path": "/metadata/managedFields", "value": fields},
		{"op": "replace", "path": "/metadata/resourceVersion", "value": obj.GetResourceVersion()},
	})
	if err != nil {
		return fmt.Errorf("encoding the managed fields: %w", err)
	}
	return c.Patch(ctx, obj, client.RawPatch(types.JSONPatchType, patch))
}

// isUpdate reports whether managed fields are those of a manager that created or updated
// the object itself.
func isUpdate(entry metav1.ManagedFieldsEntry) bool {
	return entry.Operation == metav1.ManagedFieldsOperationUpdate && entry.Subresource == "" && entry.FieldsV1 != nil
}

// isApplied reports whether managed fields are those that this controller applied.
func isApplied(entry metav1.ManagedFieldsEntry) bool {
	return entry.Operation == metav1.ManagedFieldsOperationApply && entry.Manager == fieldManager
}

// labelManagers returns the managers that created or updated an object with the label
// of the add-on: Cluster API. Others that changed the object did not set this label.
func labelManagers(fields []metav1.ManagedFieldsEntry) sets.Set[string] {
	managers := sets.New[string]()
	for _, entry := range fields {
		if !isUpdate(entry) {
			continue
		}
		if owned, err := fieldsOf(entry); err == nil && owned.Has(addonLabel) {
			managers.Insert(entry.Manager)
		}
	}
	return managers
}

// addonLabel is the path of the label of the add-on.
var addonLabel = fieldpath.MakePathOrDie("metadata", "labels", addonsv1.AddonLabel)

// Package render turns an add-on and the Terraform outputs of a cluster into the
// manifests for that cluster, and checks the objects in the cluster. It is pure:
// it performs no I/O, and results depend on the arguments alone.
package render

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// Rendered are the manifests of one cluster.
type Rendered struct {
	// Data are the manifests by key. Cluster API applies them in the order of the
	// keys.
	Data map[string][]byte
	// Hash is the hash that Cluster API records after it applied the data.
	Hash string
	// Objects are the objects in the data, in the same order.
	Objects []Object
	// Secrets are the DataDigests of the Secrets among the objects.
	Secrets map[Object]map[string]string
	// Release is nil if the add-on has no Helm release.
	Release *Release
}

// Object identifies an object in a workload cluster.
type Object struct {
	schema.GroupVersionKind

	Namespace, Name string
}

// String returns kind, namespace and name.
func (o Object) String() string {
	if o.Namespace == "" {
		return o.Kind + " " + o.Name
	}
	return o.Kind + " " + o.Namespace + "/" + o.Name
}

// Unstructured returns an object that has nothing but its identity.
func (o Object) Unstructured() *unstructured.Unstructured {
	return newObject(o.GroupVersion().String(), o.Kind, o.Namespace, o.Name, nil)
}

// IdentityOf returns the identity of an object.
func IdentityOf(obj *unstructured.Unstructured) Object {
	return Object{GroupVersionKind: obj.GroupVersionKind(), Namespace: obj.GetNamespace(), Name: obj.GetName()}
}

// Render returns the manifests for one cluster. Its errors are faults, the cause of which
// is in the add-on or in its sources.
func Render(in Input) (*Rendered, error) {
	values, err := in.placeholders()
	if err != nil {
		return nil, err
	}
	b := &budget{}
	r := &Rendered{Data: map[string][]byte{}, Secrets: map[Object]map[string]string{}}
	for i, source := range in.Addon.Spec.Manifests {
		objects, err := in.manifests(source, values, b)
		if err != nil {
			return nil, err
		}
		if err := r.add(fmt.Sprintf("m%02d-%s.yaml", i, source.Name), in, objects, b); err != nil {
			return nil, err
		}
	}
	if in.Addon.Spec.Helm != nil {
		objects, release, err := in.release(values, b)
		if err != nil {
			return nil, err
		}
		r.Release = release
		objects = slices.DeleteFunc(objects, func(obj *unstructured.Unstructured) bool {
			return slices.Contains(r.Objects, IdentityOf(obj))
		})
		if err := r.add("r-release.yaml", in, objects, b); err != nil {
			return nil, err
		}
	}
	if len(r.Data) == 0 {
		return nil, fault.Stall(addonsv1.EmptyReason, "Add-on %s: its manifests contain no objects", in.Addon.Name)
	}
	r.Hash = Hash(r.Data)
	return r, nil
}

// add labels objects with the add-on and stores them under a key. The header makes the text longer
// than the 32 bytes that Cluster API requires, and has the round: Cluster API applies content only
// if its hash changed.
func (r *Rendered) add(key string, in Input, objects []*unstructured.Unstructured, b *budget) error {
	if len(objects) == 0 {
		return nil
	}
	text := &limitedText{budget: b}
	fmt.Fprintf(text, "# Rendered for Cluster %s by CAPTAddon %s, round %s.\n", in.Cluster.Name, in.Addon.Name, roundID(in))
	for _, obj := range objects {
		labels := obj.GetLabels()
		if labels == nil {
			labels = map[string]string{}
		}
		labels[addonsv1.AddonLabel] = in.Addon.Name
		obj.SetLabels(labels)
		switch err := text.add(obj); {
		case errors.Is(err, errTooLarge):
			return fault.Stall(addonsv1.TooLargeReason, "Add-on %s: its manifests have more than %d KiB, which is what a Secret holds: split them into two add-ons with dependsOn, or nest them less deeply",
				in.Addon.Name, maxBytes>>10)
		case err != nil:
			return fault.Stall(addonsv1.TooLargeReason, "Add-on %s: %s cannot be read again with the values of its placeholders: %v. Use shorter outputs", in.Addon.Name, key, err)
		}
		r.Objects = append(r.Objects, IdentityOf(obj))
		if obj.GetKind() == "Secret" && obj.Object["stringData"] == nil {
			r.Secrets[IdentityOf(obj)] = DataDigests(obj)
		}
	}
	r.Data[key] = text.Bytes()
	return nil
}

// SameContent reports whether two rendered contents differ in nothing but their headers.
func SameContent(a, b map[string][]byte) bool {
	return maps.EqualFunc(a, b, func(a, b []byte) bool {
		_, first, _ := bytes.Cut(a, []byte("\n"))
		_, second, _ := bytes.Cut(b, []byte("\n"))
		return bytes.Equal(first, second)
	})
}

// roundID identifies one application of the same content: by the round and by
// the value of the trigger annotation.
func roundID(in Input) string {
	if trigger := in.Addon.Annotations[addonsv1.TriggerAnnotation]; trigger != "" {
		return fmt.Sprintf("%d-%s", in.Round, digest(trigger))
	}
	return fmt.Sprint(in.Round)
}

// Hash returns the hash of data as Cluster API computes it: over the values in
// the order of their keys.
func Hash(data map[string][]byte) string {
	sum := sha256.New()
	for _, key := range slices.Sorted(maps.Keys(data)) {
		sum.Write(data[key])
	}
	return fmt.Sprintf("sha256:%x", sum.Sum(nil))
}

// DataDigests returns the digests of the values of a Secret by their keys, to compare
// Secrets.
func DataDigests(secret *unstructured.Unstructured) map[string]string {
	data, _, err := unstructured.NestedStringMap(secret.Object, "data")
	if err != nil {
		return nil
	}
	digests := map[string]string{}
	for key, value := range data {
		if name, dropped := strings.CutPrefix(key, digestPrefix); dropped {
			digests[name] = value
			continue
		}
		// A manifest may wrap the lines of base64. The API server does not.
		if decoded, err := base64.StdEncoding.DecodeString(value); err == nil {
			value = string(decoded)
		}
		digests[key] = digest(value)
	}
	return digests
}

// digestPrefix is the prefix of the keys of digests in a Secret without its data. No
// Secret of an API server has it: the API server refuses such a key.
const digestPrefix = "digest:"

// DropData replaces the data of a Secret by its DataDigests.
func DropData(secret *unstructured.Unstructured) {
	data := map[string]any{}
	for key, value := range DataDigests(secret) {
		data[digestPrefix+key] = value
	}
	secret.Object["data"] = data
}

// digest returns a short hash of texts.
func digest(parts ...string) string {
	return fmt.Sprintf("%x", sha256.Sum256([]byte(strings.Join(parts, "\x00"))))[:16]
}

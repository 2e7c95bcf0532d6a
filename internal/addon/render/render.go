package render

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// mostBytes is how large all manifests of a cluster may be: they are kept in one
// Secret.
const mostBytes = 900 << 10

// Render makes the manifests of one cluster. Its errors are faults: what is
// wrong is in the add-on or in its sources.
func Render(in Input) (*Rendered, error) {
	values, err := in.values()
	if err != nil {
		return nil, err
	}
	r := &Rendered{Data: map[string][]byte{}, Secrets: map[Object]string{}}
	for i, source := range in.Addon.Spec.Manifests {
		objects, err := in.manifests(source, values)
		if err != nil {
			return nil, err
		}
		if err := r.add(fmt.Sprintf("m%02d-%s.yaml", i, source.Name), in.Addon, objects); err != nil {
			return nil, err
		}
	}
	if in.Addon.Spec.Helm != nil {
		objects, release, err := in.release(values)
		if err != nil {
			return nil, err
		}
		r.Release = release
		objects = slices.DeleteFunc(objects, func(obj *unstructured.Unstructured) bool {
			return slices.Contains(r.Objects, identity(obj))
		})
		if err := r.add("r-release.yaml", in.Addon, objects); err != nil {
			return nil, err
		}
	}
	return r, r.seal(in)
}

// add appends objects under a key.
func (r *Rendered) add(key string, addon *addonsv1.CAPTAddon, objects []*unstructured.Unstructured) error {
	var text bytes.Buffer
	for _, obj := range objects {
		labels := obj.GetLabels()
		if labels == nil {
			labels = map[string]string{}
		}
		labels[addonsv1.AddonLabel] = addon.Name
		obj.SetLabels(labels)
		document, err := yaml.Marshal(obj.Object)
		if err != nil {
			return fmt.Errorf("encoding %s: %w", obj.GetName(), err)
		}
		text.WriteString("---\n")
		text.Write(document)
		r.Objects = append(r.Objects, identity(obj))
		if obj.GetKind() == "Secret" && obj.Object["stringData"] == nil {
			r.Secrets[identity(obj)] = DataDigest(obj)
		}
	}
	if len(objects) > 0 {
		r.Data[key] = text.Bytes()
	}
	return nil
}

func identity(obj *unstructured.Unstructured) Object {
	return Object{GroupVersionKind: obj.GroupVersionKind(), Namespace: obj.GetNamespace(), Name: obj.GetName()}
}

// seal heads every text by where it comes from, which also keeps it above the
// 32 bytes that Cluster API needs, and takes the hash. The round is in the head,
// for Cluster API applies again what has another hash.
func (r *Rendered) seal(in Input) error {
	head := fmt.Sprintf("# Rendered for Cluster %s by CAPTAddon %s, round %s.\n", in.Cluster.Name, in.Addon.Name, round(in))
	size := 0
	for key, text := range r.Data {
		r.Data[key] = append([]byte(head), text...)
		size += len(r.Data[key])
	}
	if len(r.Data) == 0 {
		return fault.Stall(addonsv1.EmptyReason, "Add-on %s: its manifests hold no object", in.Addon.Name)
	}
	if size > mostBytes {
		return fault.Stall(addonsv1.TooLargeReason, "Add-on %s: its manifests are %d KiB, more than the %d KiB that fit into a Secret: divide them over two add-ons with dependsOn",
			in.Addon.Name, size>>10, mostBytes>>10)
	}
	r.Hash = Hash(r.Data)
	return nil
}

// round tells one application of the same content from the next.
func round(in Input) string {
	if trigger := in.Addon.Annotations[addonsv1.TriggerAnnotation]; trigger != "" {
		return fmt.Sprintf("%d-%s", in.Round, digest(trigger))
	}
	return fmt.Sprint(in.Round)
}

// Hash is how Cluster API computes the hash of what it applies: over the values
// in the order of their keys.
func Hash(data map[string][]byte) string {
	sum := sha256.New()
	for _, key := range slices.Sorted(maps.Keys(data)) {
		sum.Write(data[key])
	}
	return fmt.Sprintf("sha256:%x", sum.Sum(nil))
}

// DataDigest tells whether the data of two Secrets are the same.
func DataDigest(secret *unstructured.Unstructured) string {
	data, _, err := unstructured.NestedStringMap(secret.Object, "data")
	if err != nil {
		return ""
	}
	var parts []string
	for _, key := range slices.Sorted(maps.Keys(data)) {
		parts = append(parts, key, data[key])
	}
	return digest(parts...)
}

// digest is a short name for a text.
func digest(parts ...string) string {
	return fmt.Sprintf("%x", sha256.Sum256([]byte(strings.Join(parts, "\x00"))))[:16]
}

func join(names []string) string { return strings.Join(names, ", ") }

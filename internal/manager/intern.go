package manager

import (
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// maxInterned limits the texts that are shared. When there are more, sharing begins
	// anew.
	maxInterned = 4096
	// maxInternedText limits the length of one. Longer ones rarely repeat.
	maxInternedText = 128
)

// texts shares equal texts of the objects in a cache. Labels, kinds and conditions repeat
// in thousands of objects, and each decoded object has copies of its own.
type texts struct {
	mu    sync.Mutex
	known map[string]string
}

// compact returns a transformation of cached objects that shares what repeats, and removes
// the managed fields.
func (t *texts) compact(next toolscache.TransformFunc) toolscache.TransformFunc {
	return func(in any) (any, error) {
		if obj, ok := in.(client.Object); ok {
			obj.SetManagedFields(nil)
		}
		if next != nil {
			var err error
			if in, err = next(in); err != nil {
				return nil, err
			}
		}
		if obj, ok := in.(client.Object); ok {
			t.share(obj)
		}
		return in, nil
	}
}

// share replaces the texts of an object that repeat.
func (t *texts) share(obj client.Object) {
	t.mu.Lock()
	defer t.mu.Unlock()
	obj.SetNamespace(t.intern(obj.GetNamespace()))
	obj.SetLabels(t.internLabels(obj.GetLabels()))
	finalizers := obj.GetFinalizers()
	for i := range finalizers {
		finalizers[i] = t.intern(finalizers[i])
	}
	owners := obj.GetOwnerReferences()
	for i := range owners {
		owners[i].APIVersion, owners[i].Kind, owners[i].Name = t.intern(owners[i].APIVersion), t.intern(owners[i].Kind), t.intern(owners[i].Name)
	}
	if withConditions, ok := obj.(conditions.Setter); ok {
		// A decoder leaves room for more.
		found := slices.Clone(withConditions.GetConditions())
		for i := range found {
			c := &found[i]
			c.Type, c.Reason, c.Message = t.intern(c.Type), t.intern(c.Reason), t.intern(c.Message)
			c.Status = metav1.ConditionStatus(t.intern(string(c.Status)))
		}
		withConditions.SetConditions(found)
	}
}

// internLabels returns the same labels. A map keeps the keys with which it was made.
func (t *texts) internLabels(labels map[string]string) map[string]string {
	if len(labels) == 0 {
		return labels
	}
	shared := make(map[string]string, len(labels))
	for key, value := range labels {
		shared[t.intern(key)] = t.intern(value)
	}
	return shared
}

// intern returns the first text that is equal.
func (t *texts) intern(text string) string {
	if text == "" || len(text) > maxInternedText {
		return text
	}
	if known, found := t.known[text]; found {
		return known
	}
	if t.known == nil || len(t.known) >= maxInterned {
		t.known = map[string]string{}
	}
	// The text may be a part of a longer one.
	text = strings.Clone(text)
	t.known[text] = text
	return text
}

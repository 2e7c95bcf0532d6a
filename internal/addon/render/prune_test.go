package render

import (
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func identity(group, version, kind, namespace, name string) Object {
	return Object{GroupVersionKind: schema.GroupVersionKind{Group: group, Version: version, Kind: kind}, Namespace: namespace, Name: name}
}

func TestDropped_returnsObjectsThatAreNotInTheNewContent(t *testing.T) {
	one, two := identity("", "v1", "ConfigMap", "a", "one"), identity("", "v1", "ConfigMap", "a", "two")
	for name, c := range map[string]struct{ before, after, dropped []Object }{
		"nothing before":    {nil, []Object{one}, nil},
		"another name":      {[]Object{one}, []Object{two}, []Object{one}},
		"another group":     {[]Object{identity("g", "v1", "K", "a", "x")}, []Object{identity("h", "v1", "K", "a", "x")}, []Object{identity("g", "v1", "K", "a", "x")}},
		"the same":          {[]Object{one, two}, []Object{two, one}, nil},
		"one is dropped":    {[]Object{one, two}, []Object{two}, []Object{one}},
		"another namespace": {[]Object{one}, []Object{identity("", "v1", "ConfigMap", "b", "one")}, []Object{one}},
		"another kind":      {[]Object{one}, []Object{identity("", "v1", "Secret", "a", "one")}, []Object{one}},
		"another version":   {[]Object{identity("g", "v1beta1", "K", "a", "x")}, []Object{identity("g", "v1", "K", "a", "x")}, nil},
		"duplicate":         {[]Object{one, one}, nil, []Object{one}},
	} {
		NewWithT(t).Expect(Dropped(c.before, c.after)).To(Equal(c.dropped), name)
	}
}

func TestEncodeObjects_roundTrips(t *testing.T) {
	g := NewWithT(t)
	objects := []Object{identity("", "v1", "ConfigMap", "a", "one"), identity("rbac.authorization.k8s.io", "v1", "ClusterRole", "", "two")}
	text, err := EncodeObjects(objects)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(DecodeObjects(text)).To(Equal(objects))
	g.Expect(EncodeObjects(nil)).To(BeEmpty())
	g.Expect(DecodeObjects("")).To(BeEmpty())
	_, err = DecodeObjects("[{")
	g.Expect(err).To(HaveOccurred())
}

func TestObjectsOf_skipsInvalidTexts(t *testing.T) {
	g := NewWithT(t)
	data := map[string][]byte{
		"a": []byte("# head\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: one, namespace: a}\n"),
		"b": []byte("edited: {"),
	}
	g.Expect(ObjectsOf(data)).To(Equal([]Object{identity("", "v1", "ConfigMap", "a", "one")}))
}

func TestObject_hasIdentityAndName(t *testing.T) {
	g := NewWithT(t)
	role := identity("rbac.authorization.k8s.io", "v1", "ClusterRole", "", "reader")
	g.Expect(role.String()).To(Equal("ClusterRole reader"))
	g.Expect(identity("", "v1", "Secret", "ns", "s").String()).To(Equal("Secret ns/s"))
	g.Expect(IdentityOf(role.Unstructured())).To(Equal(role))
	g.Expect(role.Unstructured().Object["metadata"]).NotTo(HaveKey("namespace"))
}

package render

import (
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func thing(group, version, kind, namespace, name string) Object {
	return Object{GroupVersionKind: schema.GroupVersionKind{Group: group, Version: version, Kind: kind}, Namespace: namespace, Name: name}
}

func TestDropped_isWhatTheNewContentLacks(t *testing.T) {
	one, two := thing("", "v1", "ConfigMap", "a", "one"), thing("", "v1", "ConfigMap", "a", "two")
	for name, c := range map[string]struct{ before, after, dropped []Object }{
		"nothing before":                 {nil, []Object{one}, nil},
		"the same":                       {[]Object{one, two}, []Object{two, one}, nil},
		"one goes":                       {[]Object{one, two}, []Object{two}, []Object{one}},
		"one moves to another namespace": {[]Object{one}, []Object{thing("", "v1", "ConfigMap", "b", "one")}, []Object{one}},
		"one is of another kind":         {[]Object{one}, []Object{thing("", "v1", "Secret", "a", "one")}, []Object{one}},
		"one is of another version":      {[]Object{thing("g", "v1beta1", "K", "a", "x")}, []Object{thing("g", "v1", "K", "a", "x")}, nil},
		"named twice":                    {[]Object{one, one}, nil, []Object{one}},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(Dropped(c.before, c.after)).To(Equal(c.dropped))
		})
	}
}

func TestWriteObjects_isReadBack(t *testing.T) {
	g := NewWithT(t)
	objects := []Object{thing("", "v1", "ConfigMap", "a", "one"), thing("rbac.authorization.k8s.io", "v1", "ClusterRole", "", "two")}
	text, err := WriteObjects(objects)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(ReadObjects(text)).To(Equal(objects))
	g.Expect(WriteObjects(nil)).To(BeEmpty())
	g.Expect(ReadObjects("")).To(BeEmpty())
	_, err = ReadObjects("[{")
	g.Expect(err).To(HaveOccurred())
}

func TestObjectsOf_leavesOutWhatCannotBeRead(t *testing.T) {
	g := NewWithT(t)
	data := map[string][]byte{
		"a": []byte("# head\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: one, namespace: a}\n"),
		"b": []byte("edited: {"),
	}
	g.Expect(ObjectsOf(data)).To(Equal([]Object{thing("", "v1", "ConfigMap", "a", "one")}))
}

package render

import (
	"maps"
	"slices"
	"testing"
	"unicode/utf8"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	"github.com/appthrust/capt/internal/kubernetes/manifest"
)

// A module writes the outputs that add-ons use. Whatever they are, a value stays in its field:
// the objects are the same.
func FuzzOutput(f *testing.F) {
	for _, seed := range []string{
		"", "vpc-1", "a\n---\napiVersion: v1\nkind: Secret\nmetadata: {name: x}", "\"}", "${CLUSTER_NAME}", "{{ .Values }}", "null", `{"kind":"List"}`, "\x00\xff", "&a [*a]", "2001-01-01", "1e999", "\tall:\n\tmake",
	} {
		f.Add(seed)
	}
	rendered := func(value string) (*Rendered, error) {
		addon := karpenter()
		addon.Spec.Connection = &addonsv1.ConnectionSource{Keys: []string{"vpc"}}
		addon.Spec.Manifests = []addonsv1.ManifestSource{{Name: "m", Inline: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: fixed, namespace: default}\ndata: {a: \"${vpc}\", b: \"x-${vpc}-y\"}\n"}}
		return Render(input(addon, map[string]string{"vpc": value, "cluster_name": value, "role": "{}", "queue": value, "extra": value}))
	}
	plain, err := rendered("plain")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, value string) {
		r, err := rendered(value)
		if err != nil {
			return
		}
		if !slices.Equal(r.Objects, plain.Objects) {
			t.Fatalf("%q makes the objects %v instead of %v", value, r.Objects, plain.Objects)
		}
		var found []Object
		for _, key := range slices.Sorted(maps.Keys(r.Data)) {
			parsed, err := manifest.Parse(r.Data[key])
			if err != nil {
				t.Fatalf("%q cannot be read: %v", r.Data[key], err)
			}
			for _, obj := range parsed {
				found = append(found, IdentityOf(obj))
				data, _ := obj.Object["data"].(map[string]any)
				if obj.GetName() == "fixed" && utf8.ValidString(value) && data["b"] != "x-"+value+"-y" {
					t.Fatalf("%q became %v", value, data)
				}
			}
		}
		if !slices.Equal(found, plain.Objects) {
			t.Fatalf("%q is read as the objects %v instead of %v", value, found, plain.Objects)
		}
	})
}

package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// strict makes the server reject unknown fields, as kubectl does.
const strict = client.FieldValidation("Strict")

// refusals are the bad manifests of one kind. Each is an object that is valid without
// the change.
type refusals struct {
	Object map[string]any `json:"object"`
	Cases  []refusal      `json:"cases"`
}

type refusal struct {
	// Name describes the problem.
	Name string `json:"name"`
	// Change is merged into the object before it is created.
	Change map[string]any `json:"change"`
	// Status is merged into the created object's status.
	Status map[string]any `json:"status"`
	// Update is merged into the created object. If it is empty, the creation must be
	// rejected.
	Update map[string]any `json:"update"`
	// Want are parts of the message: the field and the fix.
	Want []string `json:"want"`
}

func TestBadManifests_areRejectedWithHelpfulMessages(t *testing.T) {
	kinds := map[string]bool{}
	total := 0
	var messages []string
	for _, path := range files(t, filepath.Join("test", "api", "testdata", "bad")) {
		var r refusals
		decode(t, path, &r)
		kind, _ := r.Object["kind"].(string)
		kinds[kind] = true
		total += len(r.Cases)
		ns := env.Namespace(t)
		t.Run(kind, func(t *testing.T) {
			g := NewWithT(t)
			g.Expect(env.Client.Create(context.Background(), object(t, r.Object, nil, ns), strict)).To(Succeed(),
				"the object must be accepted without the changes")
			for i, c := range r.Cases {
				t.Run(c.Name, func(t *testing.T) {
					messages = append(messages, expectRefusal(t, r.Object, c, ns, i))
				})
			}
		})
	}
	if len(messages) < total {
		t.Skip("not all cases ran, so the coverage is not known")
	}
	t.Run("at least a hundred of them", func(t *testing.T) {
		NewWithT(t).Expect(total).To(BeNumerically(">=", 100))
	})
	t.Run("for every kind", func(t *testing.T) {
		for _, crd := range crds(t) {
			NewWithT(t).Expect(kinds).To(HaveKey(crd.Spec.Names.Kind))
		}
	})
	t.Run("for every CEL rule", func(t *testing.T) { expectEveryRule(t, messages) })
}

// expectRefusal checks that a bad manifest is rejected and returns the message.
func expectRefusal(t *testing.T, base map[string]any, c refusal, ns string, number int) string {
	t.Helper()
	g := NewWithT(t)
	ctx := context.Background()
	g.Expect(c.Want).NotTo(BeEmpty(), "want must not be empty")
	obj := object(t, base, c.Change, ns)

	var err error
	if c.Update == nil {
		err = env.Client.Create(ctx, obj, strict, client.DryRunAll)
	} else {
		selfName := obj.GetName()
		obj.SetName(fmt.Sprintf("%s-%d", selfName, number))
		update := strings.ReplaceAll(asJSON(t, c.Update), `"`+selfName+`"`, `"`+obj.GetName()+`"`)
		g.Expect(env.Client.Create(ctx, obj, strict)).To(Succeed(), "the object must be accepted before the update")
		if c.Status != nil {
			status := asJSON(t, map[string]any{"status": c.Status})
			g.Expect(env.Client.Status().Patch(ctx, obj, client.RawPatch(types.MergePatchType, []byte(status)))).To(Succeed())
		}
		err = env.Client.Patch(ctx, obj, client.RawPatch(types.MergePatchType, []byte(update)), strict)
	}
	g.Expect(err).To(HaveOccurred(), "the manifest must be rejected")
	for _, want := range c.Want {
		g.Expect(err.Error()).To(ContainSubstring(want))
	}
	t.Log(err)
	return err.Error()
}

// expectEveryRule fails for CEL rules without a message, or whose message no case
// covers.
func expectEveryRule(t *testing.T, messages []string) {
	t.Helper()
	all := strings.Join(messages, "\n")
	missing := map[string]string{}
	for _, crd := range crds(t) {
		for _, version := range crd.Spec.Versions {
			walk(crd.Spec.Names.Kind, version.Schema.OpenAPIV3Schema, func(path string, schema *apiextensionsv1.JSONSchemaProps) {
				for _, rule := range schema.XValidations {
					if rule.Message == "" {
						t.Errorf("%s: the rule %s has no message", path, rule.Rule)
					} else if !strings.Contains(all, rule.Message) {
						missing[rule.Message] = path
					}
				}
			})
		}
	}
	for message, path := range maps.All(missing) {
		t.Errorf("%s: no bad manifest violates the rule %q", path, message)
	}
}

// object merges a change into an object.
func object(t *testing.T, base, change map[string]any, ns string) *unstructured.Unstructured {
	t.Helper()
	merged, err := jsonpatch.MergePatch([]byte(asJSON(t, base)), []byte(asJSON(t, change)))
	if err != nil {
		t.Fatal(err)
	}
	obj := &unstructured.Unstructured{}
	if err := json.Unmarshal(merged, &obj.Object); err != nil {
		t.Fatal(err)
	}
	obj.SetNamespace(ns)
	return obj
}

func asJSON(t *testing.T, v map[string]any) string {
	t.Helper()
	if v == nil {
		return "{}"
	}
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

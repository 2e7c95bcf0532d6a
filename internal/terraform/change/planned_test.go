package change_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/change"
)

func planned(t *testing.T, plan string) []change.Planned {
	t.Helper()
	var found []change.Planned
	NewWithT(t).Expect(change.ReadPlanned(strings.NewReader(plan), false, func(p change.Planned) error {
		found = append(found, p)
		return nil
	})).To(Succeed())
	return found
}

func TestReadPlanned_showsWhatIsKnownAndNotSensitive(t *testing.T) {
	g := NewWithT(t)
	found := planned(t, `{"format_version":"1.2","resource_drift":[{"address":"x.drift","change":{"actions":["update"]}}],"resource_changes":[
{"address":"module.a.x.y","previous_address":"x.y","module_address":"module.a","mode":"managed","type":"x","name":"y","provider_name":"example.com/a/x","action_reason":"r",
 "change":{"actions":["create","delete"],
 "before":{"a":"old","secret":"s","list":[1,2],"gone":null},
 "after":{"a":"new","list":[1,null,{"b":1.5}],"map":{"k v":"1","hidden":"s"},"big":123456789012345678901234567890},
 "after_unknown":{"id":true,"list":[false,true,{"c":true}],"nested":{"x":true}},
 "before_sensitive":{"secret":true},"after_sensitive":{"map":{"hidden":true},"secret":true},
 "replace_paths":[["a"],["list",0]]}},
{"address":"x.imported","change":{"actions":["no-op"],"importing":{"id":"i"}}},
{"address":"x.same","change":{"actions":["no-op"]}}
],"output_changes":{"o":{"actions":["update"],"before":"a","after":"b"},"same":{"actions":["no-op"]}}}`)
	g.Expect(found).To(HaveLen(3))
	g.Expect(*found[0].Resource).To(Equal(change.PlannedResource{
		Address: "module.a.x.y", PreviousAddress: "x.y", Module: "module.a", Mode: "managed", Type: "x", Name: "y", Provider: "example.com/a/x", Reason: "r",
		Action: terraform.ActionReplace, Actions: []string{"create", "delete"},
		PlannedValues: change.PlannedValues{
			Before: map[string]any{"a": "old", "list": []any{int64(1), int64(2)}, "gone": nil},
			After: map[string]any{
				"a": "new", "list": []any{int64(1), nil, map[string]any{"b": 1.5}}, "map": map[string]any{"k v": "1"}, "big": 123456789012345678901234567890.0,
			},
			ChangedPaths:   found[0].Resource.ChangedPaths,
			UnknownPaths:   []string{"id", "list[1]", "list[2].c", "nested.x"},
			SensitivePaths: []string{"secret", "map.hidden"},
		},
		ReplacePaths: []string{"a", "list[0]"},
	}))
	g.Expect(found[0].Resource.ChangedPaths).To(ContainElements("a", "secret", `map["k v"]`, "id"))
	g.Expect(found[1].Resource.Action).To(Equal(terraform.ActionImport))
	g.Expect(found[2].Output).To(Equal(&change.PlannedOutput{
		Name: "o", Action: terraform.ActionUpdate, PlannedValues: change.PlannedValues{Before: "a", After: "b", ChangedPaths: []string{""}},
	}))
}

// What policies see can become a message, which all users of the workspace read.
func TestReadPlanned_neverShowsSensitiveValues(t *testing.T) {
	for seed := range uint64(200) {
		maker := &planMaker{Rand: rand.New(rand.NewPCG(seed, 1))}
		var changes []any
		for i := range 5 {
			changes = append(changes, map[string]any{"address": fmt.Sprintf("x.y[%d]", i), "change": maker.change()})
		}
		outputs := map[string]any{"o": maker.change()}
		// Each secret is marked at one place at least.
		changes = append(changes, map[string]any{"address": "x.all", "change": map[string]any{
			"actions": []string{"no-op"}, "before": map[string]any{"all": maker.secrets}, "before_sensitive": map[string]any{"all": true},
		}})
		plan, err := json.Marshal(map[string]any{"resource_changes": changes, "output_changes": outputs})
		if err != nil {
			t.Fatal(err)
		}
		secrets, err := change.ReadSecrets(strings.NewReader(string(plan)))
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range planned(t, string(plan)) {
			if text := secrets.Mask(fmt.Sprintf("%+v %+v", p.Resource, p.Output)); strings.Contains(text, "canary") {
				t.Fatalf("seed %d: a sensitive value is shown: %s\n%s", seed, text, plan)
			}
		}
	}
}

func FuzzReadPlanned(f *testing.F) {
	f.Add(`{"resource_changes":[{"address":"x.y","change":{"actions":["update"],"before":{"a":[1,{"b":2}]},"after":{"a":[{"b":3}]},"after_unknown":{"a":[{"c":true}]},"before_sensitive":{"a":[true]},"after_sensitive":{},"replace_paths":[["a",0]]}}]}`)
	f.Fuzz(func(_ *testing.T, plan string) {
		_ = change.ReadPlanned(strings.NewReader(plan), false, func(change.Planned) error { return nil })
	})
}

func TestReadPlanned_showsWhatDrifted(t *testing.T) {
	g := NewWithT(t)
	var found []string
	plan := `{"resource_drift":[{"address":"x.gone","change":{"actions":["delete"],"before":{"a":1}}}],"resource_changes":[{"address":"x.same","change":{"actions":["no-op"]}}],"output_changes":{"o":{"actions":["update"],"before":"a","after":"b"}}}`
	g.Expect(change.ReadPlanned(strings.NewReader(plan), true, func(p change.Planned) error {
		if p.Resource != nil {
			found = append(found, p.Resource.Address+" "+string(p.Resource.Action))
		} else {
			found = append(found, p.Output.Name)
		}
		return nil
	})).To(Succeed())
	g.Expect(found).To(Equal([]string{"x.gone delete", "o"}))
}

// Another plan creates a resource again that the refresh did not find, or forgets it.
func TestReadPlanned_showsWhatTheRefreshDidNotFind(t *testing.T) {
	g := NewWithT(t)
	found := planned(t, `{"resource_drift":[
{"address":"x.gone","mode":"managed","type":"x","name":"gone","change":{"actions":["delete"],"before":{"a":1}}},
{"address":"x.moved","previous_address":"x.old","change":{"actions":["delete"]}},
{"address":"x.unused","mode":"managed","type":"x","name":"unused","provider_name":"p","change":{"actions":["delete"],"before":{"a":1}}},
{"address":"x.other","change":{"actions":["update"]}}],
"resource_changes":[{"address":"x.gone","change":{"actions":["create"]}},{"address":"x.moved","change":{"actions":["create"]}},{"address":"x.other","change":{"actions":["update"]}}],
"output_changes":{"o":{"actions":["update"],"before":"a","after":"b"}}}`)
	var texts []string
	for _, p := range found {
		if p.Resource != nil {
			texts = append(texts, strings.Join([]string{p.Resource.Address, p.Resource.Type, string(p.Resource.Action), p.Resource.Reason}, " "))
		}
	}
	g.Expect(texts).To(Equal([]string{"x.gone  create not_found", "x.moved  create not_found", "x.other  update ", "x.unused x forget not_found"}))
	g.Expect(found[len(found)-1].Resource.Actions).To(Equal([]string{"forget"}))
}

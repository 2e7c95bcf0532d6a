package change_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/appthrust/capt/internal/terraform/change"
)

// planMaker makes random plans in which each text that contains "canary" is sensitive
// somewhere.
type planMaker struct {
	*rand.Rand
	secrets []string
}

// value returns a random value and its marks. Secrets are marked at their own place, at
// a parent, or not at all if they are a copy.
func (m *planMaker) value(depth int, marked bool) (value, marks any) {
	switch n := m.IntN(10); {
	case depth > 0 && n < 3:
		values, all := map[string]any{}, map[string]any{}
		for i := range m.IntN(4) {
			key := fmt.Sprintf("k%d", i)
			values[key], all[key] = m.value(depth-1, marked)
		}
		return values, all
	case depth > 0 && n < 5:
		values, all := []any{}, []any{}
		for range m.IntN(4) {
			v, mark := m.value(depth-1, marked)
			values, all = append(values, v), append(all, mark)
		}
		return values, all
	case depth > 0 && n == 5:
		// The mark of a parent covers everything below.
		v, _ := m.value(depth-1, true)
		return v, true
	case n == 6 || marked:
		secret := fmt.Sprintf("canary-%d", m.IntN(1000))
		m.secrets = append(m.secrets, secret)
		return secret, true
	case n == 7 && len(m.secrets) > 0:
		secret := m.secrets[m.IntN(len(m.secrets))]
		quoted, _ := json.Marshal(map[string]string{"copy": secret})
		return []any{secret, "x " + secret + " y", string(quoted)}[m.IntN(3)], false
	case n == 8:
		return nil, false
	default:
		return fmt.Sprintf("plain-%d", m.IntN(5)), false
	}
}

func (m *planMaker) change() map[string]any {
	before, beforeMarks := m.value(4, false)
	after, afterMarks := m.value(4, false)
	if m.IntN(2) == 0 {
		after = before
	}
	actions := [][]string{{"update"}, {"create"}, {"delete"}, {"delete", "create"}, {"no-op"}, {"read"}}
	change := map[string]any{
		"actions": actions[m.IntN(len(actions))], "before": before, "after": after, "before_sensitive": beforeMarks, "after_sensitive": afterMarks,
		"after_unknown": map[string]any{"k0": m.IntN(2) == 0},
	}
	if m.IntN(4) == 0 {
		delete(change, "before_sensitive")
		change["before"] = map[string]any{"copy": fmt.Sprint(before)}
	}
	return change
}

// No output contains a value that the plan marks anywhere, whatever is copied where.
func TestRead_leaksNothingFromRandomPlans(t *testing.T) {
	for seed := range uint64(300) {
		m := &planMaker{Rand: rand.New(rand.NewPCG(seed, 17))}
		var resources, drift []any
		for i := range 1 + m.IntN(3) {
			resources = append(resources, map[string]any{"address": fmt.Sprintf("x.y[%d]", i), "change": m.change()})
			drift = append(drift, map[string]any{"address": fmt.Sprintf("x.d[%d]", i), "change": m.change()})
		}
		outputs := map[string]any{"o": m.change()}
		// Each secret is marked at one place at least: of a resource, or of a data source.
		content := map[string]any{"resource_drift": drift, "output_changes": outputs}
		if all := map[string]any{"all": m.secrets}; m.IntN(2) == 0 {
			resources = append(resources, map[string]any{"address": "x.all", "change": map[string]any{
				"actions": []string{"no-op"}, "before": all, "before_sensitive": map[string]any{"all": true},
			}})
		} else {
			content["prior_state"] = map[string]any{"values": map[string]any{"root_module": map[string]any{"child_modules": []any{
				map[string]any{"resources": []any{map[string]any{"values": all, "sensitive_values": map[string]any{"all": true}}}},
			}}}}
		}
		content["resource_changes"] = resources
		plan, err := json.Marshal(content)
		if err != nil {
			t.Fatal(err)
		}
		secrets, err := change.ReadSecrets(strings.NewReader(string(plan)))
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		err = change.Read(strings.NewReader(string(plan)), secrets.Mask, func(e change.Entry) error { return json.NewEncoder(&out).Encode(e) })
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(out.String(), "canary-") {
			t.Fatalf("seed %d: a sensitive value is in %s\nplan: %s", seed, out.String(), plan)
		}
	}
}

package change_test

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/change"
)

func same(text string) string { return text }

// entries returns the changes of a plan with one resource.
func entries(t *testing.T, resource string) []change.Entry {
	t.Helper()
	var found []change.Entry
	plan := `{"planned_values":{"a":[1,{"b":{}}]},"resource_changes":[` + resource + `],"prior_state":{}}`
	err := change.Read(strings.NewReader(plan), same, func(e change.Entry) error {
		found = append(found, e)
		return nil
	})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return found
}

// lines returns attributes in a short form.
func lines(attributes []change.Attribute) []string {
	var out []string
	for _, a := range attributes {
		line := fmt.Sprintf("%s %s %s->%s", a.Action, a.Path, a.Before, a.After)
		if a.Unknown {
			line += " unknown"
		}
		if a.Sensitive {
			line += " sensitive"
		}
		if a.Replaces {
			line += " replaces"
		}
		out = append(out, line)
	}
	return out
}

func TestRead_comparesValues(t *testing.T) {
	for name, tc := range map[string]struct {
		change string
		want   []string
	}{
		"scalars": {
			`"actions":["update"],"before":{"a":1,"b":"x","c":true},"after":{"a":2,"b":"x","c":true}`,
			[]string{"update a 1->2"},
		},
		"null is absent": {
			`"actions":["update"],"before":{"a":null,"b":"x"},"after":{"a":"y","b":null}`,
			[]string{`create a ->"y"`, `delete b "x"->`},
		},
		"unknown values are missing from after": {
			`"actions":["create"],"before":null,"after":{"a":"x"},"after_unknown":{"id":true,"tags":{}}`,
			[]string{`create a ->"x"`, "create id -> unknown"},
		},
		"replacement": {
			`"actions":["delete","create"],"before":{"cidr":"a","id":"1"},"after":{"cidr":"b"},"after_unknown":{"id":true},"replace_paths":[["cidr"]]`,
			[]string{`update cidr "a"->"b" replaces`, `update id "1"-> unknown`},
		},
		"nested objects": {
			`"actions":["update"],"before":{"tags":{"Name":"a","x/y":"1"}},"after":{"tags":{"Name":"b","x/y":"1","new":"2"}}`,
			[]string{`update tags.Name "a"->"b"`, `create tags.new ->"2"`},
		},
		"a set of values": {
			`"actions":["update"],"before":{"cidrs":["a","b","c"]},"after":{"cidrs":["b","c","d"]}`,
			[]string{`delete cidrs[0] "a"->`, `create cidrs[2] ->"d"`},
		},
		"a list of blocks": {
			`"actions":["update"],"before":{"rule":[{"port":1,"to":"x"},{"port":2}]},"after":{"rule":[{"port":1,"to":"y"},{"port":2}]}`,
			[]string{`update rule[0].to "x"->"y"`},
		},
		"empty collections": {
			`"actions":["update"],"before":{"a":null,"b":["x"]},"after":{"a":{},"b":[]}`,
			[]string{"create a ->{}", `delete b[0] "x"->`},
		},
		"large numbers keep their digits": {
			`"actions":["update"],"before":{"a":9007199254740993},"after":{"a":9007199254740994}`,
			[]string{"update a 9007199254740993->9007199254740994"},
		},
		"another type": {
			`"actions":["update"],"before":{"a":["x"]},"after":{"a":"x"}`,
			[]string{`update a ["x"]->"x"`},
		},
		"sensitive values": {
			`"actions":["update"],"before":{"a":"s3cret","b":{"c":"s3cret","d":"x"},"same":"s3cret"},"after":{"a":"other","b":{"c":"other","d":"y"},"same":"s3cret"},` +
				`"before_sensitive":{"a":true,"b":{"c":true},"same":true},"after_sensitive":{"a":true,"b":{"c":true},"same":true}`,
			[]string{"update a -> sensitive", "update b.c -> sensitive", `update b.d "x"->"y"`},
		},
		"sensitive within an unknown value": {
			`"actions":["update"],"before":{"a":{"p":"s3cret","q":"x"}},"after":{},"after_unknown":{"a":true},"before_sensitive":{"a":{"p":true}}`,
			[]string{`update a {"p":"(sensitive value)","q":"x"}-> unknown`},
		},
		"sensitive on one side": {
			`"actions":["update"],"before":{"a":"s3cret"},"after":{"a":"public"},"before_sensitive":{"a":true}`,
			[]string{"update a -> sensitive"},
		},
		"sensitive elements of a list": {
			`"actions":["update"],"before":{"a":["x","s3cret"]},"after":{"a":["x","0ther"]},"before_sensitive":{"a":[false,true]},"after_sensitive":{"a":[false,true]}`,
			[]string{"delete a[1] -> sensitive", "create a[1] -> sensitive"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			found := entries(t, `{"address":"x.y","mode":"managed","type":"x","name":"y","change":{`+tc.change+`}}`)
			g.Expect(found).To(HaveLen(1))
			g.Expect(lines(found[0].Resource.Attributes)).To(Equal(tc.want))
		})
	}
}

func TestRead_namesActions(t *testing.T) {
	for actions, want := range map[string]terraform.Action{
		`["create"]`: terraform.ActionCreate, `["update"]`: terraform.ActionUpdate, `["delete"]`: terraform.ActionDelete,
		`["delete","create"]`: terraform.ActionReplace, `["create","delete"]`: terraform.ActionReplace,
		`["read"]`: terraform.ActionRead, `["forget"]`: terraform.ActionForget, `["no-op"]`: "",
	} {
		found := entries(t, `{"address":"x.y","change":{"actions":`+actions+`,"before":{"a":1},"after":{"a":1}}}`)
		if want == "" {
			NewWithT(t).Expect(found).To(BeEmpty(), actions)
			continue
		}
		NewWithT(t).Expect(found[0].Resource.Action).To(Equal(want), actions)
		NewWithT(t).Expect(found[0].Resource.CreateFirst).To(Equal(actions == `["create","delete"]`))
	}
	moved := entries(t, `{"address":"x.y","previous_address":"x.z","change":{"actions":["no-op"],"before":{},"after":{}}}`)
	NewWithT(t).Expect(moved[0].Resource.Action).To(Equal(terraform.ActionMove))
	imported := entries(t, `{"address":"x.y","change":{"actions":["no-op"],"before":{},"after":{},"importing":{"id":"i-1"}}}`)
	NewWithT(t).Expect(imported[0].Resource.Action).To(Equal(terraform.ActionImport))
	NewWithT(t).Expect(imported[0].Resource.ImportID).To(Equal("i-1"))
}

func TestRead_keepsDriftAndOutputsApart(t *testing.T) {
	g := NewWithT(t)
	plan := `{"resource_drift":[{"address":"a.b","change":{"actions":["update"],"before":{"x":1},"after":{"x":2}}}],` +
		`"resource_changes":[],"output_changes":{"o":{"actions":["create"],"before":null,"after":"v","after_unknown":false,"before_sensitive":false,"after_sensitive":false},` +
		`"s":{"actions":["update"],"before":"s3cret","after":"0ther","before_sensitive":true,"after_sensitive":true},"n":{"actions":["no-op"],"before":1,"after":1}}}`
	var found []change.Entry
	g.Expect(change.Read(strings.NewReader(plan), same, func(e change.Entry) error {
		found = append(found, e)
		return nil
	})).To(Succeed())
	g.Expect(found).To(HaveLen(3))
	g.Expect(found[0].Drift.Address).To(Equal("a.b"))
	g.Expect(lines(found[1].Output.Attributes)).To(Equal([]string{`create  ->"v"`}))
	g.Expect(lines(found[2].Output.Attributes)).To(Equal([]string{"update  -> sensitive"}))
}

// No part of an entry may contain a sensitive value, wherever the tool marks it.
func TestRead_neverKeepsSensitiveValues(t *testing.T) {
	g := NewWithT(t)
	const secret = "c4n4ry-s3cret-value"
	known := "t0ken-of-the-run"
	resource := map[string]any{"address": "x.y[\"" + known + "\"]", "previous_address": "x.z[\"" + known + "\"]", "change": map[string]any{
		"actions":          []string{"update"},
		"before":           map[string]any{"a": secret, "l": []any{secret, map[string]any{"k": secret}}, "u": map[string]any{"p": secret}, "t": secret + "1", "plain": "x-" + known, known: "key"},
		"after":            map[string]any{"a": secret + "2", "l": []any{map[string]any{"k": secret + "3"}}, "t": 5, "plain": known},
		"after_unknown":    map[string]any{"u": true},
		"before_sensitive": map[string]any{"a": true, "l": []any{true, map[string]any{"k": true}}, "u": map[string]any{"p": true}, "t": true},
		"after_sensitive":  map[string]any{"a": true, "l": []any{map[string]any{"k": true}}, "t": false},
	}}
	plan, err := json.Marshal(map[string]any{"variables": map[string]any{"s": secret}, "resource_changes": []any{resource}})
	g.Expect(err).NotTo(HaveOccurred())
	redact := func(text string) string { return strings.ReplaceAll(text, known, "***") }
	var all strings.Builder
	g.Expect(change.Read(strings.NewReader(string(plan)), redact, func(e change.Entry) error {
		return json.NewEncoder(&all).Encode(e)
	})).To(Succeed())
	g.Expect(all.String()).To(ContainSubstring("plain"))
	for _, s := range []string{secret, known} {
		for _, form := range []string{s, base64.StdEncoding.EncodeToString([]byte(s)), hex.EncodeToString([]byte(s))} {
			g.Expect(all.String()).NotTo(ContainSubstring(form))
		}
	}
}

func TestRead_hidesTextOfInvalidPlans(t *testing.T) {
	for _, plan := range []string{"", "s3cret", "[]", `{"resource_changes":{"s3cret":1}}`, `{"resource_changes":["s3cret"]}`, `{"output_changes":{"a":"s3cret"}}`, `{"a":`} {
		err := change.Read(strings.NewReader(plan), same, func(change.Entry) error { return nil })
		NewWithT(t).Expect(err).To(MatchError("reading the changes of the plan: the output of show is not a plan"), plan)
	}
}

// resourceStream is a plan with many resources that is made while it is read.
type resourceStream struct {
	left, made int
	rest       string
}

func (s *resourceStream) Read(p []byte) (int, error) {
	if s.rest == "" {
		switch {
		case s.left == 0:
			return 0, io.EOF
		case s.made == 0:
			s.rest = `{"resource_changes":[`
		}
		s.rest += fmt.Sprintf(`{"address":"x.y[%d]","change":{"actions":["update"],"before":{"a":"%s"},"after":{"a":"b"}}}`, s.made, strings.Repeat("v", 4<<10))
		s.made++
		s.left--
		s.rest += map[bool]string{true: `]}`, false: `,`}[s.left == 0]
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

func TestRead_holdsOneResourceAtATime(t *testing.T) {
	g := NewWithT(t)
	var before, during runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	count, most := 0, uint64(0)
	g.Expect(change.Read(&resourceStream{left: 5000}, same, func(change.Entry) error {
		if count++; count%1000 == 0 {
			runtime.GC()
			runtime.ReadMemStats(&during)
			most = max(most, during.HeapAlloc)
		}
		return nil
	})).To(Succeed())
	g.Expect(count).To(Equal(5000))
	g.Expect(most).To(BeNumerically("<", before.HeapAlloc+(4<<20)), "the plan has 20 MiB")
}

func TestPath_survivesJSON(t *testing.T) {
	g := NewWithT(t)
	path := change.Path{{Key: "a"}, {Index: 3, IsIndex: true}, {Key: "x/y"}, {Index: 1, IsIndex: true, Removed: true}, {Index: 0, IsIndex: true, Added: true}}
	data, err := json.Marshal(path)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(data)).To(Equal(`["a",3,"x/y",{"removed":1},{"added":0}]`))
	var back change.Path
	g.Expect(json.Unmarshal(data, &back)).To(Succeed())
	g.Expect(back).To(Equal(path))
	g.Expect(path.String()).To(Equal(`a[3]["x/y"][1][0]`))
	g.Expect(json.Unmarshal([]byte(`[true]`), &back)).NotTo(Succeed())
}

func FuzzRead(f *testing.F) {
	f.Add(`{"resource_changes":[{"address":"x.y","change":{"actions":["update"],"before":{"a":[1,{"b":2}]},"after":{"a":[{"b":3}]},"after_unknown":{"a":[{"c":true}]},"before_sensitive":{"a":[true]},"after_sensitive":{},"replace_paths":[["a",0]]}}]}`)
	f.Fuzz(func(_ *testing.T, plan string) {
		_ = change.Read(strings.NewReader(plan), same, func(change.Entry) error { return nil })
	})
}

func TestHide_leavesPathsOnly(t *testing.T) {
	g := NewWithT(t)
	found := entries(t, `{"address":"x.y","change":{"actions":["update"],"before":{"a":"one"},"after":{"a":"two"},"importing":{"id":"i-1"}}}`)
	found[0].Hide()
	data, err := json.Marshal(found[0])
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(data)).To(Equal(`{"resource":{"address":"x.y","action":"update","attributes":[{"path":["a"],"action":"update","sensitive":true}]}}`))
}

package terraform

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

func TestParseStateCommand(t *testing.T) {
	tests := []struct {
		name, text, problem string
	}{
		{"list", `{"id":"1","command":"list"}`, ""},
		{"list of modules", `{"id":"1","command":"list","args":["module.a","aws_vpc.b[\"x\"]"]}`, ""},
		{"show", `{"id":"1","command":"show","args":["a.b"]}`, ""},
		{"mv", `{"id":"1","command":"mv","args":["a.b","a.c"]}`, ""},
		{"rm", `{"id":"1","command":"rm","args":["a.b","a.c","a.d"]}`, ""},
		{"pull", `{"id":"1","command":"pull"}`, ""},
		{"push", `{"id":"1","command":"push","input":"input-1","force":true}`, ""},
		{"a key", `{"id":"1","uid":"u","command":"pull","publicKey":"AA=="}`, ""},
		{"a key of a push", `{"id":"1","command":"push","input":"input-1","publicKey":"AA=="}`, "publicKey"},
		{"nothing", ``, "decoding"},
		{"no JSON", `list`, "decoding"},
		{"two objects", `{"id":"1","command":"list"}{}`, "text follows"},
		{"an unknown field", `{"id":"1","command":"list","flags":["-x"]}`, "unknown field"},
		{"no ID", `{"command":"list"}`, "id"},
		{"a long ID", `{"id":"` + strings.Repeat("a", 64) + `","command":"list"}`, "id"},
		{"an ID with a space", `{"id":"a b","command":"list"}`, "id"},
		{"no command", `{"id":"1"}`, "unknown"},
		{"another command", `{"id":"1","command":"replace-provider"}`, "unknown"},
		{"a flag", `{"id":"1","command":"rm","args":["-state=x"]}`, "address"},
		{"an empty address", `{"id":"1","command":"rm","args":[""]}`, "address"},
		{"a line break", `{"id":"1","command":"rm","args":["a\nb"]}`, "address"},
		{"a path", `{"id":"1","command":"rm","args":["/etc/passwd"]}`, "address"},
		{"show without an address", `{"id":"1","command":"show"}`, "takes 1"},
		{"mv of three", `{"id":"1","command":"mv","args":["a.b","a.c","a.d"]}`, "takes 2"},
		{"pull of an address", `{"id":"1","command":"pull","args":["a.b"]}`, "takes none"},
		{"push without input", `{"id":"1","command":"push"}`, "input"},
		{"push of a snapshot", `{"id":"1","command":"push","input":"snapshot-a-r1"}`, "input"},
		{"push of a path", `{"id":"1","command":"push","input":"input-../x"}`, "input"},
		{"show of sensitive values", `{"id":"1","command":"show","args":["a.b"],"json":true,"sensitive":true}`, ""},
		{"list of sensitive values", `{"id":"1","command":"list","sensitive":true}`, "sensitive"},
		{"list as JSON", `{"id":"1","command":"list","json":true}`, "json"},
		{"force without push", `{"id":"1","command":"rm","args":["a.b"],"force":true}`, "force"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := ParseStateCommand(tt.text)
			if tt.problem == "" {
				NewWithT(t).Expect(err).NotTo(HaveOccurred())
				return
			}
			NewWithT(t).Expect(err).To(MatchError(ContainSubstring(tt.problem)))
		})
	}
}

func TestCheckPush(t *testing.T) {
	none := StateInfo{}
	tests := []struct {
		name                 string
		pushed, found, known StateInfo
		refused              string
	}{
		{"the first state", StateInfo{Lineage: "a", Serial: 1}, none, none, ""},
		{"a later version", StateInfo{Lineage: "a", Serial: 3}, StateInfo{Lineage: "a", Serial: 2}, StateInfo{Lineage: "a", Serial: 2}, ""},
		{"the same version", StateInfo{Lineage: "a", Serial: 2}, StateInfo{Lineage: "a", Serial: 2}, StateInfo{Lineage: "a", Serial: 2}, ""},
		{"an older version", StateInfo{Lineage: "a", Serial: 1}, StateInfo{Lineage: "a", Serial: 2}, none, "the state in the backend has serial 2"},
		{"another lineage", StateInfo{Lineage: "b", Serial: 9}, StateInfo{Lineage: "a", Serial: 2}, none, "lineage a"},
		{"another lineage than the lost state", StateInfo{Lineage: "b", Serial: 9}, none, StateInfo{Lineage: "a", Serial: 2}, "the last known state has lineage a"},
		{"older than the lost state", StateInfo{Lineage: "a", Serial: 1}, none, StateInfo{Lineage: "a", Serial: 2}, "the last known state has serial 2"},
		{"the lost state", StateInfo{Lineage: "a", Serial: 2}, none, StateInfo{Lineage: "a", Serial: 2}, ""},
		{"the lost state after an interrupted push", StateInfo{Lineage: "a", Serial: 2}, StateInfo{Lineage: "x", Serial: 1, Owner: "me"}, StateInfo{Lineage: "a", Serial: 2}, ""},
		{"the first state of another workspace", StateInfo{Lineage: "a", Serial: 2}, StateInfo{Lineage: "x", Serial: 1, Owner: "other"}, StateInfo{Lineage: "a", Serial: 2}, "lineage x"},
		{"another lineage than the first, empty state", StateInfo{Lineage: "b", Serial: 9}, StateInfo{Lineage: "a", Serial: 1}, StateInfo{Lineage: "a", Serial: 1}, "lineage a"},
		{"no lineage", StateInfo{Serial: 2}, none, none, "has no lineage"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			problem := CheckPush(tt.pushed, tt.found, KnownState{StateInfo: tt.known, Owner: "me"})
			NewWithT(t).Expect(problem != "").To(Equal(tt.refused != ""), problem)
			NewWithT(t).Expect(problem).To(ContainSubstring(tt.refused))
		})
	}
}

func TestCheckTarget(t *testing.T) {
	source := StateInfo{Lineage: "a", Serial: 5, Resources: 3}
	tests := []struct {
		name    string
		target  StateInfo
		refused string
	}{
		{"no state", StateInfo{}, ""},
		{"the first state of the workspace", StateInfo{Lineage: "b", Serial: 1, Owner: "me"}, ""},
		{"a state that was freed", StateInfo{Lineage: "b", Serial: 9, Owner: NoOwner}, ""},
		{"an empty state of another workspace", StateInfo{Lineage: "b", Serial: 9, Owner: "other"}, "belongs to other"},
		{"another lineage with resources", StateInfo{Lineage: "b", Serial: 1, Resources: 1}, "another lineage with 1 resources"},
		{"an older copy", StateInfo{Lineage: "a", Serial: 2, Resources: 1}, ""},
		{"the copy of a move that failed", StateInfo{Lineage: "a", Serial: 6, Resources: 3}, ""},
		{"a later version", StateInfo{Lineage: "a", Serial: 7, Resources: 3}, "serial 7"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			problem := CheckTarget(source, tt.target, "me")
			NewWithT(t).Expect(problem != "").To(Equal(tt.refused != ""), problem)
			NewWithT(t).Expect(problem).To(ContainSubstring(tt.refused))
		})
	}
}

func TestParseMove(t *testing.T) {
	for text, valid := range map[string]bool{
		`{"id":"1","from":"a","to":"b"}`: true, `{"id":"1"}`: true,
		``: false, `{}`: false, `{"id":"1","to":1}`: false, `{"id":"1","x":""}`: false,
	} {
		_, err := ParseMove(text)
		NewWithT(t).Expect(err == nil).To(Equal(valid), text)
	}
}

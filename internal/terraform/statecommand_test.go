package terraform

import (
	"testing"

	. "github.com/onsi/gomega"
)

func TestStateCommand_Validate(t *testing.T) {
	command := func(command string, args ...string) StateCommand {
		return StateCommand{ID: "1", Command: command, Args: args}
	}
	tests := []struct {
		name    string
		command StateCommand
		problem string
	}{
		{"list", command("list"), ""},
		{"list of modules", command("list", "module.a", `aws_vpc.b["x"]`), ""},
		{"show", command("show", "a.b"), ""},
		{"mv", command("mv", "a.b", "a.c"), ""},
		{"rm", command("rm", "a.b", "a.c", "a.d"), ""},
		{"pull", command("pull"), ""},
		{"push", StateCommand{ID: "1", Command: "push", Input: "input-1", Force: true}, ""},
		{"a key", StateCommand{ID: "1", Command: "pull", PublicKey: "AA=="}, ""},
		{"a key of a push", StateCommand{ID: "1", Command: "push", Input: "input-1", PublicKey: "AA=="}, "publicKey"},
		{"no command", command(""), "unknown"},
		{"another command", command("replace-provider"), "unknown"},
		{"a flag", command("rm", "-state=x"), "address"},
		{"an empty address", command("rm", ""), "address"},
		{"a line break", command("rm", "a\nb"), "address"},
		{"a path", command("rm", "/etc/passwd"), "address"},
		{"show without an address", command("show"), "takes 1"},
		{"mv of three", command("mv", "a.b", "a.c", "a.d"), "takes 2"},
		{"pull of an address", command("pull", "a.b"), "takes none"},
		{"push without input", command("push"), "input"},
		{"push of a snapshot", StateCommand{ID: "1", Command: "push", Input: "snapshot-a-r1"}, "input"},
		{"push of a path", StateCommand{ID: "1", Command: "push", Input: "input-../x"}, "input"},
		{"show of sensitive values", StateCommand{ID: "1", Command: "show", Args: []string{"a.b"}, JSON: true, Sensitive: true}, ""},
		{"list of sensitive values", StateCommand{ID: "1", Command: "list", Sensitive: true}, "sensitive"},
		{"list as JSON", StateCommand{ID: "1", Command: "list", JSON: true}, "json"},
		{"force without push", StateCommand{ID: "1", Command: "rm", Args: []string{"a.b"}, Force: true}, "force"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.command.Validate()
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

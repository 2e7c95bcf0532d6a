package terraform

import (
	"testing"

	. "github.com/onsi/gomega"
)

func TestKnownState_compare(t *testing.T) {
	info := StateInfo{Lineage: "l", Serial: 5, Resources: 3}
	known := KnownState{StateInfo: info}
	for _, tt := range []struct {
		name  string
		known KnownState
		found StateInfo
		own   bool
		want  StateProblem
	}{
		{"a new workspace", KnownState{}, StateInfo{}, false, ""},
		{"an empty state of a new workspace", KnownState{}, StateInfo{Lineage: "x"}, false, ""},
		{"a state that another new workspace has just created", KnownState{Owner: "me"}, StateInfo{Lineage: "x", Serial: 1, Owner: "other"}, false, StateForeign},
		{"a state that the workspace has created", KnownState{Owner: "me"}, StateInfo{Lineage: "x", Serial: 1, Owner: "me"}, false, ""},
		{"a state with outputs and without resources", KnownState{Owner: "me"}, StateInfo{Lineage: "x", Serial: 2, Owner: UnknownOwner}, false, StateForeign},
		{"replaced by a state that another workspace has just created", KnownState{StateInfo: StateInfo{Lineage: "l", Serial: 5}, Owner: "me"}, StateInfo{Lineage: "x", Serial: 1, Owner: "other"}, false, StateForeign},
		{"a state of another workspace", KnownState{}, StateInfo{Lineage: "x", Resources: 1}, false, StateForeign},
		{"a state of an earlier workspace of the same name", KnownState{}, StateInfo{Lineage: "x", Resources: 1}, true, ""},
		{"the known state", known, info, false, ""},
		{"a later version", known, StateInfo{Lineage: "l", Serial: 6}, false, ""},
		{"an earlier version", known, StateInfo{Lineage: "l", Serial: 4, Resources: 3}, false, StateOutdated},
		{"an earlier version that the user adopts", KnownState{StateInfo: info, Adopt: "l/4"}, StateInfo{Lineage: "l", Serial: 4}, false, ""},
		{"another version than the adopted one", KnownState{StateInfo: info, Adopt: "l/3"}, StateInfo{Lineage: "l", Serial: 4}, false, StateOutdated},
		{"in a backend with another configuration", KnownState{StateInfo: info, Moved: true}, info, false, ""},
		{"a later version in a backend with another configuration", KnownState{StateInfo: info, Moved: true}, StateInfo{Lineage: "l", Serial: 6, Resources: 1}, false, ""},
		{"an old copy in another backend", KnownState{StateInfo: info, Moved: true}, StateInfo{Lineage: "l", Serial: 4, Resources: 3}, false, StateOutdated},
		{"missing in another backend", KnownState{StateInfo: info, Moved: true}, StateInfo{}, false, StateMissing},
		{"missing", known, StateInfo{}, false, StateMissing},
		{"missing in an own backend", known, StateInfo{}, true, StateMissing},
		{"replaced by an empty state", known, StateInfo{Lineage: "x"}, false, StateMissing},
		{"replaced by another state", known, StateInfo{Lineage: "x", Resources: 1}, true, StateForeign},
		{"another state that the user adopts", KnownState{StateInfo: info, Adopt: "x/1"}, StateInfo{Lineage: "x", Serial: 1, Resources: 1}, false, ""},
		{"missing, and without resources", KnownState{StateInfo: StateInfo{Lineage: "l", Serial: 5}}, StateInfo{}, false, ""},
		{"replaced, and without resources", KnownState{StateInfo: StateInfo{Lineage: "l", Serial: 5}}, StateInfo{Lineage: "x", Serial: 1}, false, ""},
		{"that of another workspace, without resources of its own", KnownState{StateInfo: StateInfo{Lineage: "l", Serial: 5}}, StateInfo{Lineage: "x", Resources: 1}, false, StateForeign},
		{"missing after a lost run", KnownState{StateInfo: StateInfo{Lineage: "l", Serial: 1}, Unconfirmed: true}, StateInfo{}, false, StateMissing},
		{"replaced after a lost run", KnownState{StateInfo: StateInfo{Lineage: "l", Serial: 1}, Unconfirmed: true}, StateInfo{Lineage: "x"}, false, StateForeign},
		{"missing after a first run that was lost early", KnownState{Unconfirmed: true}, StateInfo{}, false, ""},
		{"found after a first run that was lost early", KnownState{Unconfirmed: true}, StateInfo{Lineage: "x", Resources: 1}, false, StateForeign},
		{"found in an own backend after a first run that was lost early", KnownState{Unconfirmed: true}, StateInfo{Lineage: "x", Resources: 1}, true, ""},
		{"missing, and given up", KnownState{StateInfo: info, Adopt: "none/l", Owner: "me"}, StateInfo{}, false, ""},
		{"missing in an own backend, and given up", KnownState{StateInfo: info, Adopt: "none/l", Owner: "me"}, StateInfo{}, true, ""},
		{"replaced by an empty state, and given up", KnownState{StateInfo: info, Adopt: "none/l", Owner: "me"}, StateInfo{Lineage: "x", Owner: UnknownOwner}, true, ""},
		{"replaced by that of another new workspace, and given up", KnownState{StateInfo: info, Adopt: "none/l", Owner: "me"}, StateInfo{Lineage: "x", Owner: "other"}, false, StateMissing},
		{"replaced by another state, and given up", KnownState{StateInfo: info, Adopt: "none/l"}, StateInfo{Lineage: "x", Resources: 1}, false, StateForeign},
		{"an earlier version, and given up", KnownState{StateInfo: info, Adopt: "none/l"}, StateInfo{Lineage: "l", Serial: 4}, false, StateOutdated},
		{"missing after an earlier state was given up", KnownState{StateInfo: info, Adopt: "none/k"}, StateInfo{}, false, StateMissing},
		{"missing, and given up without a lineage", KnownState{StateInfo: info, Adopt: "none"}, StateInfo{}, false, StateMissing},
		{"missing without a known lineage, and given up", KnownState{StateInfo: StateInfo{Resources: 2}, Adopt: "none"}, StateInfo{}, false, ""},
		{"an earlier version, both without resources", KnownState{StateInfo: StateInfo{Lineage: "l", Serial: 5}}, StateInfo{Lineage: "l", Serial: 4}, true, ""},
		{"an earlier version with resources that were destroyed", KnownState{StateInfo: StateInfo{Lineage: "l", Serial: 5}}, StateInfo{Lineage: "l", Serial: 4, Resources: 3}, true, StateOutdated},
		{"missing after a move", KnownState{Expected: "l"}, StateInfo{}, false, StateMissing},
		{"missing in an own backend after a move", KnownState{Expected: "l"}, StateInfo{}, true, StateMissing},
		{"missing after a move and a lost run", KnownState{Expected: "l", Unconfirmed: true}, StateInfo{}, true, StateMissing},
		{"missing after a move, and given up", KnownState{Expected: "l", Adopt: "none/l"}, StateInfo{}, true, ""},
		{"missing after a move, and given up without a lineage", KnownState{Expected: "l", Adopt: "none"}, StateInfo{}, true, StateMissing},
		{"replaced by an empty state after a move", KnownState{Expected: "l", Owner: "me"}, StateInfo{Lineage: "x", Owner: "me"}, true, StateMissing},
		{"replaced by an empty state after a move, and adopted", KnownState{Expected: "l", Adopt: "x/0"}, StateInfo{Lineage: "x"}, true, ""},
		{"an empty state after a move", KnownState{Expected: "l"}, StateInfo{Lineage: "l"}, true, ""},
		{"found in an own backend after a move", KnownState{Expected: "l"}, StateInfo{Lineage: "x", Resources: 1}, true, ""},
		{"that of another workspace, which the annotation names", KnownState{Expected: "x"}, StateInfo{Lineage: "x", Resources: 1}, false, StateForeign},
		{"an empty one of another workspace, which the annotation names", KnownState{Expected: "x", Owner: "me"}, StateInfo{Lineage: "x", Serial: 1, Owner: "other"}, false, StateForeign},
		{"known before lineages were recorded", KnownState{StateInfo: StateInfo{Serial: 3, Resources: 2}}, info, false, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			NewWithT(t).Expect(tt.known.Compare(tt.found, tt.own)).To(Equal(tt.want))
		})
	}
}

func TestKnownState_exists(t *testing.T) {
	for _, tt := range []struct {
		name  string
		known KnownState
		want  bool
	}{
		{"a new workspace", KnownState{Owner: "me"}, false},
		{"a lineage", KnownState{StateInfo: StateInfo{Lineage: "l"}}, true},
		{"resources before lineages were recorded", KnownState{StateInfo: StateInfo{Resources: 1}}, true},
		{"a lost run", KnownState{Unconfirmed: true}, true},
		{"adopted", KnownState{Adopt: "l/1"}, true},
		{"the annotation of an editor", KnownState{Expected: "l"}, false},
	} {
		t.Run(tt.name, func(t *testing.T) { NewWithT(t).Expect(tt.known.Exists()).To(Equal(tt.want)) })
	}
}

func TestStateProblem_explainsWhatToDo(t *testing.T) {
	g := NewWithT(t)
	known, found := KnownState{StateInfo: StateInfo{Lineage: "l", Serial: 5, Resources: 3}}, StateInfo{Lineage: "x", Serial: 4, Resources: 2}
	g.Expect(StateMissing.Explain(known, StateInfo{}, "backend s3")).To(And(ContainSubstring("backend s3 is missing or empty, but it had 3 resources"), ContainSubstring("captctl state restore"), HaveSuffix("captctl state adopt --version none/l")))
	lost := KnownState{StateInfo: StateInfo{Lineage: "l", Serial: 1}, Unconfirmed: true}
	g.Expect(StateMissing.Explain(lost, StateInfo{}, "backend s3")).To(ContainSubstring("a run may have created resources"))
	moved := KnownState{StateInfo: known.StateInfo, Moved: true}
	g.Expect(StateMissing.Explain(moved, StateInfo{}, "backend s3")).To(And(ContainSubstring("Change the configuration of the backend back"), ContainSubstring("captctl state migrate-backend")))
	g.Expect(StateForeign.Explain(moved, found, "backend s3")).To(And(ContainSubstring("lineage x"), ContainSubstring("lineage l"), HaveSuffix("if this is the copy, run captctl state adopt --version x/4")))
	g.Expect(StateForeign.Explain(known, found, "backend s3")).To(And(ContainSubstring("has 2 resources and is not the state of this workspace"), ContainSubstring("${WORKSPACE_NAMESPACE}"), HaveSuffix("captctl state adopt --version x/4")))
	g.Expect(StateOutdated.Explain(known, found, "backend s3")).To(And(ContainSubstring("has serial 4, but serial 5"), HaveSuffix("captctl state adopt --version x/4")))
	g.Expect(StateProblem("").Explain(known, found, "")).To(BeEmpty())
}

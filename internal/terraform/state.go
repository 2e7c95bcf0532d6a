package terraform

import (
	"cmp"
	"fmt"
	"strconv"
)

// KnownState is what earlier runs reported about the state of a workspace.
type KnownState struct {
	StateInfo
	// Unconfirmed is set if a run may have changed the state after the last report.
	Unconfirmed bool `json:"unconfirmed,omitempty"`
	// Expected is the lineage of a state that the workspace had before the reports were lost.
	// It is not trusted: a run refuses to start from nothing because of it, but it does not
	// prove that a found state belongs to the workspace.
	Expected string `json:"expected,omitempty"`
	// Owner is the name of the workspace in the states that it creates.
	Owner string `json:"-"`
	// Adopt is the version of a state that the user wants to use nevertheless, or that
	// of AdoptNothing.
	Adopt string `json:"adopt,omitempty"`
	// Moved is set if the state was reported from another backend: the user has copied it to
	// this one, or the configuration of the same backend has another text.
	Moved bool `json:"moved,omitempty"`
}

// AdoptNothing returns the value of Adopt with which the run starts from nothing if
// the known state is missing. It names the lineage, because the annotation may stay:
// the next state of the workspace has another lineage, and must not be given up.
func (k KnownState) AdoptNothing() string {
	lineage := cmp.Or(k.Lineage, k.Expected)
	if lineage == "" {
		return "none"
	}
	return "none/" + lineage
}

// Version returns a text that identifies a version of a state.
func (s StateInfo) Version() string { return s.Lineage + "/" + strconv.FormatUint(s.Serial, 10) }

// inUse reports whether the state has, or may have, resources.
func (k KnownState) inUse() bool { return k.Resources > 0 || k.Unconfirmed }

// Exists reports whether earlier runs reported a state, or may have written one.
func (k KnownState) Exists() bool { return k.Lineage != "" || k.inUse() || k.Adopt != "" }

const (
	// UnknownOwner is the owner of a state without resources that another run has
	// changed.
	UnknownOwner = "another workspace"
	// NoOwner is the owner of a state whose workspace has destroyed its resources.
	NoOwner = "none"
)

// IsFree reports whether a state has nothing that belongs to another workspace than the
// owner.
func (s StateInfo) IsFree(owner string) bool {
	return s.Resources == 0 && (s.Owner == NoOwner || s.Owner == owner)
}

// isFree reports whether a state has nothing that belongs to another workspace.
func (k KnownState) isFree(found StateInfo) bool { return found.IsFree(k.Owner) }

// StateProblem is a difference between the known state and the one in the backend.
type StateProblem string

const (
	// StateMissing means that the backend does not have the known state.
	StateMissing StateProblem = "StateMissing"
	// StateForeign means that the backend has the state of another workspace.
	StateForeign StateProblem = "StateForeign"
	// StateOutdated means that the backend has an earlier version of the state.
	StateOutdated StateProblem = "StateOutdated"
)

// Compare returns what is wrong with the state that was found in the backend, or an
// empty string. A found state without a lineage does not exist. In an own backend
// each workspace has a state that no other can have, so that an unknown state is
// that of an earlier workspace of the same name.
func (k KnownState) Compare(found StateInfo, own bool) StateProblem {
	switch {
	case k.Adopt == k.AdoptNothing() && (found.Lineage == "" || found.Lineage != k.Lineage && (k.isFree(found) || own && found.Resources == 0)):
		return ""
	case found.Lineage == "":
		if k.Resources > 0 || k.Unconfirmed && k.Lineage != "" || k.Expected != "" {
			return StateMissing
		}
		return ""
	case k.Adopt == found.Version():
		return ""
	case k.Lineage == "" && k.Expected != "" && k.Expected != found.Lineage && found.Resources == 0:
		return StateMissing
	case k.Lineage == "":
		// A state that was used before lineages were recorded is trusted. A run that was
		// lost before it recorded the lineage has changed nothing in the backend.
		if k.Resources > 0 || own || k.isFree(found) {
			return ""
		}
		return StateForeign
	case k.Lineage != found.Lineage:
		if (own && found.Resources == 0 || k.isFree(found)) && !k.inUse() {
			return ""
		}
		if found.Resources == 0 && k.Resources > 0 {
			return StateMissing
		}
		return StateForeign
	case found.Serial < k.Serial && (found.Resources > 0 || k.inUse()):
		return StateOutdated
	default:
		return ""
	}
}

// Explain describes a problem and what to do about it. The location says where the
// state is.
func (p StateProblem) Explain(known KnownState, found StateInfo, location string) string {
	const adopt = "run captctl state adopt --version "
	switch p {
	case StateMissing:
		return fmt.Sprintf("the state in %s is missing or empty, but %s, so nothing was done. %s, or, to start from nothing and leave its resources to you, %s%s",
			location, had(known), restore(known), adopt, known.AdoptNothing())
	case StateForeign:
		if known.Moved && known.Lineage != "" {
			return fmt.Sprintf("the state in %s has %d resources and lineage %s, but the state of this workspace has %d resources and lineage %s, so nothing was done. The tool gives a state that it pushes into an empty backend a new lineage: if this is the copy, %s%s",
				location, found.Resources, found.Lineage, known.Resources, known.Lineage, adopt, found.Version())
		}
		if found.Resources == 0 && found.Owner != "" {
			return fmt.Sprintf("the state in %s was created by %s, so nothing was done. Use ${WORKSPACE_NAMESPACE} and ${WORKSPACE_NAME} in the backend configuration, or, to use it nevertheless, %s%s", location, found.Owner, adopt, found.Version())
		}
		return fmt.Sprintf("the state in %s has %d resources and is not the state of this workspace, so nothing was done. Use ${WORKSPACE_NAMESPACE} and ${WORKSPACE_NAME} in the backend configuration, or, to take over its resources, %s%s", location, found.Resources, adopt, found.Version())
	case StateOutdated:
		return fmt.Sprintf("the state in %s has serial %d, but serial %d was saved before, so nothing was done. Restore the latest version, or, to continue with this one, %s%s", location, found.Serial, known.Serial, adopt, found.Version())
	default:
		return ""
	}
}

// had describes the resources of a missing state.
func had(known KnownState) string {
	if known.Resources == 0 && known.Expected != "" {
		return "the annotation capt.appthrust.io/state-lineage says that there was one"
	}
	if known.Resources == 0 {
		return "a run may have created resources"
	}
	return fmt.Sprintf("it had %d resources", known.Resources)
}

// restore says how to bring back a missing state.
func restore(known KnownState) string {
	if known.Moved {
		return "Change the configuration of the backend back, bring the state with captctl state migrate-backend or push"
	}
	return "Restore it with captctl state restore or push (captctl state snapshots lists the snapshots)"
}

// Package adopt describes how far resources that CAPT did not create are taken over.
package adopt

import (
	"fmt"
	"io"
	"slices"
	"strings"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/terraform"
)

// Report describes what a plan does to the resources that are adopted.
type Report struct {
	Workspace string                `json:"workspace"`
	Stage     infrav1.AdoptionStage `json:"stage,omitempty"`
	// Applied reports that the resources are as the module says, so there is no plan.
	Applied bool `json:"applied"`
	// Plan is the ID of the plan, and Waiting reports whether it waits for approval.
	Plan    string `json:"plan,omitempty"`
	Waiting bool   `json:"waiting,omitempty"`

	Imported  []string `json:"imported,omitempty"`
	Moved     []string `json:"moved,omitempty"`
	Changed   []string `json:"changed,omitempty"`
	Created   []string `json:"created,omitempty"`
	Replaced  []string `json:"replaced,omitempty"`
	Destroyed []string `json:"destroyed,omitempty"`
	// Moves are pairs of a destroyed and a created resource that are probably the same.
	Moves []Move `json:"moves,omitempty"`
}

// Move is a change of an address.
type Move struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// String returns the moved block.
func (m Move) String() string {
	return fmt.Sprintf("moved {\n  from = %s\n  to   = %s\n}\n", m.From, m.To)
}

// Add adds the changes of a plan.
func (r *Report) Add(changes []terraform.Change) {
	for _, c := range changes {
		list := map[terraform.Action]*[]string{
			terraform.ActionImport: &r.Imported, terraform.ActionMove: &r.Moved, terraform.ActionUpdate: &r.Changed,
			terraform.ActionCreate: &r.Created, terraform.ActionReplace: &r.Replaced, terraform.ActionDelete: &r.Destroyed,
		}[c.Action]
		if list != nil {
			*list = append(*list, c.Address)
		}
	}
	r.Moves = moves(r.Destroyed, r.Created)
}

// Keeps reports whether the plan neither destroys nor replaces anything.
func (r *Report) Keeps() bool { return len(r.Destroyed)+len(r.Replaced) == 0 }

// Print prints the report with what to do next.
func (r *Report) Print(w io.Writer) error {
	var out strings.Builder
	stage := string(r.Stage)
	if stage == "" {
		stage = "none, it is complete or was never started"
	}
	fmt.Fprintf(&out, "Adoption of %s: %s\n", r.Workspace, stage)
	for _, group := range []struct {
		title     string
		addresses []string
	}{
		{"Imported", r.Imported},
		{"Moved", r.Moved},
		{"Changed in place", r.Changed},
		{"Created", r.Created},
		{"Would be replaced, which an adoption refuses", r.Replaced},
		{"Would be destroyed, which an adoption refuses", r.Destroyed},
	} {
		if len(group.addresses) > 0 {
			fmt.Fprintf(&out, "\n%s: %d\n  %s\n", group.title, len(group.addresses), strings.Join(group.addresses, "\n  "))
		}
	}
	if len(r.Moves) > 0 {
		out.WriteString("\nThese resources probably only have other addresses in the module. Compare them, then add to the module:\n\n")
		for _, move := range r.Moves {
			out.WriteString(move.String() + "\n")
		}
	}
	fmt.Fprintf(&out, "\nNext: %s\n", r.Next())
	if _, err := io.WriteString(w, out.String()); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

// Next returns what the user does next.
func (r *Report) Next() string {
	switch {
	case !r.Keeps() && r.Stage != "":
		return "adjust the module or its variables until nothing is destroyed or replaced"
	case r.Stage == infrav1.AdoptionObserve && r.Applied:
		return "the module describes what exists. Commit with captctl adopt commit " + r.Workspace
	case r.Stage == infrav1.AdoptionObserve && r.Plan == "":
		return "wait for the first plan, then push the state or add import blocks"
	case r.Stage == infrav1.AdoptionObserve:
		return "adjust the module or its variables until only the changes that you want are left, then captctl adopt commit " + r.Workspace
	case r.Stage == infrav1.AdoptionCommit && r.Applied:
		return "everything is taken over. Complete with captctl adopt complete " + r.Workspace
	case r.Stage == infrav1.AdoptionCommit && r.Waiting:
		return "review the plan and take over with captctl approve " + r.Workspace
	case r.Stage == infrav1.AdoptionCommit:
		return "wait for the plan"
	default:
		return "nothing"
	}
}

// moves returns the pairs of destroyed and created resources of one type that have the same name
// and key, and those of the types of which only one of each is left.
func moves(destroyed, created []string) []Move {
	var found []Move
	used := map[string]bool{}
	pair := func(same func(from, to string) bool) {
		for _, from := range destroyed {
			candidates := slices.DeleteFunc(slices.Clone(created), func(to string) bool { return used[to] || !same(from, to) })
			rivals := slices.DeleteFunc(slices.Clone(destroyed), func(other string) bool {
				return used[other] || len(candidates) != 1 || !same(other, candidates[0])
			})
			if !used[from] && len(candidates) == 1 && len(rivals) == 1 {
				used[from], used[candidates[0]] = true, true
				found = append(found, Move{From: from, To: candidates[0]})
			}
		}
	}
	pair(func(from, to string) bool { return resourceOf(from) == resourceOf(to) })
	pair(func(from, to string) bool { return typeOf(from) == typeOf(to) })
	slices.SortFunc(found, func(a, b Move) int { return strings.Compare(a.From, b.From) })
	return found
}

// resourceOf returns an address without its modules.
func resourceOf(address string) string {
	parts := split(address)
	return strings.Join(parts[max(0, len(parts)-2):], ".")
}

// typeOf returns the type of the resource of an address.
func typeOf(address string) string {
	parts := split(address)
	return parts[max(0, len(parts)-2)]
}

// split splits an address at the dots outside of keys.
func split(address string) []string {
	var parts []string
	start, quoted := 0, false
	for i := 0; i < len(address); i++ {
		switch address[i] {
		case '\\':
			i++
		case '"':
			quoted = !quoted
		case '.':
			if !quoted {
				parts, start = append(parts, address[start:i]), i+1
			}
		}
	}
	return append(parts, address[start:])
}

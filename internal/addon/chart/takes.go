package chart

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/appthrust/capt/internal/addon/targetpath"
	"github.com/appthrust/capt/internal/message"
)

// PathError is a path that a chart does not take.
type PathError struct {
	// Chart and Version name the chart.
	Chart, Version string
	// Path is the path that was asked for.
	Path string
	// Problem says what is wrong with it.
	Problem string
	// Nearest is the path that was most likely meant, if there is one.
	Nearest string
	// Parent is the deepest part of Path that exists, and Known what stands in
	// it.
	Parent string
	Known  []string
}

// listed is how many names an error lists.
const listed = 8

// Error says what is wrong and what to write instead.
func (e *PathError) Error() string {
	problem := fmt.Sprintf("%s %s in chart %s", e.Path, e.Problem, e.Chart)
	if e.Version != "" {
		problem += " " + e.Version
	}
	if e.Nearest != "" {
		return problem + ": did you mean " + e.Nearest + "?"
	}
	if len(e.Known) == 0 {
		return problem
	}
	where := "it"
	if e.Parent != "" {
		where = e.Parent
	}
	names, more := e.Known, ""
	if len(names) > listed {
		names, more = names[:listed], fmt.Sprintf(" and %d more", len(names)-listed)
	}
	return fmt.Sprintf("%s: %s has %s%s", problem, where, strings.Join(names, ", "), more)
}

// Takes tells whether a path leads to a value that the chart knows. It is nil
// if the chart's values have the path, its schema allows it, or it lies in an
// empty map, a list, or a map that goes to Kubernetes as it is, where charts
// take what a person puts there. Otherwise it is a *PathError with the path that
// was most likely meant.
func (c *Chart) Takes(path []targetpath.Segment) error {
	inValues := c.inValues(path)
	allowed := schemaOf(c.Schema).allows(path)
	switch {
	case inValues.found, allowed == yes, inValues.free && allowed != no:
		return nil
	case inValues.free:
		return c.refuse(path, inValues.at, "is not allowed")
	case inValues.mismatch != "":
		return c.refuse(path, inValues.at, inValues.mismatch)
	default:
		return c.refuse(path, inValues.at, "does not exist")
	}
}

// place is how far a path leads into the values.
type place struct {
	// found is set where the path exists, free where anything may stand.
	found, free bool
	// at is how many segments of the path exist.
	at int
	// mismatch says that the path goes on where nothing can be inside.
	mismatch string
}

func (c *Chart) inValues(path []targetpath.Segment) place {
	if len(path) > 1 && !path[0].IsIndex() {
		// Values below a dependency's name are that chart's.
		if sub, known := c.Dependencies[path[0].Name]; known {
			if own := walk(c.Values, path); own.found || sub == nil {
				return place{found: own.found, free: sub == nil, at: own.at}
			}
			p := sub.inValues(path[1:])
			p.at++
			if p.mismatch == "" && schemaOf(sub.Schema).allows(path[1:]) == yes {
				p.found = true
			}
			return p
		}
		if path[0].Name == "global" {
			return place{free: true, at: 1}
		}
	}
	return walk(c.Values, path)
}

func walk(values map[string]any, path []targetpath.Segment) place {
	var value any = values
	for i, segment := range path {
		if value == nil && i > 0 {
			return place{free: true, at: i}
		}
		if segment.IsIndex() {
			if _, isList := value.([]any); !isList {
				return place{at: i, mismatch: "asks for a list item where there is no list"}
			}
			// Items are what a person writes, in whatever number and shape.
			return place{free: true, at: i + 1}
		}
		inside, isMap := value.(map[string]any)
		switch {
		case !isMap:
			return place{at: i, mismatch: fmt.Sprintf("goes on below %s, which is %s", targetpath.Format(path[:i]), describe(value))}
		case i > 0 && len(inside) == 0:
			return place{free: true, at: i}
		}
		next, found := inside[segment.Name]
		if !found {
			return place{at: i, free: i > 0 && isOpen(path[i-1].Name, inside)}
		}
		value = next
	}
	return place{found: true, at: len(path)}
}

// openNames end the names of maps that charts hand on to Kubernetes as they are,
// so that their keys are Kubernetes' or a person's, not the chart's.
var openNames = []string{
	"annotations", "labels", "nodeselector", "affinity", "securitycontext", "resources", "limits", "requests",
	"strategy", "probe", "extraenv",
}

// isOpen tells whether a map takes more names than those it has by default.
func isOpen(name string, inside map[string]any) bool {
	name = strings.ToLower(name)
	if slices.ContainsFunc(openNames, func(open string) bool { return strings.HasSuffix(name, open) }) {
		return true
	}
	// Keys such as kubernetes.io/os belong to no chart.
	for key := range inside {
		if strings.ContainsAny(key, "./") {
			return true
		}
	}
	return false
}

func describe(value any) string {
	switch value.(type) {
	case []any:
		return "a list"
	case string:
		return "a string"
	case bool:
		return "true or false"
	default:
		return "a number"
	}
}

// refuse makes the error for a path of which the first at segments exist.
func (c *Chart) refuse(path []targetpath.Segment, at int, problem string) error {
	e := &PathError{
		Chart: c.Name, Version: c.Version, Path: targetpath.Format(path), Problem: problem,
		Parent: targetpath.Format(path[:at]), Known: c.children(path[:at]),
	}
	e.Nearest = c.nearest(path, at, e.Known)
	return e
}

// nearest is the path that was most likely meant: another name in the same
// place, the same name in another place, or a path that is written alike.
func (c *Chart) nearest(path []targetpath.Segment, at int, siblings []string) string {
	if at < len(path) && !path[at].IsIndex() {
		if name, found := message.Nearest(path[at].Name, siblings); found {
			meant := slices.Clone(path)
			meant[at].Name = name
			if p := c.inValues(meant); p.found || p.free || schemaOf(c.Schema).allows(meant) == yes {
				return targetpath.Format(meant)
			}
			return targetpath.Format(meant[:at+1])
		}
	}
	all := c.paths()
	last := path[len(path)-1].Name
	for _, known := range all {
		if last != "" && strings.EqualFold(known[len(known)-1].Name, last) {
			return targetpath.Format(known)
		}
	}
	written := make([]string, len(all))
	for i, known := range all {
		written[i] = targetpath.Format(known)
	}
	meant, _ := message.Nearest(targetpath.Format(path), written)
	return meant
}

// children are the names that stand at a path, in order.
func (c *Chart) children(path []targetpath.Segment) []string {
	names := map[string]bool{}
	var value any = c.Values
	for _, segment := range path {
		inside, _ := value.(map[string]any)
		value = inside[segment.Name]
	}
	inside, _ := value.(map[string]any)
	for name := range inside {
		names[name] = true
	}
	for name := range schemaOf(c.Schema).at(path).properties() {
		names[name] = true
	}
	switch {
	case len(path) == 0:
		for name := range c.Dependencies {
			names[name] = true
		}
	case c.Dependencies[path[0].Name] != nil:
		for _, name := range c.Dependencies[path[0].Name].children(path[1:]) {
			names[name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// paths are all paths of the values, shortest first.
func (c *Chart) paths() [][]targetpath.Segment {
	var all [][]targetpath.Segment
	var collect func(at []targetpath.Segment, value map[string]any)
	collect = func(at []targetpath.Segment, value map[string]any) {
		for _, name := range slices.Sorted(maps.Keys(value)) {
			path := append(slices.Clone(at), targetpath.Segment{Name: name})
			all = append(all, path)
			if inside, isMap := value[name].(map[string]any); isMap {
				collect(path, inside)
			}
		}
	}
	collect(nil, c.Values)
	slices.SortStableFunc(all, func(a, b []targetpath.Segment) int { return len(a) - len(b) })
	return all
}

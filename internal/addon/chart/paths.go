package chart

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/appthrust/capt/internal/addon/targetpath"
	"github.com/appthrust/capt/internal/message"
)

// maxListed is the number of names in an error.
const maxListed = 8

// CheckPath returns an error unless the chart has a value at a path. The
// chart has it if the path is in its values, if its schema allows it, or if it
// is inside an empty map, a list or a map that the chart passes to Kubernetes,
// where users set keys of their own.
func (c *Chart) CheckPath(path []targetpath.Segment) error {
	at := c.locate(path)
	verdict := schemaOf(c.Schema).check(path)
	switch {
	case at.found, verdict == allowed, at.open && verdict != forbidden:
		return nil
	case at.open:
		return c.pathError(path, at.depth, "is not allowed")
	case at.mismatch != "":
		return c.pathError(path, at.depth, at.mismatch)
	default:
		return c.pathError(path, at.depth, "does not exist")
	}
}

// location is the part of a path that exists in the values.
type location struct {
	// found is true if the whole path exists, open if it ends where users set keys
	// of their own.
	found, open bool
	// depth is the number of segments that exist.
	depth int
	// mismatch is set if the path continues below a value that has no children.
	mismatch string
}

func (c *Chart) locate(path []targetpath.Segment) location {
	if len(path) > 1 && !path[0].IsIndex() {
		// Values below the key of a dependency belong to that chart.
		if sub, known := c.Dependencies[path[0].Name]; known {
			if own := walk(c.Values, path); own.found || sub == nil {
				return location{found: own.found, open: sub == nil, depth: own.depth}
			}
			at := sub.locate(path[1:])
			at.depth++
			if at.mismatch == "" && schemaOf(sub.Schema).check(path[1:]) == allowed {
				at.found = true
			}
			return at
		}
		if path[0].Name == "global" {
			return location{open: true, depth: 1}
		}
	}
	return walk(c.Values, path)
}

func walk(values map[string]any, path []targetpath.Segment) location {
	var value any = values
	for i, segment := range path {
		if value == nil && i > 0 {
			return location{open: true, depth: i}
		}
		if segment.IsIndex() {
			if _, isList := value.([]any); !isList {
				return location{depth: i, mismatch: "indexes a value that is not a list"}
			}
			// Users replace the whole list.
			return location{open: true, depth: i + 1}
		}
		inside, isMap := value.(map[string]any)
		switch {
		case !isMap:
			return location{depth: i, mismatch: fmt.Sprintf("continues below %s, which is %s", targetpath.Format(path[:i]), describe(value))}
		case i > 0 && len(inside) == 0:
			return location{open: true, depth: i}
		}
		next, found := inside[segment.Name]
		if !found {
			return location{depth: i, open: i > 0 && isOpen(path[i-1].Name, inside)}
		}
		value = next
	}
	return location{found: true, depth: len(path)}
}

// openSuffixes are the suffixes of maps that charts pass to Kubernetes unchanged.
// Their keys are defined by Kubernetes or by the user, not by the chart.
var openSuffixes = []string{
	"annotations", "labels", "nodeselector", "affinity", "securitycontext", "resources", "limits", "requests",
	"strategy", "probe", "extraenv",
}

// isOpen reports whether a map may have more keys than in the default values.
func isOpen(name string, inside map[string]any) bool {
	name = strings.ToLower(name)
	if slices.ContainsFunc(openSuffixes, func(suffix string) bool { return strings.HasSuffix(name, suffix) }) {
		return true
	}
	// Keys such as kubernetes.io/os are not defined by a chart.
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

// pathError returns what is wrong with a path of which the first segments exist, and what to write
// instead.
func (c *Chart) pathError(path []targetpath.Segment, depth int, problem string) error {
	text := fmt.Sprintf("%s %s in chart %s", targetpath.Format(path), problem, c.Name)
	if c.Version != "" {
		text += " " + c.Version
	}
	known := c.children(path[:depth])
	switch nearest := c.nearest(path, depth, known); {
	case nearest != "":
		return fmt.Errorf("%s: did you mean %s?", text, nearest)
	case len(known) == 0:
		return errors.New(text)
	default:
		return fmt.Errorf("%s: %s has %s", text, cmp.Or(targetpath.Format(path[:depth]), "it"), message.List(known, maxListed))
	}
}

// nearest returns the path that the user most likely meant: a similar name with
// the same parent, the same name with another parent, or a similar path.
func (c *Chart) nearest(path []targetpath.Segment, depth int, siblings []string) string {
	if depth < len(path) && !path[depth].IsIndex() {
		if name, found := message.Nearest(path[depth].Name, siblings); found {
			meant := slices.Clone(path)
			meant[depth].Name = name
			if at := c.locate(meant); at.found || at.open || schemaOf(c.Schema).check(meant) == allowed {
				return targetpath.Format(meant)
			}
			return targetpath.Format(meant[:depth+1])
		}
	}
	all := c.paths()
	last := path[len(path)-1].Name
	for _, known := range all {
		if last != "" && strings.EqualFold(known[len(known)-1].Name, last) {
			return targetpath.Format(known)
		}
	}
	texts := make([]string, len(all))
	for i, known := range all {
		texts[i] = targetpath.Format(known)
	}
	meant, _ := message.Nearest(targetpath.Format(path), texts)
	return meant
}

// children returns the sorted keys at a path.
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

// paths returns all paths of the values, shortest first.
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

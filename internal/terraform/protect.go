package terraform

import (
	"regexp"
	"slices"
	"strings"
)

// BlockedBy returns the addresses of changes that would destroy or replace a
// resource that the request protects and that is not listed in Unprotected, or
// whose resource was not found: it may exist nevertheless, and would be lost.
func (r *Request) BlockedBy(changes []Change) []string {
	var blocked []string
	for _, change := range changes {
		if change.Action != ActionDelete && change.Action != ActionReplace && change.Reason != ReasonNotFound {
			continue
		}
		released := slices.Contains(r.Unprotected, change.Address)
		if !released && slices.ContainsFunc(r.Protect, change.matches) {
			blocked = append(blocked, change.Address)
		}
	}
	return blocked
}

// MarkNotFound returns the changes of a plan with ReasonNotFound for the resources that the
// refresh did not find. drift is what the refresh found. A resource that the plan does not
// create again is forgotten.
func MarkNotFound(changes, drift []Change) []Change {
	marked := slices.Clone(changes)
	for _, found := range drift {
		if found.Action != ActionDelete {
			continue
		}
		switch i := slices.IndexFunc(marked, func(c Change) bool { return c.Address == found.Address }); {
		case i < 0:
			marked = append(marked, Change{Address: found.Address, Type: found.Type, Action: ActionForget, Reason: ReasonNotFound})
		case marked[i].Action == ActionCreate:
			marked[i].Reason = ReasonNotFound
		}
	}
	return marked
}

// listedAddress matches one address of a list. A separator within quotes is part
// of the address.
var listedAddress = regexp.MustCompile(`(?:[^,\r\n"]|"(?:[^"\\]|\\.)*"?)+`)

// ParseAddresses returns the resource addresses of a list that is separated by
// commas or line breaks, such as the flag --allow-destroy.
func ParseAddresses(list string) []string {
	var addresses []string
	for _, address := range listedAddress.FindAllString(list, -1) {
		if address = strings.TrimSpace(address); address != "" {
			addresses = append(addresses, address)
		}
	}
	return addresses
}

// Protected reports whether the request protects a resource that is not listed in
// Unprotected.
func (r *Request) Protected(address string) bool {
	segments := splitAddress(withoutIndexes(address))
	kind := ""
	if len(segments) > 1 {
		kind = segments[len(segments)-2]
	}
	return len(r.BlockedBy([]Change{{Address: address, Action: ActionDelete, Type: kind}})) > 0
}

// matches reports whether a pattern matches the resource: its type, its address
// with or without index, or the address of a module that contains it.
func (c Change) matches(pattern string) bool {
	candidates := append([]string{c.Type}, addressForms(c.Address)...)
	if c.PreviousAddress != "" {
		candidates = append(candidates, addressForms(c.PreviousAddress)...)
	}
	if !strings.Contains(pattern, "*") {
		return slices.Contains(candidates, pattern)
	}
	parts := strings.Split(pattern, "*")
	for i := range parts {
		parts[i] = regexp.QuoteMeta(parts[i])
	}
	glob, err := regexp.Compile(`^` + strings.Join(parts, `.*`) + `$`)
	return err == nil && slices.ContainsFunc(candidates, glob.MatchString)
}

// addressForms returns the address, its modules and the address within each
// module, all with and without their index: for module.a[0].x.y[1] these are
// module.a[0].x.y[1], module.a[0].x.y, x.y, module.a[0], module.a and so on.
func addressForms(address string) []string {
	segments := splitAddress(address)
	var forms []string
	add := func(form string) {
		forms = append(forms, form, withoutIndexes(form))
		if open := lastIndex(form); open > 0 {
			forms = append(forms, form[:open])
		}
	}
	for i := 0; i+1 < len(segments) && segments[i] == "module"; i += 2 {
		add(strings.Join(segments[:i+2], "."))
		add(strings.Join(segments[i+2:], "."))
	}
	add(address)
	return forms
}

// splitAddress splits an address at the dots outside quotes and brackets.
func splitAddress(address string) []string {
	var segments []string
	start, inIndex, inQuotes := 0, false, false
	for i := 0; i < len(address); i++ {
		switch c := address[i]; {
		case inQuotes && c == '\\':
			i++
		case c == '"':
			inQuotes = !inQuotes
		case inQuotes:
		case c == '[':
			inIndex = true
		case c == ']':
			inIndex = false
		case c == '.' && !inIndex:
			segments = append(segments, address[start:i])
			start = i + 1
		}
	}
	return append(segments, address[start:])
}

func withoutIndexes(address string) string {
	segments := splitAddress(address)
	for i, segment := range segments {
		segments[i], _, _ = strings.Cut(segment, "[")
	}
	return strings.Join(segments, ".")
}

// lastIndex returns the position of the index that ends an address, or -1.
func lastIndex(address string) int {
	if !strings.HasSuffix(address, "]") {
		return -1
	}
	segments := splitAddress(address)
	last := segments[len(segments)-1]
	open := strings.Index(last, "[")
	if open < 0 {
		return -1
	}
	return len(address) - len(last) + open
}

// HoldsTainted reports whether a plan destroys resources that an interrupted run may have left
// tainted. Such a resource may be complete, and have data. A user decides about it.
func (r *Request) HoldsTainted(changes []Change) bool {
	return r.HoldTainted && slices.ContainsFunc(changes, func(c Change) bool {
		return c.Reason == ReasonTainted && (c.Action == ActionReplace || c.Action == ActionDelete)
	})
}

// Package debian resolves, downloads and reads packages of Debian without dpkg and apt,
// for any architecture.
package debian

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

// stanza is a paragraph of a control file: the values of its fields.
type stanza map[string]string

// readStanzas calls use for each stanza of a control file. Only the given fields are
// kept, because the index of a suite has 70 000 stanzas.
func readStanzas(r io.Reader, fields []string, use func(stanza)) error {
	keep := map[string]bool{}
	for _, f := range fields {
		keep[f] = true
	}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	current, last := stanza{}, ""
	for lines.Scan() {
		line := lines.Text()
		switch {
		case strings.TrimSpace(line) == "":
			if len(current) > 0 {
				use(current)
			}
			current, last = stanza{}, ""
		case line[0] == ' ' || line[0] == '\t':
			if keep[last] {
				current[last] += "\n" + strings.TrimSpace(line)
			}
		default:
			name, value, found := strings.Cut(line, ":")
			if !found {
				return fmt.Errorf("malformed line %q", line)
			}
			if last = name; keep[name] {
				current[name] = strings.TrimSpace(value)
			}
		}
	}
	if len(current) > 0 {
		use(current)
	}
	return lines.Err()
}

// CompareVersions compares two versions as Debian's policy manual defines: epoch, then
// upstream version, then revision.
func CompareVersions(a, b string) int {
	epochA, upstreamA, revisionA := splitVersion(a)
	epochB, upstreamB, revisionB := splitVersion(b)
	for _, parts := range [][2]string{{epochA, epochB}, {upstreamA, upstreamB}, {revisionA, revisionB}} {
		if order := comparePart(parts[0], parts[1]); order != 0 {
			return order
		}
	}
	return 0
}

func splitVersion(v string) (epoch, upstream, revision string) {
	epoch, upstream, found := strings.Cut(v, ":")
	if !found {
		epoch, upstream = "0", v
	}
	if i := strings.LastIndexByte(upstream, '-'); i >= 0 {
		upstream, revision = upstream[:i], upstream[i+1:]
	}
	return epoch, upstream, revision
}

// comparePart compares alternating runs of non-digits and digits.
func comparePart(a, b string) int {
	for a != "" || b != "" {
		textA, restA := span(a, false)
		textB, restB := span(b, false)
		for i := range max(len(textA), len(textB)) {
			if order := weight(textA, i) - weight(textB, i); order != 0 {
				return order
			}
		}
		numberA, nextA := span(restA, true)
		numberB, nextB := span(restB, true)
		numberA, numberB = strings.TrimLeft(numberA, "0"), strings.TrimLeft(numberB, "0")
		if len(numberA) != len(numberB) {
			return len(numberA) - len(numberB)
		}
		if order := strings.Compare(numberA, numberB); order != 0 {
			return order
		}
		a, b = nextA, nextB
	}
	return 0
}

// span splits s after its leading digits or non-digits.
func span(s string, digits bool) (head, rest string) {
	for i := range len(s) {
		if (s[i] >= '0' && s[i] <= '9') != digits {
			return s[:i], s[i:]
		}
	}
	return s, ""
}

// weight returns the order of a character: a tilde sorts before the end, letters before
// everything else.
func weight(s string, i int) int {
	switch {
	case i >= len(s):
		return 0
	case s[i] == '~':
		return -1
	case s[i] >= 'a' && s[i] <= 'z' || s[i] >= 'A' && s[i] <= 'Z':
		return int(s[i])
	default:
		return int(s[i]) + 256
	}
}

// Package message builds the text of conditions, events and errors: shortened,
// listed, and with the name that was probably meant.
package message

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

const ellipsis = "…"

// Truncate returns text with at most limit bytes. A shortened text ends at a
// character boundary, with an ellipsis that counts towards the limit.
func Truncate(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	end := max(limit-len(ellipsis), 0)
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return strings.TrimRight(text[:end], " ") + ellipsis
}

// TruncateWidth returns text with at most width characters, the ellipsis of a
// shortened text included.
func TruncateWidth(text string, width int) string {
	if utf8.RuneCountInString(text) <= width {
		return text
	}
	runes := []rune(text)
	return strings.TrimRight(string(runes[:max(width-1, 0)]), " ") + ellipsis
}

// Tail returns the end of text with at most limit bytes, without white space around
// it. A shortened text begins at the start of a line if it has more than one.
func Tail(text string, limit int) string {
	if len(text) > limit {
		text = text[len(text)-limit:]
		if _, rest, found := strings.Cut(text, "\n"); found {
			text = rest
		}
	}
	return strings.TrimSpace(strings.ToValidUTF8(text, ""))
}

// OneLine returns text with every run of white space, line breaks included,
// replaced by one space. Invalid UTF-8 becomes the replacement character.
func OneLine(text string) string {
	return strings.Join(strings.Fields(strings.ToValidUTF8(text, "\uFFFD")), " ")
}

// List joins at most limit names with commas, and counts the rest: "a, b and 3
// more".
func List(names []string, limit int) string {
	return join(names, limit, ", ", " and %d more")
}

// Sentences joins at most limit sentences or clauses with semicolons, and counts
// the rest: "a; b; and 3 more".
func Sentences(sentences []string, limit int) string {
	return join(sentences, limit, "; ", "; and %d more")
}

func join(items []string, limit int, separator, rest string) string {
	text := strings.Join(items[:min(len(items), limit)], separator)
	if more := len(items) - limit; more > 0 {
		text += fmt.Sprintf(rest, more)
	}
	return text
}

// Suggestion returns `: did you mean "…"?` with the known name that is nearest
// to name, or an empty string.
func Suggestion(name string, known []string) string {
	nearest, found := Nearest(name, known)
	if !found {
		return ""
	}
	return fmt.Sprintf(": did you mean %q?", nearest)
}

// Nearest returns the known name that a user most likely meant by name. It finds
// none if all of them are too different.
func Nearest(name string, known []string) (string, bool) {
	best, found := "", false
	// More than every third character wrong is another word, not a typing error.
	limit := max(1, utf8.RuneCountInString(name)/3)
	closest := [2]int{limit + 1, 0}
	for _, candidate := range known {
		// Spelling counts before case.
		d := [2]int{distance(strings.ToLower(name), strings.ToLower(candidate)), distance(name, candidate)}
		if slices.Compare(d[:], closest[:]) < 0 {
			best, found, closest = candidate, true, d
		}
	}
	return best, found
}

// distance returns the number of characters to insert, delete, replace or swap
// with their neighbour to turn a into b.
func distance(a, b string) int {
	s, t := []rune(a), []rune(b)
	before, previous, current := make([]int, len(t)+1), make([]int, len(t)+1), make([]int, len(t)+1)
	for j := range previous {
		previous[j] = j
	}
	for i := 1; i <= len(s); i++ {
		current[0] = i
		for j := 1; j <= len(t); j++ {
			cost := 1
			if s[i-1] == t[j-1] {
				cost = 0
			}
			current[j] = min(previous[j]+1, current[j-1]+1, previous[j-1]+cost)
			if i > 1 && j > 1 && s[i-1] == t[j-2] && s[i-2] == t[j-1] {
				current[j] = min(current[j], before[j-2]+1)
			}
		}
		before, previous, current = previous, current, before
	}
	return previous[len(t)]
}

// Package page parses a page of Cluster API's provider contract into clauses:
// everything that a provider must, should or is expected to do.
package page

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Clause is a sentence that is a requirement for providers.
type Clause struct {
	// Section is the title of the section of the clause.
	Section string
	// Name begins with the verb of the requirement and is unique in its section.
	Name string
	// Text is the sentence. An item of a list begins with the sentence before the list.
	Text string
	// Code is the Go code that follows the paragraph of the clause.
	Code []string
}

// Sum returns a hash of the text and the code of the clause.
func (c Clause) Sum() string {
	hash := sha256.Sum256([]byte(c.Text + "\n" + strings.Join(c.Code, "\n")))
	return hex.EncodeToString(hash[:6])
}

// nameWords is the number of words after the verb in a name.
const nameWords = 6

var (
	shouted  = regexp.MustCompile(`\b(?:MUST|SHOULD)\b`)
	spoken   = regexp.MustCompile(`\b(?:must|should)\b`)
	expected = regexp.MustCompile(`\b(?:is|are|be) expected to\b`)
	trimmed  = strings.NewReplacer("`", "", "**", "", ",", "", ":", "", ";", "", "(", " ", ")", " ", "\"", "")
)

// verb returns the index of the verb of a requirement: the strongest one of a sentence.
func verb(sentence string) int {
	for _, word := range []*regexp.Regexp{shouted, spoken, expected} {
		if at := word.FindStringIndex(sentence); at != nil {
			return at[0]
		}
	}
	return -1
}

// nameOf returns the name of a sentence, from its verb on.
func nameOf(sentence string) string {
	words := strings.Fields(trimmed.Replace(sentence))
	return strings.TrimRight(strings.Join(words[:min(len(words), nameWords+1)], " "), ".")
}

// reader collects the clauses of a page.
type reader struct {
	clauses []Clause
	section string
	names   map[string]int
	// last are the clauses of the last paragraph with clauses, to which code belongs.
	// fresh reports whether the next clause is of another paragraph.
	last  []int
	fresh bool
	// lead is the clause of the items of a list. listed reports whether there are any.
	lead   string
	listed bool
}

// Parse parses a page. It ignores tables, links, code and the deprecated contract; of
// Go code it reads the comments of fields.
func Parse(markdown string) ([]Clause, error) {
	r := &reader{names: map[string]int{}}
	for _, b := range withoutDeprecated(blocks(markdown)) {
		if b.kind != item {
			r.endList()
		}
		switch b.kind {
		case heading:
			r.section, r.last = plain(b.text), nil
		case paragraph:
			r.paragraph(b.text)
		case item:
			r.item(b.text)
		case code:
			if err := r.code(b); err != nil {
				return nil, fmt.Errorf("reading the code of section %q: %w", r.section, err)
			}
		}
	}
	r.endList()
	return r.clauses, nil
}

func (r *reader) paragraph(text string) {
	r.fresh = true
	for _, sentence := range sentences(plain(text)) {
		at := verb(sentence)
		switch {
		case at < 0:
		case strings.HasSuffix(sentence, ":"):
			r.lead, r.listed = sentence, false
		default:
			r.add(nameOf(sentence[at:]), sentence)
		}
	}
}

// endList adds a lead without a list as a clause.
func (r *reader) endList() {
	if r.lead != "" && !r.listed {
		r.add(nameOf(r.lead[verb(r.lead):]), r.lead)
	}
	r.lead = ""
}

// item reads an item of a list, which may inherit its verb from the lead.
func (r *reader) item(text string) {
	r.fresh, r.listed = true, true
	for i, sentence := range sentences(plain(text)) {
		at := verb(sentence)
		switch {
		case i == 0 && r.lead != "":
			word := strings.Fields(trimmed.Replace(r.lead[verb(r.lead):]))[0]
			r.add(nameOf(word+" "+sentence), r.lead+" "+sentence)
		case at >= 0:
			r.add(nameOf(sentence[at:]), sentence)
		}
	}
}

// code adds code to the clauses of the paragraph before it, and reads the comments of
// its fields.
func (r *reader) code(b block) error {
	if b.language != "go" {
		return nil
	}
	for _, i := range r.last {
		r.clauses[i].Code = append(r.clauses[i].Code, b.text)
	}
	owners := slices.Clone(r.last)
	fields, err := Fields(b.text)
	if err != nil {
		return err
	}
	for _, f := range fields {
		for _, sentence := range sentences(plain(f.Doc)) {
			if at := verb(sentence); at >= 0 {
				r.add(nameOf(sentence[at:]), f.Path+": "+sentence)
			}
		}
	}
	r.last, r.fresh = owners, true
	return nil
}

func (r *reader) add(name, text string) {
	key := r.section + "\n" + name
	r.names[key]++
	if n := r.names[key]; n > 1 {
		name = fmt.Sprintf("%s (%d)", name, n)
	}
	if r.fresh {
		r.last, r.fresh = nil, false
	}
	r.last = append(r.last, len(r.clauses))
	r.clauses = append(r.clauses, Clause{Section: r.section, Name: name, Text: text})
}

var (
	linked     = regexp.MustCompile(`(^|[^\w])\[([^\]]*)\](\([^)]*\)|\[[^\]]*\])?`)
	endings    = regexp.MustCompile(`[.!?]\s+`)
	shortForms = []string{"e.g.", "i.e.", "etc."}
)

// plain removes the markup of a text.
func plain(text string) string {
	text = linked.ReplaceAllString(text, "$1$2")
	text = strings.NewReplacer("`", "", "**", "").Replace(text)
	return strings.Join(strings.Fields(text), " ")
}

// sentences splits a text into sentences.
func sentences(text string) []string {
	var found []string
	start := 0
	for _, at := range endings.FindAllStringIndex(text, -1) {
		head, rest := text[start:at[0]+1], text[at[1]:]
		if short(head) || rest != "" && strings.ToUpper(rest[:1]) != rest[:1] {
			continue
		}
		found = append(found, head)
		start = at[1]
	}
	return append(found, text[start:])
}

func short(text string) bool {
	for _, form := range shortForms {
		if strings.HasSuffix(text, form) {
			return true
		}
	}
	return false
}

package page

import (
	"regexp"
	"strings"
)

type kind int

const (
	heading kind = iota
	paragraph
	item
	code
	asideBegins
	asideEnds
)

// block is a piece of a page.
type block struct {
	kind     kind
	text     string
	language string
}

var (
	headingLine = regexp.MustCompile(`^#{1,6} +(.*)$`)
	itemLine    = regexp.MustCompile(`^\s*(?:[-*]|\d+\.) +(.*)$`)
	fenceLine   = regexp.MustCompile("^\\s*```\\s*(\\w*)\\s*$")
	ignoredLine = regexp.MustCompile(`^(?:\||!\[|\[[^\]]*\]: )`)
	asideTitle  = regexp.MustCompile(`^<h1>(.*)</h1>$`)
)

// blocks splits a page.
func blocks(markdown string) []block {
	var all []block
	inCode, open := false, false
	push := func(kind kind, text string) { all, open = append(all, block{kind: kind, text: text}), true }
	for line := range strings.Lines(markdown) {
		line = strings.TrimRight(line, "\r\n")
		fence := fenceLine.FindStringSubmatch(line)
		text := strings.TrimSpace(line)
		switch {
		case inCode && fence == nil:
			all[len(all)-1].text += line + "\n"
		case inCode:
			inCode, open = false, false
		case fence != nil:
			inCode = true
			all = append(all, block{kind: code, language: fence[1]})
		case strings.HasPrefix(text, "<aside"):
			push(asideBegins, "")
			open = false
		case strings.HasPrefix(text, "</aside"):
			push(asideEnds, "")
			open = false
		case text == "" || ignoredLine.MatchString(text):
			open = false
		case asideTitle.MatchString(text):
			push(paragraph, asideTitle.FindStringSubmatch(text)[1])
			open = false
		case headingLine.MatchString(line):
			push(heading, headingLine.FindStringSubmatch(line)[1])
			open = false
		case itemLine.MatchString(line):
			push(item, itemLine.FindStringSubmatch(line)[1])
		case open:
			all[len(all)-1].text += " " + text
		default:
			push(paragraph, text)
		}
	}
	return all
}

// deprecated is the title of asides about the previous contract.
const deprecated = "deprecated v1beta1 contract"

// withoutDeprecated removes the asides about the previous contract, and the markup of
// the others.
func withoutDeprecated(all []block) []block {
	var kept []block
	skipping := false
	for i, b := range all {
		switch {
		case b.kind == asideBegins:
			skipping = i+1 < len(all) && strings.Contains(all[i+1].text, deprecated)
		case b.kind == asideEnds:
			skipping = false
		case !skipping:
			kept = append(kept, b)
		}
	}
	return kept
}

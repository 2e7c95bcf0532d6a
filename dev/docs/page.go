package main

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"unicode"
)

// page is a page in Markdown.
type page struct {
	// path is relative to the root of the repository, with slashes.
	path    string
	anchors map[string]bool
	links   []link
	blocks  []block
	// reason is why no block is run, and reasonLine where the page says so.
	reason     string
	reasonLine int
	// unnamed are the lines of fences without a language, and images those of images in HTML.
	unnamed, images []int
}

// link is a link or an image.
type link struct {
	target string
	line   int
}

// block is a block of commands.
type block struct {
	line int
	// run is the name of the scenario that runs it, and reason why it is not run.
	run, reason string
	text        string
}

var (
	heading    = regexp.MustCompile(`^#{1,6} +(.*?)(?: +#+)? *$`)
	fence      = regexp.MustCompile("^( *)(```+|~~~+) *([a-z]*)")
	inlineCode = regexp.MustCompile("`[^`]*`")
	inlineLink = regexp.MustCompile(`!?\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]*(?:\([^()]*\)[^()\s]*)?)(?: "[^"]*")?\)`)
	htmlAnchor = regexp.MustCompile(`<a (?:id|name)="([^"]+)"`)
	runMarker  = regexp.MustCompile(`^<!-- run: ([a-z-]+) -->$`)
	notMarker  = regexp.MustCompile(`^<!-- not run: (.+) -->$`)
	pageMarker = regexp.MustCompile(`^<!-- blocks not run: (.+) -->$`)
)

// commandLanguages are the languages of blocks that users run.
var commandLanguages = map[string]bool{"sh": true, "bash": true, "shell": true, "console": true}

func readPage(root, path string) (*page, error) {
	text, err := os.ReadFile(root + "/" + path)
	if err != nil {
		return nil, fmt.Errorf("reading a page: %w", err)
	}
	return parsePage(path, string(text)), nil
}

// parsePage finds the anchors, links and command blocks of a page.
func parsePage(path, text string) *page {
	p := &page{path: path, anchors: map[string]bool{}}
	used := map[string]int{}
	previous, closing := "", ""
	var open *block
	for i, line := range strings.Split(text, "\n") {
		trimmed := strings.TrimSpace(line)
		if closing != "" {
			switch {
			case strings.HasPrefix(trimmed, closing) && strings.Trim(trimmed, closing[:1]) == "":
				if open != nil {
					p.blocks = append(p.blocks, *open)
				}
				closing, open = "", nil
			case open != nil:
				open.text += line + "\n"
			}
			previous = trimmed
			continue
		}
		if found := fence.FindStringSubmatch(line); found != nil {
			closing = found[2]
			if found[3] == "" {
				p.unnamed = append(p.unnamed, i+1)
			}
			if commandLanguages[found[3]] {
				open = &block{line: i + 1}
				if marker := runMarker.FindStringSubmatch(previous); marker != nil {
					open.run = marker[1]
				}
				if marker := notMarker.FindStringSubmatch(previous); marker != nil {
					open.reason = marker[1]
				}
			}
			continue
		}
		if marker := pageMarker.FindStringSubmatch(trimmed); marker != nil {
			p.reason, p.reasonLine = marker[1], i+1
		}
		if found := heading.FindStringSubmatch(line); found != nil {
			p.addAnchor(used, found[1])
		}
		if strings.Contains(inlineCode.ReplaceAllString(line, "code"), "<img ") {
			p.images = append(p.images, i+1)
		}
		for _, found := range htmlAnchor.FindAllStringSubmatch(line, -1) {
			p.anchors[found[1]] = true
		}
		for _, found := range inlineLink.FindAllStringSubmatch(inlineCode.ReplaceAllString(line, "code"), -1) {
			p.links = append(p.links, link{target: found[2], line: i + 1})
		}
		if trimmed != "" {
			previous = trimmed
		}
	}
	return p
}

func (p *page) addAnchor(used map[string]int, title string) {
	slug := slugOf(title)
	count := used[slug]
	used[slug]++
	if count > 0 {
		slug += "-" + strconv.Itoa(count)
	}
	p.anchors[slug] = true
}

// slugOf returns the anchor that GitHub gives a heading.
func slugOf(title string) string {
	title = inlineLink.ReplaceAllString(title, "$1")
	var slug strings.Builder
	for _, r := range strings.ToLower(title) {
		switch {
		case r == ' ':
			slug.WriteByte('-')
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			slug.WriteRune(r)
		}
	}
	return slug.String()
}

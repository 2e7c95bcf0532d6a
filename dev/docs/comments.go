package main

import (
	"fmt"
	"strings"
)

// commentProblems returns a finding for each comment in a block of commands. Interactive zsh,
// the shell of macOS, has no comments: it passes the words to the command, or runs them.
// Generated pages have lines of comments, as help texts do.
func commentProblems(p *page) []string {
	var findings []string
	for _, b := range p.blocks {
		lines := strings.Split(b.text, "\n")
		for _, number := range commentLines(b.text) {
			if strings.HasPrefix(p.path, generatedPages) && strings.HasPrefix(strings.TrimSpace(lines[number-1]), "#") {
				continue
			}
			findings = append(findings, fmt.Sprintf("%s:%d: a comment is an argument, or a command, in interactive zsh: write it in the text", p.path, b.line+number))
		}
	}
	return findings
}

// commentLines returns the numbers of the lines of a block with a comment of the shell. Quoted
// text, here-documents, and what the commands of a console print have none.
func commentLines(text string) []int {
	var found []int
	console := strings.HasPrefix(text, "$ ")
	var quote byte
	end := ""
	for i, line := range strings.Split(text, "\n") {
		if end != "" {
			if strings.TrimSpace(line) == end {
				end = ""
			}
			continue
		}
		if console {
			command, prompted := strings.CutPrefix(line, "$ ")
			if !prompted {
				continue
			}
			line, quote = command, 0
		}
		if document := hereDoc.FindStringSubmatch(line); document != nil {
			end = document[1]
		}
		comment := false
		if comment, quote = scan(line, quote); comment {
			found = append(found, i+1)
		}
	}
	return found
}

// scan reports whether a line has a comment. It begins in the quotes that the line before it has
// left open, and returns those that it leaves open, or 0.
func scan(line string, quote byte) (comment bool, open byte) {
	begins := true
	for i := 0; i < len(line); i++ {
		c := line[i]
		switch {
		case c == '\\' && quote != '\'':
			i++
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '\'' || c == '"':
			quote = c
		case c == '#' && begins:
			return true, 0
		}
		begins = quote == 0 && (c == ' ' || c == '\t')
	}
	return false, quote
}

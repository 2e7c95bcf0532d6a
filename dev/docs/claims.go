package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

const (
	// claimsPage is the page whose statements all name a test.
	claimsPage = "docs/security.md"
	// limitsHeading is the heading of what the page does not promise.
	limitsHeading = "What is not protected"
)

var (
	namedTest   = regexp.MustCompile("`?\\b([a-z0-9/]+) ((?:Test|Fuzz)[A-Za-z_0-9]+)`?")
	testMarker  = regexp.MustCompile(`<!-- test: (.+?) -->`)
	notTested   = regexp.MustCompile(`<!-- not tested: .+? -->`)
	noClaim     = regexp.MustCompile(`<!-- no claim -->`)
	notTestCell = regexp.MustCompile(`^not tested: .+`)
	listItem    = regexp.MustCompile(`^\s*(?:[-*]|[0-9]+\.) `)
	tableRule   = regexp.MustCompile(`^\|[-:| ]+\|$`)
)

const claimHelp = "name a test as `package TestName` in its cell or in <!-- test: package TestName -->, or write <!-- not tested: REASON --> or <!-- no claim -->"

// claim is a statement of the page: a row of a table with tests, another table, a list
// item or a paragraph.
type claim struct {
	line int
	text string
	// row is set for a row of a table whose last column has the tests.
	row bool
}

// claimProblems returns a finding for each statement of the page that names no test, and for
// each test that does not exist. A repository without the page has none.
func claimProblems(root string) ([]string, error) {
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(claimsPage)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading a page: %w", err)
	}
	var findings []string
	for _, c := range claimsOf(string(text)) {
		named := c.tests()
		if len(named) == 0 && !c.excused() {
			findings = append(findings, fmt.Sprintf("%s:%d: the statement names no test: %s", claimsPage, c.line, claimHelp))
		}
		for _, test := range named {
			found, err := hasTest(filepath.Join(root, filepath.FromSlash(test[1])), test[2])
			if err != nil {
				return nil, err
			}
			if !found {
				findings = append(findings, fmt.Sprintf("%s:%d: %s has no %s", claimsPage, c.line, test[1], test[2]))
			}
		}
	}
	return findings, nil
}

// tests returns the packages and names of the tests of a claim.
func (c claim) tests() [][]string {
	if c.row {
		return namedTest.FindAllStringSubmatch(lastCell(c.text), -1)
	}
	var named [][]string
	for _, marker := range testMarker.FindAllStringSubmatch(c.text, -1) {
		named = append(named, namedTest.FindAllStringSubmatch(marker[1], -1)...)
	}
	return named
}

// excused reports whether the page says why a claim has no test.
func (c claim) excused() bool {
	if c.row {
		return notTestCell.MatchString(lastCell(c.text))
	}
	return notTested.MatchString(c.text) || noClaim.MatchString(c.text)
}

func lastCell(row string) string {
	cells := strings.Split(strings.TrimSuffix(strings.TrimSpace(row), "|"), "|")
	return strings.TrimSpace(cells[len(cells)-1])
}

// claimsOf returns the statements of a page: not the headings, code, lines that consist of
// links to headings, and the section about limits. A comment belongs to what is before it.
func claimsOf(text string) []claim {
	var claims []claim
	closing, continues, tests, limits := "", false, false, false
	for i, line := range strings.Split(text, "\n") {
		trimmed := strings.TrimSpace(line)
		if closing != "" {
			if strings.HasPrefix(trimmed, closing) {
				closing = ""
			}
			continue
		}
		if found := fence.FindStringSubmatch(line); found != nil {
			closing, continues = found[2], false
			continue
		}
		if found := heading.FindStringSubmatch(line); found != nil {
			limits, continues = found[1] == limitsHeading, false
			continue
		}
		switch isTable := strings.HasPrefix(trimmed, "|"); {
		case trimmed == "" || limits:
			continues = false
		case strings.HasPrefix(trimmed, "<!--"):
			if len(claims) > 0 {
				claims[len(claims)-1].text += " " + trimmed
			}
		case isTable && !continues:
			// The header. A table without a column of tests is one claim.
			continues, tests = true, lastCell(trimmed) == "test"
			if !tests {
				claims = append(claims, claim{line: i + 1, text: trimmed})
			}
		case isTable && tests && !tableRule.MatchString(trimmed):
			claims = append(claims, claim{line: i + 1, text: trimmed, row: true})
		case isTable || strings.HasPrefix(trimmed, "[") && strings.Contains(trimmed, "](#"):
		case continues && !listItem.MatchString(line):
			claims[len(claims)-1].text += " " + trimmed
		default:
			continues = true
			claims = append(claims, claim{line: i + 1, text: trimmed})
		}
	}
	return claims
}

// hasTest reports whether the package in a directory declares a test.
func hasTest(dir, name string) (bool, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		return false, fmt.Errorf("listing tests: %w", err)
	}
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			return false, fmt.Errorf("reading tests: %w", err)
		}
		for _, declared := range parsed.Decls {
			if function, ok := declared.(*ast.FuncDecl); ok && function.Recv == nil && function.Name.Name == name {
				return true, nil
			}
		}
	}
	return false, nil
}

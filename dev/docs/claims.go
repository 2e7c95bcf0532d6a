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
	// claimsPage is the page whose statements all have tests, and limitsPage has such
	// statements, too.
	claimsPage, limitsPage = "docs/security.md", "docs/limits.md"
	// testsPage has the tests of statements with numbers.
	testsPage = "docs/security-tests.md"
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
	numbered    = regexp.MustCompile(`^\| ([A-Z][0-9]+) \|`)
)

const claimHelp = "give it a number and tests in " + testsPage + ", or name a test as `package TestName` in its cell or in <!-- test: package TestName -->, or write <!-- not tested: REASON --> or <!-- no claim -->"

// claim is a statement of the page: a row of a table with tests, another table, a list
// item or a paragraph.
type claim struct {
	line int
	text string
	// number is that of a row whose tests are on another page.
	number string
	// row is set for a row of a table whose last column has the tests.
	row bool
}

// claimProblems returns a finding for each statement that has no test, for each test that does
// not exist, and for tests of a statement that does not exist. A repository without the page
// has none.
func claimProblems(root string) ([]string, error) {
	pages := map[string][]claim{}
	for _, page := range []string{claimsPage, limitsPage, testsPage} {
		text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(page)))
		if page == claimsPage && errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("reading a page: %w", err)
		}
		pages[page] = claimsOf(string(text))
	}
	var findings []string
	tests := map[string]claim{}
	for _, row := range pages[testsPage] {
		if row.number == "" {
			continue
		}
		if _, found := tests[row.number]; found {
			findings = append(findings, fmt.Sprintf("%s:%d: there are two rows %s", testsPage, row.line, row.number))
		}
		row.row = true
		tests[row.number] = row
	}
	for _, page := range []string{claimsPage, limitsPage} {
		for _, c := range pages[page] {
			from, at := page, c
			if c.number != "" {
				row, found := tests[c.number]
				if !found {
					findings = append(findings, fmt.Sprintf("%s:%d: %s has no row %s", page, c.line, testsPage, c.number))
					continue
				}
				from, at = testsPage, row
				delete(tests, c.number)
			}
			problems, err := at.problems(root, from)
			if err != nil {
				return nil, err
			}
			findings = append(findings, problems...)
		}
	}
	for _, row := range pages[testsPage] {
		if _, found := tests[row.number]; found {
			findings = append(findings, fmt.Sprintf("%s:%d: no claim has the number %s", testsPage, row.line, row.number))
		}
	}
	return findings, nil
}

// problems returns what is wrong with the tests that a claim names on a page.
func (c claim) problems(root, page string) ([]string, error) {
	named := c.tests()
	if len(named) == 0 && !c.excused() {
		return []string{fmt.Sprintf("%s:%d: the statement names no test: %s", page, c.line, claimHelp)}, nil
	}
	var findings []string
	for _, test := range named {
		found, err := hasTest(filepath.Join(root, filepath.FromSlash(test[1])), test[2])
		if err != nil {
			return nil, err
		}
		if !found {
			findings = append(findings, fmt.Sprintf("%s:%d: %s has no %s", page, c.line, test[1], test[2]))
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
// links to headings, and the section about what is not promised. A comment belongs to what is before it.
func claimsOf(text string) []claim {
	var claims []claim
	closing, continues, tests, numbers, limits := "", false, false, false, false
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
			continues, tests, numbers = true, lastCell(trimmed) == "test", strings.HasPrefix(trimmed, "| # |")
			if !tests && !numbers {
				claims = append(claims, claim{line: i + 1, text: trimmed})
			}
		case isTable && tests && !tableRule.MatchString(trimmed):
			claims = append(claims, claim{line: i + 1, text: trimmed, row: true})
		case isTable && numbers && !tableRule.MatchString(trimmed):
			found := claim{line: i + 1, text: trimmed, row: true}
			if match := numbered.FindStringSubmatch(trimmed); match != nil {
				found.number = match[1]
			}
			claims = append(claims, found)
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

package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// phrase is wording that the project has replaced.
type phrase struct {
	pattern *regexp.Regexp
	instead string
}

// phrases lists replaced wording. The words of a pattern may be separated by any
// white space and by one line break, also within a comment.
var phrases = compile(map[string]string{
	`(?-i:[Nn]obody)|no-one`:                             `name the actor ("no controller", "no user") or use the passive`,
	`somebody|someone|everybody|everyone|anybody|anyone`: `name the actor, such as "the user" or "another controller"`,
	`whoever`:                `name the actor, such as "the user"`,
	`people`:                 `"users"`,
	`a person|the person`:    `"a user"`,
	`(tells?|says?) whether`: `"reports whether"`,
	`tells? (which|what|how|where|of|that)|says? of`: `"returns", "reports" or "describes"`,
	`(is|are) to be had|be had|had back`:             `"exists" or "is available"`,
	`cannot be asked`:                                `"is unreachable"`,
	`mend(s|ed|ing)?`:                                `"fix"`,
	`(look|looks|looked|looking) at`:                 `"observe", "read" or "check"`,
	`(take|takes|took|taken|taking)( \w+){0,3} away`: `"remove"`,
	`if you mean it`:                                 `say what the flag does`,
	`once and for all`:                               `"once"`,
	`(go|goes|went) on`:                              `"continue" or "keep running"`,
	`out of processes|processes of this machine`:     `"that runs as processes"`,
	`kwok plays|played by`:                           `"simulated by"`,
	`the house`:                                      `"the packages" or "the layout"`,
	`\w+ (is|are|was|were) no \w+`:                   `"is not a …"`,
})

// allowed matches the uses of a phrase that are ordinary English.
var allowed = regexp.MustCompile(`(?i)^(there|where|here) |\bno (longer|more|less|problem)$`)

// separator matches the white space between two words: blanks, or a line break with
// the beginning of a comment.
const separator = `(?:[ \t]+|[ \t]*\n[ \t]*(?://|#)?[ \t]*)`

var spaces = regexp.MustCompile(separator)

func compile(list map[string]string) []phrase {
	var compiled []phrase
	for _, words := range slices.Sorted(maps.Keys(list)) {
		pattern := `(?i)\b(?:` + strings.ReplaceAll(words, " ", separator) + `)\b`
		compiled = append(compiled, phrase{regexp.MustCompile(pattern), list[words]})
	}
	return compiled
}

// checked are the suffixes of the files that are written in English.
var checked = []string{".go", ".md", ".yaml", ".yml", ".tf", ".hcl", ".py", ".sh", ".mk", "Makefile", ".ci/run"}

// unchecked are files that may contain a replaced phrase: another language, the
// license, and the list itself.
var unchecked = []string{"README.ja.md", "LICENSE", "dev/verify/language.go", "dev/verify/language_test.go"}

// verifyLanguage returns an error for each replaced phrase in the tracked files.
func verifyLanguage(root string) error {
	list, err := exec.Command("git", "-C", root, "ls-files", "-z").Output()
	if err != nil {
		return fmt.Errorf("listing the files: %w", err)
	}
	var errs []error
	for file := range strings.SplitSeq(strings.TrimRight(string(list), "\x00"), "\x00") {
		if slices.Contains(unchecked, file) || !slices.ContainsFunc(checked, func(ending string) bool { return strings.HasSuffix(file, ending) }) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, file))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("reading %s: %w", file, err)
		}
		errs = append(errs, checkLanguage(file, text)...)
	}
	return errors.Join(errs...)
}

// checkLanguage returns an error for each replaced phrase in a text, in the order of
// its lines.
func checkLanguage(file string, text []byte) []error {
	type finding struct {
		line int
		err  error
	}
	var findings []finding
	for _, phrase := range phrases {
		for _, at := range phrase.pattern.FindAllIndex(text, -1) {
			found := spaces.ReplaceAllString(string(text[at[0]:at[1]]), " ")
			if allowed.MatchString(found) {
				continue
			}
			line := 1 + bytes.Count(text[:at[0]], []byte("\n"))
			findings = append(findings, finding{line, fmt.Errorf("%s:%d: replace %q: write %s", file, line, found, phrase.instead)})
		}
	}
	slices.SortStableFunc(findings, func(a, b finding) int { return cmp.Compare(a.line, b.line) })
	var errs []error
	for _, f := range findings {
		errs = append(errs, f.err)
	}
	return errs
}

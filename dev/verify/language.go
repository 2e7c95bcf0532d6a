package main

import (
	"bytes"
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

// phrases lists replaced wording. Each pattern matches within one line, with any
// white space between its words.
var phrases = compile(map[string]string{
	`(?-i:[Nn]obody)|no-one`:              `name the actor ("no controller", "no user") or use the passive`,
	`somebody|someone else`:               `name the actor, such as "the user" or "another controller"`,
	`whoever`:                             `name the actor, such as "the user"`,
	`people`:                              `"users"`,
	`a person|the person`:                 `"a user"`,
	`(tells?|says?) whether`:              `"reports whether"`,
	`(is|are) to be had`:                  `"exists" or "is available"`,
	`cannot be asked`:                     `"is unreachable"`,
	`mend(s|ed|ing)?`:                     `"fix"`,
	`(look|looks|looked) at`:              `"observe", "read" or "check"`,
	`(take|takes|took|taken|taking) away`: `"remove"`,
	`if you mean it`:                      `say what the flag does`,
	`once and for all`:                    `"once"`,
	`(go|goes|went) on`:                   `"continue" or "keep running"`,
	`(it|that|which|what|they) (is|are) no (type|kubeconfig|version|object|number|YAML|JSON|HCL|template|module|key|name|region|duration|plan|program|violation|Cluster|ARN)s?`: `"is not a …"`,
	`the house`: `"the packages" or "the layout"`,
})

func compile(list map[string]string) []phrase {
	var compiled []phrase
	for _, words := range slices.Sorted(maps.Keys(list)) {
		pattern := `(?i)\b(?:` + strings.ReplaceAll(words, " ", `\s+`) + `)\b`
		compiled = append(compiled, phrase{regexp.MustCompile(pattern), list[words]})
	}
	return compiled
}

// checked are the suffixes of the files that are written in English.
var checked = []string{".go", ".md", ".yaml", ".yml", ".tf", ".mk", "Makefile"}

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

func checkLanguage(file string, text []byte) []error {
	var errs []error
	for i, line := range bytes.Split(text, []byte("\n")) {
		for _, phrase := range phrases {
			if found := phrase.pattern.Find(line); found != nil {
				errs = append(errs, fmt.Errorf("%s:%d: replace %q: write %s", file, i+1, found, phrase.instead))
			}
		}
	}
	return errs
}

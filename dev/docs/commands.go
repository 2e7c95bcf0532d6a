package main

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

var (
	// runs matches the statement that a test runs the commands of a block, or those of one
	// program.
	runs        = regexp.MustCompile(`\bruns? (?:it|them|the (?:same )?commands?)\b(?: of ([a-z]+))?`)
	hereDoc     = regexp.MustCompile(`<<-?\s*['"]?(\w+)['"]?`)
	assignment  = regexp.MustCompile(`^[A-Za-z_]\w*=`)
	subcommand  = regexp.MustCompile(`^[a-z][a-z-]*$`)
	separated   = regexp.MustCompile(`\s(?:&&|\|\|?|;)\s`)
	goPackage   = regexp.MustCompile(`\./((?:api|cmd|dev|internal|test)(?:/[\w-]+)*)`)
	recipeStart = regexp.MustCompile(`^([a-z0-9-]+):`)
)

// checkedPrograms are the programs whose commands a test must contain. Groups of subcommands
// are essential with what follows them.
var (
	checkedPrograms = []string{"captctl", "clusterctl", "helm", "kubectl", "make", "tofu"}
	groups          = []string{"addon", "generate", "migrate", "policy", "state", "upgrade"}
)

// runProblem returns which command of a block is not in the packages that a reason names, or
// "". A package that names the page reads the commands there.
func runProblem(root, page string, b block, reason string, packages []string) (string, error) {
	claim := runs.FindStringSubmatch(reason)
	if claim == nil {
		return "", nil
	}
	source, err := sourceOf(root, packages)
	if err != nil {
		return "", err
	}
	if strings.Contains(source, `"`+path.Base(page)+`"`) {
		return "", nil
	}
	for _, command := range commandsOf(b.text) {
		if claim[1] != "" && command[0] != claim[1] {
			continue
		}
		for _, word := range command {
			if found := regexp.MustCompile(`(?:^|[^\w-])` + regexp.QuoteMeta(word) + `(?:$|[^\w-])`).MatchString(source); !found {
				return fmt.Sprintf("%s has no %q of %q: say what the test does instead of \"runs it\", let it read the commands of the page, or name the program whose commands it runs",
					strings.Join(packages, ", "), word, strings.Join(command, " ")), nil
			}
		}
	}
	return "", nil
}

// sourceOf returns the Go code of packages.
func sourceOf(root string, packages []string) (string, error) {
	var source strings.Builder
	for _, dir := range packages {
		files, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(dir), "*.go"))
		if err != nil {
			return "", fmt.Errorf("listing tests: %w", err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				return "", fmt.Errorf("reading tests: %w", err)
			}
			source.Write(text)
		}
	}
	return source.String(), nil
}

// commandsOf returns the essential words of each command of a checked program: the program,
// its subcommand, and the names of long flags.
func commandsOf(text string) [][]string {
	var commands [][]string
	console := strings.HasPrefix(text, "$ ")
	end := ""
	for line := range strings.Lines(strings.ReplaceAll(text, "\\\n", " ")) {
		line = strings.TrimSpace(line)
		if end != "" {
			if line == end {
				end = ""
			}
			continue
		}
		if found := hereDoc.FindStringSubmatch(line); found != nil {
			end = found[1]
		}
		if prompted, is := strings.CutPrefix(line, "$ "); is {
			line = prompted
		} else if console {
			continue
		}
		for _, single := range separated.Split(line, -1) {
			if words := essential(strings.Fields(single)); words != nil {
				commands = append(commands, words)
			}
		}
	}
	return commands
}

func essential(words []string) []string {
	for len(words) > 0 && assignment.MatchString(words[0]) {
		words = words[1:]
	}
	if len(words) == 0 || !slices.Contains(checkedPrograms, path.Base(words[0])) {
		return nil
	}
	found, more := []string{path.Base(words[0])}, 1
	for _, word := range words[1:] {
		switch {
		case strings.HasPrefix(word, "--"):
			flag, _, _ := strings.Cut(word, "=")
			found = append(found, flag)
		case more > 0 && subcommand.MatchString(word):
			found = append(found, word)
			more--
			if slices.Contains(groups, word) {
				more++
			}
		}
	}
	return found
}

// makeTargets returns the targets of the Makefile, each with the packages that its recipe
// names. A repository without a Makefile has none.
func makeTargets(root string) (map[string][]string, error) {
	targets := map[string][]string{}
	text, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil && !os.IsNotExist(err) {
		return nil, fmt.Errorf("reading the Makefile: %w", err)
	}
	target := ""
	for line := range strings.Lines(string(text)) {
		if found := recipeStart.FindStringSubmatch(line); found != nil {
			target = found[1]
			targets[target] = append([]string{}, targets[target]...)
		}
		if target == "" || !strings.HasPrefix(line, "\t") {
			continue
		}
		for _, found := range goPackage.FindAllStringSubmatch(line, -1) {
			targets[target] = append(targets[target], found[1])
		}
	}
	return targets, nil
}

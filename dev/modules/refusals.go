package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// A test with expect_failures checks that an input is rejected, but not the error
// message. So the runs of this file are also run without expect_failures, one by one,
// and the error message is compared with the comment that begins with "Says:".
const refusalsFile = "refusals.tftest.hcl"

// refusal is a run that must fail.
type refusal struct {
	name string
	// says is a part of the expected error message.
	says string
	// test is a test file with only this run, without expect_failures.
	test string
}

var says = regexp.MustCompile(`(?m)^\s*# Says: (.+)$`)

// readRefusals parses a file of refusals.
func readRefusals(text []byte) ([]refusal, error) {
	body, err := parse(text, refusalsFile)
	if err != nil {
		return nil, err
	}
	var head strings.Builder
	var runs []*hclsyntax.Block
	for _, block := range body.Blocks {
		if block.Type == "run" {
			runs = append(runs, block)
			continue
		}
		head.Write(block.Range().SliceBytes(text))
		head.WriteString("\n")
	}
	var found []refusal
	for _, block := range runs {
		expected, ok := block.Body.Attributes["expect_failures"]
		if !ok {
			return nil, fmt.Errorf("run %q has no expect_failures", block.Labels[0])
		}
		whole := block.Range()
		match := says.FindSubmatch(whole.SliceBytes(text))
		if match == nil {
			return nil, fmt.Errorf("run %q has no comment '# Says: …' with the error message", block.Labels[0])
		}
		before := text[whole.Start.Byte:expected.SrcRange.Start.Byte]
		after := text[expected.SrcRange.End.Byte:whole.End.Byte]
		found = append(found, refusal{
			name: block.Labels[0], says: string(match[1]),
			test: head.String() + string(before) + string(after) + "\n",
		})
	}
	return found, nil
}

// checkRefusals checks the error messages of a module's refusals and returns their
// number. Every rule of the module must have a refusal.
func (w *workspace) checkRefusals(ctx context.Context, m module) (int, error) {
	text, err := os.ReadFile(filepath.Join(m.dir, "tests", refusalsFile))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return 0, fmt.Errorf("reading the refusals: %w", err)
	}
	refusals, err := readRefusals(text)
	if err != nil {
		return 0, err
	}
	if err := w.checkRules(m, refusals); err != nil {
		return 0, err
	}
	if len(refusals) == 0 {
		return 0, nil
	}
	const directory = "refusals"
	dir := filepath.Join(w.copied, m.name)
	if err := os.MkdirAll(filepath.Join(dir, directory), 0o755); err != nil {
		return 0, fmt.Errorf("creating the directory of refusals: %w", err)
	}
	for _, r := range refusals {
		if err := os.WriteFile(filepath.Join(dir, directory, r.name+".tftest.hcl"), []byte(r.test), 0o600); err != nil {
			return 0, fmt.Errorf("writing a refusal: %w", err)
		}
	}
	// The command must fail.
	out, err := w.run(ctx, dir, nil, "test", "-json", "-test-directory="+directory)
	if err == nil {
		return 0, fmt.Errorf("no input was rejected:\n%s", out)
	}
	messages, err := errorMessages(out.stdout)
	if err != nil {
		return 0, fmt.Errorf("reading the output of tofu: %w\n%s", err, out)
	}
	return len(refusals), compare(refusals, messages)
}

// compare returns an error for each refusal without the expected error message.
func compare(refusals []refusal, messages map[string][]string) error {
	var problems []error
	for _, r := range refusals {
		all := strings.Join(messages[r.name], "\n")
		if !strings.Contains(all, r.says) {
			problems = append(problems, fmt.Errorf("the error of %s must contain %q, but is %q", r.name, r.says, all))
		}
	}
	return errors.Join(problems...)
}

// errorMessages returns the errors of each run in the output of tofu test -json.
func errorMessages(stdout string) (map[string][]string, error) {
	messages := map[string][]string{}
	for line := range strings.Lines(stdout) {
		var event struct {
			Type       string `json:"type"`
			Run        string `json:"@testrun"`
			Diagnostic struct{ Severity, Summary, Detail string }
		}
		if err := json.Unmarshal([]byte(line), &event); err != nil {
			return nil, fmt.Errorf("decoding %q: %w", line, err)
		}
		if event.Type == "diagnostic" && event.Diagnostic.Severity == "error" {
			messages[event.Run] = append(messages[event.Run], strings.Join(strings.Fields(event.Diagnostic.Summary+": "+event.Diagnostic.Detail), " "))
		}
	}
	return messages, nil
}

// inherited are the modules whose refusals also cover a module with the same
// variables.
var inherited = map[string][]string{"eks": {"eks-cluster"}, "eks-v1": {"eks", "eks-cluster"}}

// checkRules returns an error for each rule of a module without a refusal.
func (w *workspace) checkRules(m module, refusals []refusal) error {
	files, err := readTerraform(m.dir)
	if err != nil {
		return err
	}
	found, err := declared(files)
	if err != nil {
		return err
	}
	for _, other := range inherited[m.name] {
		text, err := os.ReadFile(filepath.Join(w.source, other, "tests", refusalsFile))
		if err != nil {
			return fmt.Errorf("reading the refusals of %s: %w", other, err)
		}
		more, err := readRefusals(text)
		if err != nil {
			return fmt.Errorf("%s: %w", other, err)
		}
		refusals = append(refusals, more...)
	}
	if optionalReadme(m) {
		return nil
	}
	return uncovered(found.rules, refusals)
}

func uncovered(rules []rule, refusals []refusal) error {
	var problems []error
	for _, r := range rules {
		covered := false
		for _, refused := range refusals {
			covered = covered || strings.Contains(r.message, refused.says)
		}
		if !covered {
			problems = append(problems, fmt.Errorf("tests/%s has no refusal for the rule of %s with the message %q", refusalsFile, r.where, r.message))
		}
	}
	return errors.Join(problems...)
}

package terraform_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/appthrust/capt/internal/terraform"
)

// Users write state commands as an annotation.
func FuzzStateCommand(f *testing.F) {
	for _, seed := range []string{"", "{}", `{"id":"a","command":"list"}`, `{"id":"a","command":"mv","args":["a","b"]}`, `{"id":"a","command":"rm","args":["-lock=false","a"]}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		command, err := terraform.ParseStateCommand(text)
		if err == nil && command.Validate() != nil {
			t.Fatalf("%q is accepted and invalid", text)
		}
	})
}

// Templates have arguments of the commands.
func FuzzArgs(f *testing.F) {
	for _, seed := range []string{"", "-target=a", "-var\na=b", "--state=x", "-out=x", "-chdir=/", "-var\n-out=x", "-parallelism\n3"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		args := strings.Split(text, "\n")
		if terraform.CheckArgs(args) != nil {
			return
		}
		planning, applying := terraform.SplitArgs(args)
		for _, arg := range append(planning, applying...) {
			if !strings.Contains(text, arg) {
				t.Fatalf("%q is not an argument of %q", arg, text)
			}
		}
	})
}

// approverOnly returns whether the policy capt-approval lets only approvers write an
// annotation, according to its patterns: an annotation needs an approver unless the first one
// matches, or if the second one does.
func approverOnly(f *testing.F, annotation string) func(text string) bool {
	f.Helper()
	policy, err := os.ReadFile("../../config/policy/approval.yaml")
	if err != nil {
		f.Fatal(err)
	}
	_, rest, found := strings.Cut(string(policy), "k != 'capt.appthrust.io/"+annotation+"'")
	if !found {
		f.Fatalf("the policy does not filter %s", annotation)
	}
	var patterns []*regexp.Regexp
	for _, literal := range regexp.MustCompile(`matches\('([^']+)'\)`).FindAllStringSubmatch(rest, 2) {
		patterns = append(patterns, regexp.MustCompile(strings.ReplaceAll(literal[1], `\\`, `\`)))
	}
	if len(patterns) != 2 {
		f.Fatalf("the policy has %d patterns for %s", len(patterns), annotation)
	}
	return func(text string) bool { return !patterns[0].MatchString(text) || patterns[1].MatchString(text) }
}

// The policy reads annotations with patterns and CAPT as JSON. What changes the state must
// need an approver, however it is written.
func FuzzApproverAnnotations(f *testing.F) {
	commandIsFor, oneShotIsFor := approverOnly(f, "state-command"), approverOnly(f, "one-shot")
	for _, seed := range []string{
		`{"id":"a","uid":"u","command":"list"}`, `{"id":"a","uid":"u","command":"rm","args":["a.b"]}`, `{"id":"a","uid":"u","Command":"rm","command":"list","args":["a.b"]}`,
		`{"id":"a","uid":"u","command":"push","input":"x"}`, `{"id":"a","uid":"u","comm\u0061nd":"rm","args":["a.b"],"x":"\"command\":\"list\""}`,
		`{"id":"a","uid":"u","import":[{"address":"a.b","id":"c"}]}`, `{"id":"a","uid":"u","IMPORT":[{"address":"a.b","id":"c"}]}`,
		`{"id":"a","uid":"u","imp\u006frt":[{"address":"a.b","id":"c"}]}`, `{"id":"a","uid":"u","refreshOnly":true}`, `{"id":"a","uid":"u","target":["a.b[\"import\"]"]}`,
		"{\"id\":\"a\",\"uid\":\"u\",\"import\"\n:[{\"address\":\"a.b\",\"id\":\"c\"}]}",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if command, err := terraform.ParseStateCommand(text); err == nil && !slices.Contains([]string{"pull", "list", "show"}, command.Command) && !commandIsFor(text) {
			t.Fatalf("every editor may write %q, which is %s", text, command.Command)
		}
		if operation, err := terraform.ParseOneShot(text); err == nil && len(operation.Import) > 0 && !oneShotIsFor(text) {
			t.Fatalf("every editor may write %q, which imports %v", text, operation.Import)
		}
	})
}

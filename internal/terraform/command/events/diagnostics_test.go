package events

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/terraform"
)

func TestParseText(t *testing.T) {
	plain := `
Error: Failed to download module

  on main.tf line 1:
   1: module "m" { source = "git::https://example.invalid/x.git" }

Could not download module "m" (main.tf:1) source code from
"git::https://example.invalid/x.git": error downloading

Warning: Something else

  with terraform_data.a,
  on sub/b.tf line 12, in resource "terraform_data" "a":
  12:   x = 1

Detail of it.
`
	framed := "\x1b[31m╷\x1b[0m\n\x1b[31m│\x1b[0m Error: Unsupported argument\n│ \n│   on main.tf line 3, in resource \"a\" \"b\":\n│    3:   foo = 1\n│ \n│ An argument named \"foo\" is not expected here.\n╵\n"
	g := NewWithT(t)
	g.Expect(ParseText(plain)).To(Equal(terraform.Diagnostics{
		{
			Severity: terraform.SeverityError, Summary: "Failed to download module", File: "main.tf", Line: 1,
			Detail: "Could not download module \"m\" (main.tf:1) source code from\n\"git::https://example.invalid/x.git\": error downloading",
		},
		{
			Severity: terraform.SeverityWarning, Summary: "Something else", File: "sub/b.tf", Line: 12,
			Address: "terraform_data.a", Detail: "Detail of it.",
		},
	}))
	g.Expect(ParseText(framed)).To(Equal(terraform.Diagnostics{
		{Severity: terraform.SeverityError, Summary: "Unsupported argument", File: "main.tf", Line: 3, Detail: "An argument named \"foo\" is not expected here."},
	}))
	g.Expect(ParseText("no diagnostic")).To(BeEmpty())
}

func TestParseEvent_ignoresOtherLines(t *testing.T) {
	g := NewWithT(t)
	for _, line := range []string{"", "plain text", "{", `{"some": "json"}`, "[1]"} {
		_, ok := Parse([]byte(line))
		g.Expect(ok).To(BeFalse(), line)
	}
}

func TestFollower_joinsLines(t *testing.T) {
	g := NewWithT(t)
	var lines []string
	f := &Follower{Line: func(line []byte) { lines = append(lines, string(line)) }}
	for _, part := range []string{"on", "e\ntw", "o\r\n\nlast"} {
		f.take([]byte(part))
	}
	g.Expect(lines).To(Equal([]string{"one", "two", ""}))
	g.Expect(string(f.partial)).To(Equal("last"))
}

func TestEventChange(t *testing.T) {
	resource := eventResource{Address: "a.b", Type: "a"}
	for name, tc := range map[string]struct {
		change eventChange
		want   terraform.Change
	}{
		"create":  {eventChange{Resource: resource, Action: "create", Reason: "r"}, terraform.Change{Address: "a.b", Type: "a", Action: terraform.ActionCreate, Reason: "r"}},
		"remove":  {eventChange{Resource: resource, Action: "remove"}, terraform.Change{Address: "a.b", Type: "a", Action: terraform.ActionForget}},
		"noop":    {eventChange{Resource: resource, Action: "noop"}, terraform.Change{Address: "a.b", Type: "a", Action: terraform.ActionForget}},
		"move":    {eventChange{Resource: resource, Action: "move", Previous: &eventResource{Address: "a.c"}}, terraform.Change{Address: "a.b", Type: "a", Action: terraform.ActionMove, PreviousAddress: "a.c"}},
		"no move": {eventChange{Resource: resource, Action: "update", Previous: &resource}, terraform.Change{Address: "a.b", Type: "a", Action: terraform.ActionUpdate}},
	} {
		NewWithT(t).Expect(tc.change.Convert()).To(Equal(tc.want), name)
	}
}

// Modules write to the stream of events.
func FuzzEvent(f *testing.F) {
	for _, seed := range []string{
		"", "{}", `{"@level":"info","@message":"m","type":"planned_change","change":{"resource":{"addr":"a"},"action":"delete"}}`,
		`{"@level":"error","diagnostic":{"severity":"error","summary":"s","range":{"filename":"main.tf","start":{"line":1}}}}`, `{"@level":1}`, "[",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		if event, ok := Parse(line); ok && event.Level == "" {
			t.Fatalf("%q is an event without a level", line)
		}
	})
}

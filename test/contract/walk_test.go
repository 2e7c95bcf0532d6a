package contract

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/appthrust/capt/internal/testenv"
	"github.com/appthrust/capt/test/contract/page"
)

// contract is a page of Cluster API's book and a rule for each of its clauses.
type contract struct {
	// page is the name of the page.
	page string
	// subject is CAPT's kind for the page.
	subject subject
	// sections are the rules that only this page has.
	sections sections
}

type (
	// sections are rules by the title of their section.
	sections map[string]rules
	// rules are the rules of a section by the name of their clause.
	rules map[string]rule
	// rule fails if CAPT violates the clause.
	rule func(c *check)
)

// subject is a kind with a role in the contract.
type subject struct {
	// role is what the page calls the kind.
	role string
	kind schema.GroupVersionKind
	// sample returns an object of the kind for a cluster.
	sample func(cluster string) client.Object
	// notInTemplate are fields of the spec that a template does not have.
	notInTemplate []string
}

func (s subject) template() schema.GroupVersionKind {
	return s.kind.GroupVersion().WithKind(s.kind.Kind + "Template")
}

// resources are the kinds that Cluster API interacts with.
func (s subject) resources() []schema.GroupVersionKind {
	return []schema.GroupVersionKind{s.kind, s.template()}
}

// check is the test of one clause.
type check struct {
	*harness
	t       *testing.T
	subject subject
	clause  page.Clause
}

// all holds when every rule holds.
func all(every ...rule) rule {
	return func(c *check) {
		c.t.Helper()
		for _, r := range every {
			r(c)
		}
	}
}

// notApplicable returns the rule of a clause that does not apply to CAPT. proofs check
// the reason. A clause for maintainers has none.
func notApplicable(reason string, proofs ...rule) rule {
	return func(c *check) {
		c.t.Helper()
		all(proofs...)(c)
		c.t.Logf("not applicable: %s", reason)
	}
}

// deviates returns the rule of a recommendation that CAPT does not follow. proofs
// check the reason.
func deviates(reason string, proofs ...rule) rule {
	return func(c *check) {
		c.t.Helper()
		all(proofs...)(c)
		c.t.Logf("deviates: %s", reason)
	}
}

// merge joins the rules of sections.
func merge(parts ...sections) sections {
	merged := sections{}
	for _, part := range parts {
		for section, of := range part {
			if merged[section] == nil {
				merged[section] = rules{}
			}
			maps.Copy(merged[section], of)
		}
	}
	return merged
}

// walk checks a page clause by clause.
func walk(t *testing.T, c contract) {
	t.Parallel()
	clauses, every := read(t, c.page), merge(everyResource(c.subject.role), c.sections)
	for _, problem := range slices.Concat(unmatchedRules(clauses, every), changedClauses(recordedSums(t, c.page, clauses), clauses)) {
		t.Error(problem)
	}
	for _, clause := range clauses {
		r := every[clause.Section][clause.Name]
		if r == nil {
			continue
		}
		t.Run(clause.Section+"/"+clause.Name, func(t *testing.T) {
			t.Parallel()
			r(&check{harness: &harness{Gomega: NewWithT(t), ctx: t.Context(), env: env}, t: t, subject: c.subject, clause: clause})
		})
	}
}

// unmatchedRules returns the clauses without a rule and the rules without a clause.
func unmatchedRules(clauses []page.Clause, of sections) []string {
	var problems []string
	known := sections{}
	for _, clause := range clauses {
		if known[clause.Section] == nil {
			known[clause.Section] = rules{}
		}
		known[clause.Section][clause.Name] = func(*check) {}
		if of[clause.Section][clause.Name] == nil {
			problems = append(problems, fmt.Sprintf("clause %q of section %q has no rule: write one\n%s", clause.Name, clause.Section, clause.Text))
		}
	}
	for section, names := range of {
		for name := range names {
			if known[section][name] == nil {
				problems = append(problems, fmt.Sprintf("the page no longer has a clause %q in section %q: remove its rule, or rename it", name, section))
			}
		}
	}
	return problems
}

// read parses a page of the module that CAPT is built with.
func read(t *testing.T, name string) []page.Clause {
	t.Helper()
	g := NewWithT(t)
	module, err := testenv.ModuleDir("sigs.k8s.io/cluster-api")
	g.Expect(err).NotTo(HaveOccurred())
	markdown, err := os.ReadFile(filepath.Join(module, "docs", "book", "src", "developer", "providers", "contracts", name))
	g.Expect(err).NotTo(HaveOccurred())
	clauses, err := page.Parse(string(markdown))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(len(clauses)).To(BeNumerically(">", 30), "the page was parsed")
	return clauses
}

// recordedSums returns the hashes of the clauses when their rules were written.
func recordedSums(t *testing.T, name string, clauses []page.Clause) []string {
	t.Helper()
	path := filepath.Join("testdata", strings.TrimSuffix(name, ".md")+".sums")
	if *update {
		var lines []string
		for _, clause := range clauses {
			lines = append(lines, sumOf(clause)+"\n")
		}
		if err := os.WriteFile(path, []byte(strings.Join(lines, "")), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

func sumOf(clause page.Clause) string {
	return fmt.Sprintf("%s  %s: %s", clause.Sum(), clause.Section, clause.Name)
}

// changedClauses returns the clauses whose text has changed since their rules were
// written.
func changedClauses(before []string, clauses []page.Clause) []string {
	var problems []string
	for _, clause := range clauses {
		if !slices.Contains(before, sumOf(clause)) {
			problems = append(problems, fmt.Sprintf(
				"clause %q of section %q has changed since its rule was written: check whether the rule still fits, then run this test with -update\n%s",
				clause.Name, clause.Section, clause.Text))
		}
	}
	if len(before) != len(clauses) {
		problems = append(problems, fmt.Sprintf("%d clauses were known, the page has %d: run this test with -update", len(before), len(clauses)))
	}
	return problems
}

func TestWalk_reportsEveryChangeOfAPage(t *testing.T) {
	t.Parallel()
	holds := func(*check) {}
	clauses := []page.Clause{{Section: "a", Name: "MUST stay", Text: "It MUST stay."}, {Section: "a", Name: "MUST go", Text: "It MUST go."}}
	sums := []string{sumOf(clauses[0]), sumOf(clauses[1])}
	moved, changed := slices.Clone(clauses), slices.Clone(clauses)
	moved[1].Section, changed[1].Text = "b", "It MUST go at once."
	for name, c := range map[string]struct {
		clauses  []page.Clause
		sections sections
		want     []string
	}{
		"the same page": {clauses, sections{"a": {"MUST stay": holds, "MUST go": holds}}, nil},
		"a new clause":  {clauses, sections{"a": {"MUST stay": holds}}, []string{`clause "MUST go" of section "a" has no rule`}},
		"a removed clause": {clauses[:1], sections{"a": {"MUST stay": holds, "MUST go": holds}}, []string{
			`no longer has a clause "MUST go" in section "a"`, "2 clauses were known, the page has 1",
		}},
		"a moved clause": {moved, sections{"a": {"MUST stay": holds, "MUST go": holds}}, []string{
			`clause "MUST go" of section "b" has no rule`, `no longer has a clause "MUST go" in section "a"`, `clause "MUST go" of section "b" has changed`,
		}},
		"another text": {changed, sections{"a": {"MUST stay": holds, "MUST go": holds}}, []string{`clause "MUST go" of section "a" has changed`}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			problems := slices.Concat(unmatchedRules(c.clauses, c.sections), changedClauses(sums, c.clauses))
			g.Expect(problems).To(HaveLen(len(c.want)))
			for i, want := range c.want {
				g.Expect(problems[i]).To(ContainSubstring(want))
			}
		})
	}
}

package contract

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/appthrust/capt/internal/testenv"
)

// contract is a page of Cluster API's book and a rule for each of its clauses.
type contract struct {
	// page is the name of the page, and sum begins the SHA-256 of the text that the rules
	// were written for.
	page, sum string
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

// walk checks a page about a kind clause by clause.
func walk(t *testing.T, c contract) {
	t.Helper()
	c.sections = merge(everyResource(c.subject.role), c.sections)
	walkPage(t, c)
}

// walkPage checks a page clause by clause.
func walkPage(t *testing.T, c contract) {
	t.Parallel()
	t.Run("page", func(t *testing.T) {
		g := NewWithT(t)
		module, err := testenv.ModuleDir("sigs.k8s.io/cluster-api")
		g.Expect(err).NotTo(HaveOccurred())
		text, err := os.ReadFile(filepath.Join(module, "docs", "book", "src", "developer", "providers", "contracts", c.page))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(fmt.Sprintf("%x", sha256.Sum256(text))).To(HavePrefix(c.sum), "%s has changed: compare it with that of the previous version of Cluster API, correct the rules of the changed clauses, and then the sum", c.page)
	})
	for section, of := range c.sections {
		for name, r := range of {
			t.Run(section+"/"+name, func(t *testing.T) {
				t.Parallel()
				r(&check{harness: &harness{Gomega: NewWithT(t), ctx: t.Context(), env: env}, t: t, subject: c.subject})
			})
		}
	}
}

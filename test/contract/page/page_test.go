package page_test

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/test/contract/page"
)

const sample = "# Rules for Things\n" + `
Providers SHOULD implement a Thing. This sentence asks for nothing.

| Rule | Mandatory |
|------|-----------|
| MUST not be read | Yes |

### Thing: ` + "`name`" + ` field

In case names should matter, the [name](https://example.com) of a Thing MUST be
` + "`spec.name`" + `, e.g. "a". It must be short.

` + "```go" + `
type FooThingSpec struct {
    // name must begin with a letter.
    // +required
    // +kubebuilder:validation:MinLength=1
    Name string ` + "`json:\"name\"`" + `

    // Other fields SHOULD be added.
}
` + "```" + `

Once it is set, clients read it:

` + "```go" + `
type FooThingStatus struct {
    Inner FooInner ` + "`json:\"inner,omitempty\"`" + `
}

// FooInner is inside.
// +kubebuilder:validation:MinProperties=1
type FooInner struct {
    // +listType=map
    // +listMapKey=key
    // +listMapKey=effect
    Entries []clusterv1.Entry ` + "`json:\"entries,omitempty\"`" + `
    Count *int32 ` + "`json:\"count,omitempty\"`" + `
}
` + "```" + `

### Thing: secret

The Secret MUST:
- Be named ` + "`<thing>-secret`" + `.
  Note: it should not be moved.
- Have a label

The Thing MUST support the following:

` + "```yaml" + `
must: not be read
` + "```" + `

<aside class="note warning">

<h1>Important</h1>

It MUST stay. It MUST stay.

</aside>

<aside class="note warning">

<h1>Compatibility with the deprecated v1beta1 contract</h1>

It MUST NOT be read.

</aside>

### Thing: conditions

The Ready condition is expected to be there.

[a link that must]: https://example.com
`

func TestParse_findsRequirements(t *testing.T) {
	g := NewWithT(t)
	clauses, err := page.Parse(sample)
	g.Expect(err).NotTo(HaveOccurred())
	var names []string
	for _, c := range clauses {
		names = append(names, c.Section+" | "+c.Name)
	}
	g.Expect(names).To(HaveExactElements(
		"Rules for Things | SHOULD implement a Thing",
		"Thing: name field | MUST be spec.name e.g. a",
		"Thing: name field | must be short",
		"Thing: name field | must begin with a letter",
		"Thing: secret | MUST Be named <thing>-secret",
		"Thing: secret | should not be moved",
		"Thing: secret | MUST Have a label",
		"Thing: secret | MUST support the following",
		"Thing: secret | MUST stay",
		"Thing: secret | MUST stay (2)",
		"Thing: conditions | is expected to be there",
	))
	g.Expect(clauses[4].Text).To(Equal("The Secret MUST: Be named <thing>-secret."), "an item begins with its lead")
}

func TestParse_addsCodeToPrecedingClauses(t *testing.T) {
	g := NewWithT(t)
	clauses, err := page.Parse(sample)
	g.Expect(err).NotTo(HaveOccurred())
	var counts []int
	for _, c := range clauses {
		counts = append(counts, len(c.Code))
	}
	g.Expect(counts).To(HaveExactElements(0, 2, 2, 0, 0, 0, 0, 0, 0, 0, 0))
}

func TestSum_changesWithTextAndCode(t *testing.T) {
	g := NewWithT(t)
	a := page.Clause{Section: "s", Name: "n", Text: "It MUST stay.", Code: []string{"type A struct{}"}}
	b, c, d := a, a, a
	b.Text, c.Code, d.Name = "It MUST go.", []string{"type B struct{}"}, "another"
	g.Expect(a.Sum()).NotTo(Equal(b.Sum()))
	g.Expect(a.Sum()).NotTo(Equal(c.Sum()))
	g.Expect(a.Sum()).To(Equal(d.Sum()))
}

func TestFields_haveTheirPaths(t *testing.T) {
	g := NewWithT(t)
	clauses, err := page.Parse(sample)
	g.Expect(err).NotTo(HaveOccurred())
	spec, err := page.Fields(clauses[1].Code[0])
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(spec).To(HaveExactElements(page.Field{
		Path: "spec.name", Type: "string", Doc: "name must begin with a letter.",
		Markers: map[string][]string{"required": {""}, "MinLength": {"1"}},
	}))
	status, err := page.Fields(clauses[1].Code[1])
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(status).To(HaveExactElements(
		page.Field{Path: "status.inner", Type: "object", Markers: map[string][]string{"MinProperties": {"1"}}},
		page.Field{Path: "status.inner.entries", Type: "array", Markers: map[string][]string{"listType": {"map"}, "listMapKey": {"key", "effect"}}},
		page.Field{Path: "status.inner.count", Type: "integer", Markers: map[string][]string{}},
	))
}

func TestFields_rejectsInvalidGo(t *testing.T) {
	g := NewWithT(t)
	g.Expect(page.Fields("type {")).Error().To(HaveOccurred())
}

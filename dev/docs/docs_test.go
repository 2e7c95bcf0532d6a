package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestCheck_hasNoFindings(t *testing.T) {
	findings, err := check("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, finding := range findings {
		t.Error(finding)
	}
}

func TestSlugOf_isThatOfGitHub(t *testing.T) {
	for title, want := range map[string]string{
		"Back up":                                "back-up",
		"Validate manifests: `captctl validate`": "validate-manifests-captctl-validate",
		"What happens – and why":                 "what-happens--and-why",
		"The [engine](engine.md), v1.2":          "the-engine-v12",
		"snake_case and-dash":                    "snake_case-and-dash",
		"日本語":                                    "日本語",
		"Platforms (and providers)?":             "platforms-and-providers",
	} {
		if got := slugOf(title); got != want {
			t.Errorf("slug of %q is %q, want %q", title, got, want)
		}
	}
}

func TestParsePage_findsBlocksLinksAndAnchors(t *testing.T) {
	p := parsePage("docs/p.md", `# Title

[a](b.md#c) and `+"`[code](none.md)`"+` ![image](i.svg "title")

## Title

`+"```yaml\n[no](link.md)\n```"+`

<!-- run: first -->
`+"```sh\necho a\n# comment\n```"+`

<!-- not run: needs a cloud -->

`+"```console\n$ aws\n```\n\n```sh\nnone\n```"+`

<!-- blocks not run: all the same -->
`+"```bash\nmore\n```\n")
	var links []string
	for _, l := range p.links {
		links = append(links, l.target)
	}
	if want := []string{"b.md#c", "i.svg"}; !slices.Equal(links, want) {
		t.Errorf("links %q, want %q", links, want)
	}
	if !p.anchors["title"] || !p.anchors["title-1"] || len(p.anchors) != 2 {
		t.Errorf("anchors %v", p.anchors)
	}
	want := []block{{run: "first", text: "echo a\n# comment\n"}, {reason: "needs a cloud", text: "$ aws\n"}, {text: "none\n"}, {text: "more\n"}}
	if len(p.blocks) != len(want) {
		t.Fatalf("blocks %+v", p.blocks)
	}
	if p.reason != "all the same" || p.reasonLine != 27 {
		t.Errorf("line %d says %q about all blocks", p.reasonLine, p.reason)
	}
	for i, b := range p.blocks {
		b.line = 0
		if b != want[i] {
			t.Errorf("block %d is %+v, want %+v", i, b, want[i])
		}
	}
}

// write writes the files of a small repository.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	if out, err := exec.Command("git", "init", "--quiet", root).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, name := range []string{"README.md", "README.ja.md", "CONTRIBUTING.md", "CHANGELOG.md"} {
		if _, found := files[name]; !found {
			files[name] = "# " + name + "\n"
		}
	}
	for name, text := range files {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestCheck_findsEachProblem(t *testing.T) {
	root := write(t, map[string]string{
		"docs/nav.yaml": "- Home: index.md\n- A: a.md\n- Gone: gone.md\n",
		"README.md":     "# README.md\n[a](docs/a.md)\n",
		"README.ja.md":  "[a](docs/a.md)\n",
		"docs/a.md": "# A\n[b](b.md) [b](b.md#there) [b](b.md#nowhere) [c](c.md) [r](../README.md#readmemd) [o](../../o) [w](http://example.com)\n" +
			"[here](#a) [nothing](#b) [dir](../docs) <img src=\"i.png\">\n\n```sh\nls\n```\n",
		"docs/b.md":   "# There\n\n`There: a message`, Hidden, `HiddenToo`\n\n<!-- not run: needs a cloud -->\n```sh\nls\n```\n\n<!-- not run: as above -->\n```sh\nls\n```\n",
		"docs/c/d.md": "```\nls\n```\n\n<!-- blocks not run: the names are examples -->\n\n```sh\nls\n```\n",
		"pkg/README.md": "<!-- not run: the names are examples -->\n```sh\nls\n```\n\n<!-- not run: pkg TestA and `make all` do the same -->\n```sh\nls\n```\n\n" +
			"<!-- not run: pkg TestB -->\n```sh\nls\n```\n\n<!-- not run: `make none` -->\n```sh\nls\n```\n\n<!-- run: one -->\n```sh\nls\n```\n",
		"pkg/a_test.go":         "package pkg\n\nfunc TestA(t *testing.T) {}\n",
		"Makefile":              "all: one\n",
		"api/v1/types.go":       "package v1\n\nconst (\n\tThereReason = \"There\"\n\tHiddenReason = \"Hidden\"\n)\n",
		generatedPages + "r.md": "<!-- blocks not run: the names are examples -->\n\n```sh\nls\n```\n",
	})
	got, err := check(root)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"api/v1/types.go: no page explains the reason Hidden: add it to docs/troubleshooting.md",
		"docs/a.md:2: ../../o: it is outside of the repository",
		"docs/a.md:2: b.md#nowhere: the page has no such heading",
		"docs/a.md:2: c.md: the file does not exist",
		"docs/a.md:2: http://example.com: use https",
		"docs/a.md:3: #b: the page has no such heading",
		"docs/a.md:3: an HTML image has no address on the site: write ![text](path)",
		"docs/a.md:5: the command block has no marker: write <!-- run: SCENARIO --> or <!-- not run: REASON --> in the line before it",
		"docs/c/d.md:1: the fence has no language: write sh for commands, and text for anything else",
		"docs/c/d.md:5: one marker for all blocks is only for generated pages: mark each block",
		"docs/nav.yaml: b.md is missing",
		"docs/nav.yaml: c/d.md is missing",
		"docs/nav.yaml: gone.md does not exist",
		"docs/nav.yaml: reference/r.md is missing",
		"pkg/README.md:12: not run: pkg has no TestB",
		"pkg/README.md:17: not run: the Makefile has no target none",
		"pkg/README.md:2: not run: \"the names are examples\" names nothing that can be checked: " + reasonHelp,
	}
	if !slices.Equal(got, want) {
		t.Errorf("findings:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// A Japanese page has the commands of the English one, which tests run.
func TestCheck_comparesCommandsOfTranslations(t *testing.T) {
	block := func(text string) string {
		return "<!-- not run: needs a cloud -->\n```sh\n" + text + "\n```\n"
	}
	root := write(t, map[string]string{
		"docs/nav.yaml": "- Home: index.md\n",
		"a.md":          block("one") + block("two"),
		"a.ja.md":       block("one") + block("three"),
		"b.md":          block("one"),
		"b.ja.md":       "B\n",
		"c.ja.md":       "C\n",
		"d.md":          block("one"),
		"d.ja.md":       block("one"),
	})
	got, err := check(root)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"a.ja.md:6: the commands differ from a.md:6",
		"b.ja.md has 0 blocks of commands, and b.md has 1",
		"c.ja.md: there is no c.md",
	}
	if !slices.Equal(got, want) {
		t.Errorf("findings:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestSiteLinks_stayOnTheSiteOrGoToGitHub(t *testing.T) {
	root := write(t, map[string]string{"config/a.yaml": "", "docs/reference/api.md": "# API\n"})
	for _, tt := range []struct{ page, text, want string }{
		{"README.md", "[q](docs/quickstart.md#use-it) ![i](docs/images/a.svg)", "[q](quickstart.md#use-it) ![i](images/a.svg)"},
		{"docs/a.md", "[c](../config/a.yaml) [d](../config)", "[c](" + repository + "/blob/main/config/a.yaml) [d](" + repository + "/tree/main/config)"},
		{"docs/a.md", "[r](../README.md#tests) [b](b.md) [c](#here) [w](https://example.com/a)", "[r](index.md#tests) [b](b.md) [c](#here) [w](https://example.com/a)"},
		{"docs/reference/api.md", "[r](../../README.md) [b](../b.md)", "[r](../index.md) [b](../b.md)"},
		{"docs/a.md", "```md\n[c](../config/a.yaml)\n```", "```md\n[c](../config/a.yaml)\n```"},
	} {
		if got := siteLinks(root, tt.page, tt.text); got != tt.want {
			t.Errorf("%s: %s becomes\n%s, want\n%s", tt.page, tt.text, got, tt.want)
		}
	}
}

func TestReference_hasEveryKindAndIsCurrent(t *testing.T) {
	committed, err := os.ReadFile("../../docs/reference/api.md")
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "config", "crd"), 0o755); err != nil {
		t.Fatal(err)
	}
	bases, err := filepath.Abs("../../config/crd/bases")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(bases, filepath.Join(root, "config", "crd", "bases")); err != nil {
		t.Fatal(err)
	}
	if err := writeReference(root); err != nil {
		t.Fatal(err)
	}
	current, err := os.ReadFile(filepath.Join(root, "docs", "reference", "api.md"))
	if err != nil {
		t.Fatal(err)
	}
	if string(current) != string(committed) {
		t.Error("docs/reference/api.md is not current: run `make generate`")
	}
	for _, text := range []string{"## CAPTCluster\n", "## WorkspaceTemplateApply\n", "`kubectl get wsta`", "| `templateRef.name` | string |"} {
		if !strings.Contains(string(current), text) {
			t.Errorf("%q is missing", text)
		}
	}
}

func TestClaimProblems_findsStatementsWithoutATest(t *testing.T) {
	root := write(t, map[string]string{
		"pkg/a_test.go": "package a\n\n// func TestComment(t *testing.T) {}\nfunc TestA(t *testing.T) {}\n\nfunc (x) TestMethod() {}\n",
		claimsPage: `# Security

[A](#a) · [B](#b)

A user cannot do this.

A user cannot do that. <!-- test: pkg TestA -->

It has
two lines. <!-- not tested: there is no cloud -->

| who | can |
|---|---|
| one | read |

<!-- test: pkg TestA, pkg TestGone -->

| sentence | test |
|---|---|
| a | ` + "`pkg TestA`" + ` |
| b | |
| c | not tested: because |
| d mentions ` + "`pkg TestA`" + ` | ` + "`pkg TestComment`, `pkg TestMethod`" + ` |

- An item. <!-- no claim -->
- Another
  item.

` + "```sh\ncode claims nothing\n```" + `

## What is not protected

- Much.
`,
	})
	got, err := claimProblems(root)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		claimsPage + ":5: the statement names no test: " + claimHelp,
		claimsPage + ":12: pkg has no TestGone",
		claimsPage + ":21: the statement names no test: " + claimHelp,
		claimsPage + ":23: pkg has no TestComment",
		claimsPage + ":23: pkg has no TestMethod",
		claimsPage + ":26: the statement names no test: " + claimHelp,
	}
	if !slices.Equal(got, want) {
		t.Errorf("findings:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// The tests of a claim are on another page, under its number.
func TestClaimProblems_comparesTheNumbersOfTests(t *testing.T) {
	root := write(t, map[string]string{
		"pkg/a_test.go": "package a\n\nfunc TestA(t *testing.T) {}\n",
		claimsPage:      "# Security\n\n| # | claim |\n|---|---|\n| A1 | a |\n| A2 | b |\n| A3 | c |\n| d | `pkg TestA` |\n| A4 | e |\n",
		limitsPage:      "# Limits\n\n| # | what | limit |\n|---|---|---|\n| L1 | a | 1 |\n",
		testsPage: "# Tests\n\nEach row.\n\n| # | tests |\n|---|---|\n| A1 | `pkg TestA` |\n| A2 | `pkg TestGone` |\n| A2 | `pkg TestA` |\n" +
			"| A4 | |\n| B1 | `pkg TestA` |\n| L1 | `pkg TestA` |\n",
	})
	got, err := claimProblems(root)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		testsPage + ":9: there are two rows A2",
		claimsPage + ":7: " + testsPage + " has no row A3",
		testsPage + ":10: the statement names no test: " + claimHelp,
		testsPage + ":11: no claim has the number B1",
	}
	if !slices.Equal(got, want) {
		t.Errorf("findings:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// The README lists every page, and CONTRIBUTING.md every target.
func TestCheck_findsWhatIsNotListed(t *testing.T) {
	root := write(t, map[string]string{
		"docs/nav.yaml":   "- Home: index.md\n- A: a.md\n- B: b.md\n",
		"docs/a.md":       "# A\n",
		"docs/b.md":       "# B\n",
		"README.md":       "[a](docs/a.md#a)\n",
		"README.ja.md":    "[a](docs/a.md) [b](docs/b.md)\n",
		"Makefile":        "one: ## One.\ntwo: ## Two.\nhidden:\n",
		"CONTRIBUTING.md": "`make one VERSION=1`, and make two\n",
	})
	got, err := check(root)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"CONTRIBUTING.md: `make two` is missing", "README.md: there is no link to docs/b.md"}
	if !slices.Equal(got, want) {
		t.Errorf("findings:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

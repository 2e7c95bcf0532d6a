package terraform

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

func TestParseOneShot(t *testing.T) {
	for text, want := range map[string]string{
		`{"id":"1","uid":"u","replace":["aws_vpc.main"]}`:                                       "",
		`{"id":"1","uid":"u","replace":["module.a[0].aws_subnet.x[\"k=1\"]"]}`:                  "",
		`{"id":"1","uid":"u","target":["module.a","aws_vpc.main"]}`:                             "",
		`{"id":"1","uid":"u","refreshOnly":true,"hold":true}`:                                   "",
		`{"id":"1","uid":"u","import":[{"address":"aws_vpc.main","id":"vpc-1"}]}`:               "",
		`{"id":"1","uid":"u","planOnly":true}`:                                                  "",
		`{"id":"1","uid":"u","planOnly":true,"replace":["aws_vpc.main"]}`:                       "",
		`{"id":"-","uid":"u","planOnly":true}`:                                                  `id "-" is invalid`,
		`{"id":"1","planOnly":true}`:                                                            "uid is empty",
		`{"id":"1","uid":"u"}`:                                                                  "nothing is requested",
		`{"id":"1","uid":"u","hold":true}`:                                                      "nothing is requested",
		`{"id":"1","uid":"u","refreshOnly":true,"target":["a.b"]}`:                              "exclude each other",
		`{"id":"1","uid":"u","planOnly":true,"hold":true}`:                                      "planOnly and hold exclude each other",
		`{"id":"1","uid":"u","replace":["module.a"]}`:                                           `address "module.a" is invalid`,
		`{"id":"1","uid":"u","replace":["data.aws_vpc.main"]}`:                                  "is invalid",
		`{"id":"1","uid":"u","replace":["-destroy"]}`:                                           "is invalid",
		`{"id":"1","uid":"u","target":["-destroy"]}`:                                            "is invalid",
		`{"id":"1","uid":"u","import":[{"address":"a.b[\"${file(1)}\"]","id":"x"}]}`:            "is invalid",
		`{"id":"1","uid":"u","import":[{"address":"a.b\n}","id":"x"}]}`:                         "is invalid",
		`{"id":"1","uid":"u","import":[{"address":"a.b","id":"x\ny"}]}`:                         "the ID of a.b is invalid",
		`{"id":"1","uid":"u","import":[{"address":"a.b","id":""}]}`:                             "the ID of a.b is invalid",
		`{"id":"1","uid":"u","import":[{"address":"a.b","id":"x"},{"address":"a.b","id":"y"}]}`: "imported twice",
		`{"id":"1","uid":"u","destroy":true}`:                                                   "unknown field",
		``:                                                                                      "decoding",
	} {
		t.Run(text, func(t *testing.T) {
			g := NewWithT(t)
			_, err := ParseOneShot(text)
			if want == "" {
				g.Expect(err).NotTo(HaveOccurred())
				return
			}
			g.Expect(err).To(MatchError(ContainSubstring(want)))
		})
	}
}

func TestParseImport(t *testing.T) {
	g := NewWithT(t)
	for text, want := range map[string]Import{
		"aws_vpc.main=vpc-1":                      {Address: "aws_vpc.main", ID: "vpc-1"},
		`module.a["x=y"].aws_iam_role.r[0]=a=b/c`: {Address: `module.a["x=y"].aws_iam_role.r[0]`, ID: "a=b/c"},
	} {
		g.Expect(ParseImport(text)).To(Equal(want), text)
	}
	for _, text := range []string{"", "aws_vpc.main", "aws_vpc.main=", "=vpc-1", "module.a=x"} {
		_, err := ParseImport(text)
		g.Expect(err).To(HaveOccurred(), text)
	}
}

func TestImportBlocks_areLiterals(t *testing.T) {
	g := NewWithT(t)
	once := OneShot{Import: []Import{{Address: `module.a["k"].aws_vpc.main`, ID: `${file("/etc/passwd")}"\%{x}`}}}
	g.Expect(string(once.ImportBlocks())).To(Equal("import {\n  to = module.a[\"k\"].aws_vpc.main\n  id = \"$${file(\\\"/etc/passwd\\\")}\\\"\\\\%%{x}\"\n}\n"))
	g.Expect((&OneShot{}).ImportBlocks()).To(BeEmpty())
}

func TestOneShot_fitsTheState(t *testing.T) {
	g := NewWithT(t)
	state := []string{"aws_vpc.main", "module.a.aws_subnet.x[0]", "module.a.aws_subnet.x[1]"}
	g.Expect((&OneShot{Replace: []string{"aws_vpc.main"}}).CheckAddresses(state)).To(Succeed())
	g.Expect((&OneShot{Replace: []string{"aws_vpc.mian"}}).CheckAddresses(state)).To(MatchError(And(
		ContainSubstring("the state has no resource instance aws_vpc.mian"), ContainSubstring(`did you mean "aws_vpc.main"?`))))
	g.Expect((&OneShot{Replace: []string{"module.a.aws_subnet.x"}}).CheckAddresses(state)).To(HaveOccurred(), "it has several instances")
	imported := func(address string) *OneShot {
		return &OneShot{Import: []Import{{Address: address, ID: "x"}}}
	}
	g.Expect(imported("aws_vpc.other").CheckAddresses(state)).To(Succeed())
	g.Expect(imported("aws_vpc.main").CheckAddresses(state)).To(MatchError(ContainSubstring("aws_vpc.main is in the state already")))

	changes := []Change{{Address: "module.b.aws_vpc.new"}}
	for target, unknown := range map[string]bool{
		"aws_vpc.main": false, "module.a": false, "module.a.aws_subnet.x": false, "module.a.aws_subnet.x[1]": false, "module.b": false,
		"aws_vpc.mai": true, "module": false, "module.c": true, "module.a.aws_subnet.x[2]": true,
	} {
		g.Expect((&OneShot{Target: []string{target}}).UnknownTarget(state, changes) != "").To(Equal(unknown), target)
	}
}

func TestArguments(t *testing.T) {
	g := NewWithT(t)
	once := OneShot{Replace: []string{"a.b", "c.d"}, Hold: true}
	g.Expect(once.Arguments()).To(Equal("--replace a.b --replace c.d --hold"))
	once = OneShot{Import: []Import{{Address: "a.b", ID: "x"}}, PlanOnly: true}
	g.Expect(once.Arguments()).To(Equal("--import a.b=x --plan-only"))
	once = OneShot{RefreshOnly: true, Target: nil}
	g.Expect(once.Arguments()).To(Equal("--refresh-only"))
	g.Expect(strings.Fields((&OneShot{Target: []string{"module.a"}}).Arguments())).To(Equal([]string{"--target", "module.a"}))
}

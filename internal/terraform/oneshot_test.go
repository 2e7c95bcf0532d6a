package terraform

import (
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

func TestOneShot_Validate(t *testing.T) {
	imports := func(imports ...Import) OneShot { return OneShot{ID: "1", Import: imports} }
	for name, tt := range map[string]struct {
		once OneShot
		want string
	}{
		"a replacement":                   {OneShot{ID: "1", Replace: []string{"aws_vpc.main"}}, ""},
		"an instance of a module":         {OneShot{ID: "1", Replace: []string{`module.a[0].aws_subnet.x["k=1"]`}}, ""},
		"targets":                         {OneShot{ID: "1", Target: []string{"module.a", "aws_vpc.main"}}, ""},
		"a refresh that is held":          {OneShot{ID: "1", RefreshOnly: true, Hold: true}, ""},
		"an import":                       {imports(Import{Address: "aws_vpc.main", ID: "vpc-1"}), ""},
		"a plan":                          {OneShot{ID: "1", PlanOnly: true}, ""},
		"the plan of a replacement":       {OneShot{ID: "1", PlanOnly: true, Replace: []string{"aws_vpc.main"}}, ""},
		"nothing":                         {OneShot{ID: "1"}, "nothing is requested"},
		"nothing that is held":            {OneShot{ID: "1", Hold: true}, "nothing is requested"},
		"two of them":                     {OneShot{ID: "1", RefreshOnly: true, Target: []string{"a.b"}}, "exclude each other"},
		"a plan that is held":             {OneShot{ID: "1", PlanOnly: true, Hold: true}, "planOnly and hold exclude each other"},
		"the replacement of a module":     {OneShot{ID: "1", Replace: []string{"module.a"}}, `address "module.a" is invalid`},
		"the replacement of data":         {OneShot{ID: "1", Replace: []string{"data.aws_vpc.main"}}, "is invalid"},
		"a flag to replace":               {OneShot{ID: "1", Replace: []string{"-destroy"}}, "is invalid"},
		"a flag as a target":              {OneShot{ID: "1", Target: []string{"-destroy"}}, "is invalid"},
		"a template in an address":        {imports(Import{Address: `a.b["${file(1)}"]`, ID: "x"}), "is invalid"},
		"a line break in an address":      {imports(Import{Address: "a.b\n}", ID: "x"}), "is invalid"},
		"a line break in an ID":           {imports(Import{Address: "a.b", ID: "x\ny"}), "the ID of a.b is invalid"},
		"an import without an ID":         {imports(Import{Address: "a.b"}), "the ID of a.b is invalid"},
		"two imports of the same address": {imports(Import{Address: "a.b", ID: "x"}, Import{Address: "a.b", ID: "y"}), "imported twice"},
		"too many addresses":              {OneShot{ID: "1", Target: slices.Repeat([]string{"a.b"}, 101)}, "more than 100 addresses"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			err := tt.once.Validate()
			if tt.want == "" {
				g.Expect(err).NotTo(HaveOccurred())
				return
			}
			g.Expect(err).To(MatchError(ContainSubstring(tt.want)))
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

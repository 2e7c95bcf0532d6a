package terraform

import (
	"testing"

	. "github.com/onsi/gomega"
)

func TestRequest_BlockedBy(t *testing.T) {
	vpc := Change{Address: `module.net["a.b"].aws_vpc.this[0]`, Type: "aws_vpc", Action: ActionDelete}
	tests := []struct {
		name        string
		protect     []string
		unprotected []string
		change      Change
		blocked     bool
	}{
		{name: "by type", protect: []string{"aws_vpc"}, change: vpc, blocked: true},
		{name: "by address", protect: []string{`module.net["a.b"].aws_vpc.this[0]`}, change: vpc, blocked: true},
		{name: "by address without index", protect: []string{`module.net["a.b"].aws_vpc.this`}, change: vpc, blocked: true},
		{name: "by address without any index", protect: []string{"module.net.aws_vpc.this"}, change: vpc, blocked: true},
		{name: "by module", protect: []string{"module.net"}, change: vpc, blocked: true},
		{name: "by a module around its module", protect: []string{"module.db"}, change: Change{Address: `module.db["a"].module.x[0].aws_db.main["b"]`, Type: "aws_db", Action: ActionDelete}, blocked: true},
		{name: "by an instance of a module around its module", protect: []string{`module.db["a"]`}, change: Change{Address: `module.db["a"].module.x[0].aws_db.main["b"]`, Type: "aws_db", Action: ActionDelete}, blocked: true},
		{name: "another instance of a module around its module", protect: []string{`module.db["b"]`}, change: Change{Address: `module.db["a"].module.x[0].aws_db.main["b"]`, Type: "aws_db", Action: ActionDelete}},
		{name: "by address within its module", protect: []string{"aws_vpc.this"}, change: vpc, blocked: true},
		{name: "by pattern", protect: []string{"aws_*"}, change: vpc, blocked: true},
		{name: "by pattern with brackets", protect: []string{`*.aws_vpc.this[*]`}, change: vpc, blocked: true},
		{name: "by the pattern for everything", protect: []string{"*"}, change: vpc, blocked: true},
		{name: "replacing", protect: []string{"aws_vpc"}, change: Change{Address: "aws_vpc.a", Type: "aws_vpc", Action: ActionReplace}, blocked: true},
		{name: "by the address before a move", protect: []string{"aws_vpc.old"}, change: Change{Address: "aws_vpc.new", PreviousAddress: "aws_vpc.old", Type: "aws_vpc", Action: ActionReplace}, blocked: true},
		{name: "an update does not destroy", protect: []string{"aws_vpc"}, change: Change{Address: "aws_vpc.a", Type: "aws_vpc", Action: ActionUpdate}},
		{name: "another type", protect: []string{"aws_vpc_endpoint", "aws_v"}, change: vpc},
		{name: "another module", protect: []string{"module.n", "module.net2"}, change: vpc},
		{name: "unprotected", protect: []string{"aws_vpc"}, unprotected: []string{vpc.Address}, change: vpc},
		{name: "only another address is unprotected", protect: []string{"aws_vpc"}, unprotected: []string{"aws_vpc"}, change: vpc, blocked: true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			g := NewWithT(t)
			request := &Request{Protect: test.protect, Unprotected: test.unprotected}
			if blocked := request.BlockedBy([]Change{test.change}); test.blocked {
				g.Expect(blocked).To(Equal([]string{test.change.Address}))
			} else {
				g.Expect(blocked).To(BeEmpty())
			}
		})
	}
}

func TestParseAddresses(t *testing.T) {
	tests := map[string][]string{
		"":                                  nil,
		" , ,":                              nil,
		"\n":                                nil,
		"a.b":                               {"a.b"},
		"a.b,c.d":                           {"a.b", "c.d"},
		"a.b, c.d":                          {"a.b", "c.d"},
		"a.b\nc.d\n":                        {"a.b", "c.d"},
		"a.b\r\nc.d":                        {"a.b", "c.d"},
		" a.b ,\n c.d[0] , ":                {"a.b", "c.d[0]"},
		`a.b["x,y"],c.d`:                    {`a.b["x,y"]`, "c.d"},
		"a.b[\"x\ny\"]\nc.d":                {"a.b[\"x\ny\"]", "c.d"},
		`module.m["a \" , b"].c.d, e.f`:     {`module.m["a \" , b"].c.d`, "e.f"},
		`a.b["x\\"],c.d["y"]`:               {`a.b["x\\"]`, `c.d["y"]`},
		`a.b["never closed, c.d`:            {`a.b["never closed, c.d`},
		`module.a["b"].c["d"],module.e.f.g`: {`module.a["b"].c["d"]`, "module.e.f.g"},
	}
	for list, want := range tests {
		NewWithT(t).Expect(ParseAddresses(list)).To(Equal(want), "%q", list)
	}
}

func TestRequest_Protected(t *testing.T) {
	request := &Request{Protect: []string{"aws_vpc", "module.db", "aws_s3_bucket.*", "module.a.module.b"}, Unprotected: []string{"aws_vpc.released"}}
	for address, want := range map[string]bool{
		"aws_vpc.this":                           true,
		`module.net["a.b"].aws_vpc.this[0]`:      true,
		"aws_vpc.released":                       false,
		"module.db.aws_rds_cluster.this":         true,
		"module.db[1].aws_rds_cluster.this":      true,
		"module.db2.aws_rds_cluster.this":        false,
		`aws_s3_bucket.logs["a"]`:                true,
		"aws_s3_bucket_policy.logs":              false,
		"module":                                 false,
		"":                                       false,
		`aws_subnet.this["aws_vpc.this"]`:        false,
		`module.a.module.db.aws_subnet.b["]"]`:   false,
		`module.a["x"].module.b.aws_subnet.c[0]`: true,
	} {
		NewWithT(t).Expect(request.Protected(address)).To(Equal(want), address)
	}
}

func TestMarkNotFound(t *testing.T) {
	g := NewWithT(t)
	changes := []Change{{Address: "x.a", Type: "x", Action: ActionCreate}, {Address: "x.b", Type: "x", Action: ActionUpdate}}
	drift := []Change{{Address: "x.a", Type: "x", Action: ActionDelete}, {Address: "x.b", Type: "x", Action: ActionUpdate}, {Address: "y.c", Type: "y", Action: ActionDelete}}
	marked := MarkNotFound(changes, drift)
	g.Expect(marked).To(Equal([]Change{
		{Address: "x.a", Type: "x", Action: ActionCreate, Reason: ReasonNotFound},
		{Address: "x.b", Type: "x", Action: ActionUpdate},
		{Address: "y.c", Type: "y", Action: ActionForget, Reason: ReasonNotFound},
	}))
	g.Expect(changes[0].Reason).To(BeEmpty(), "the argument does not change")
	request := &Request{Protect: []string{"x", "y.c"}}
	g.Expect(request.BlockedBy(changes)).To(BeEmpty())
	g.Expect(request.BlockedBy(marked)).To(Equal([]string{"x.a", "y.c"}))
	request.Unprotected = []string{"x.a"}
	g.Expect(request.BlockedBy(marked)).To(Equal([]string{"y.c"}))
}

func TestHoldsTainted(t *testing.T) {
	g := NewWithT(t)
	replaced := []Change{{Address: "x.a", Action: ActionCreate}, {Address: "x.b", Action: ActionReplace, Reason: ReasonTainted}}
	g.Expect((&Request{HoldTainted: true}).HoldsTainted(replaced)).To(BeTrue())
	g.Expect((&Request{}).HoldsTainted(replaced)).To(BeFalse(), "no run was interrupted: a provider reported an error")
	g.Expect((&Request{HoldTainted: true}).HoldsTainted([]Change{{Address: "x.a", Action: ActionReplace, Reason: "cannot_update"}})).To(BeFalse(), "the inputs changed")
}

package policy_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/change"
	"github.com/appthrust/capt/internal/terraform/policy"
)

const plan = `{"resource_changes":[
{"address":"module.net.aws_vpc.this","module_address":"module.net","mode":"managed","type":"aws_vpc","name":"this","provider_name":"registry.opentofu.org/hashicorp/aws","action_reason":"replace_because_cannot_update",
 "change":{"actions":["delete","create"],"before":{"cidr_block":"10.0.0.0/16","id":"vpc-1","tags":{"team":"a"}},"after":{"cidr_block":"10.1.0.0/16","tags":{"team":"a"}},"after_unknown":{"id":true},"replace_paths":[["cidr_block"]]}},
{"address":"aws_iam_role.a","mode":"managed","type":"aws_iam_role","name":"a","provider_name":"registry.opentofu.org/hashicorp/aws",
 "change":{"actions":["update"],"before":{"name":"a","password":"old"},"after":{"name":"b","password":"n3w-s3cret","ports":[22,1.5],"list":["x",null]},"after_unknown":{"list":[false,true]},"before_sensitive":{"password":true},"after_sensitive":{"password":true}}},
{"address":"aws_eip.same","mode":"managed","type":"aws_eip","name":"same","change":{"actions":["no-op"],"before":{"id":"e"},"after":{"id":"e"}}}
],"output_changes":{"vpc_id":{"actions":["update"],"before":"vpc-1","after_unknown":true},"token":{"actions":["create"],"before":null,"after":"n3w-s3cret","after_sensitive":true}}}`

func same(text string) string { return text }

// evaluate returns the violations of rules by a plan.
func evaluate(t *testing.T, shown string, options policy.Plan, rules ...terraform.PolicyRule) []terraform.PolicyViolation {
	t.Helper()
	e := policy.New(&terraform.Policies{
		Policies:  []terraform.Policy{{Kind: "WorkspacePolicy", Name: "p", Generation: 3, Rules: rules}},
		Workspace: terraform.PolicyWorkspace{Namespace: "team-a", Name: "network", ClusterName: "demo", Labels: map[string]string{"stage": "prod"}},
		Template:  terraform.PolicyTemplate{Namespace: "catalogue", Name: "vpc", Version: "1.2.0"},
	}, options)
	g := NewWithT(t)
	g.Expect(change.ReadPlanned(strings.NewReader(shown), false, func(p change.Planned) error { return e.Add(t.Context(), p) })).To(Succeed())
	violations, err := e.Finish(t.Context(), same)
	g.Expect(err).NotTo(HaveOccurred())
	return violations
}

func each(expression string) terraform.PolicyRule {
	return terraform.PolicyRule{Name: "r", Match: terraform.MatchEachChange, Action: terraform.PolicyDeny, Expression: expression, Message: "no"}
}

func whole(expression string) terraform.PolicyRule {
	rule := each(expression)
	rule.Match = terraform.MatchPlan
	return rule
}

func TestEvaluate_seesWhatKindOfPlanItIs(t *testing.T) {
	g := NewWithT(t)
	plan := policy.Plan{RefreshOnly: true, ToDestroy: 1}
	shown := `{"resource_changes":[]}`
	g.Expect(evaluate(t, shown, plan, whole(`plan.refreshOnly && plan.toDestroy > 0`))).To(HaveLen(1))
	g.Expect(evaluate(t, shown, policy.Plan{}, whole(`plan.refreshOnly || plan.partial`))).To(BeEmpty())
	g.Expect(evaluate(t, shown, policy.Plan{Partial: true}, whole(`plan.partial`))).To(HaveLen(1))
}

// Otherwise a user who makes "ingress" or "0.0.0.0/0" a secret would hide them from rules.
func TestEvaluate_masksWhatIsShownOnly(t *testing.T) {
	g := NewWithT(t)
	rule := each(`has(resource.after.ingress) && "0.0.0.0/0" in resource.after.ingress`)
	rule.MessageExpression = `"open: " + resource.after.ingress[0]`
	e := policy.New(&terraform.Policies{Policies: []terraform.Policy{{Kind: "WorkspacePolicy", Name: "p", Rules: []terraform.PolicyRule{rule}}}}, policy.Plan{})
	plan := `{"resource_changes":[{"address":"x[\"0.0.0.0/0\"]","change":{"actions":["create"],"after":{"ingress":["0.0.0.0/0"]}}}]}`
	g.Expect(change.ReadPlanned(strings.NewReader(plan), false, func(p change.Planned) error { return e.Add(t.Context(), p) })).To(Succeed())
	mask := func(text string) string {
		return strings.NewReplacer("ingress", "***", "0.0.0.0/0", "***").Replace(text)
	}
	found, err := e.Finish(t.Context(), mask)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(found).To(ConsistOf(And(HaveField("Message", "open: ***"), HaveField("Resources", ConsistOf(`x["***"]`)))))
}

func TestEvaluate_seesChangesAndContext(t *testing.T) {
	for _, test := range []struct {
		rule terraform.PolicyRule
		want []string
	}{
		{each(`"delete" in resource.actions`), []string{"module.net.aws_vpc.this"}},
		{each(`resource.action == "replace"`), []string{"module.net.aws_vpc.this"}},
		{each(`resource.type.startsWith("aws_iam_")`), []string{"aws_iam_role.a"}},
		{each(`resource.provider.endsWith("/hashicorp/aws")`), []string{"module.net.aws_vpc.this", "aws_iam_role.a"}},
		{each(`resource.module == "module.net" && resource.reason == "replace_because_cannot_update"`), []string{"module.net.aws_vpc.this"}},
		{each(`resource.replacePaths == ["cidr_block"]`), []string{"module.net.aws_vpc.this"}},
		{each(`"cidr_block" in resource.changedPaths && !("tags.team" in resource.changedPaths)`), []string{"module.net.aws_vpc.this"}},
		{each(`resource.before.?cidr_block.orValue("") == "10.0.0.0/16"`), []string{"module.net.aws_vpc.this"}},
		{each(`has(resource.after.tags) && resource.after.tags.team == "a"`), []string{"module.net.aws_vpc.this"}},
		{each(`"id" in resource.unknownPaths && !has(resource.after.id)`), []string{"module.net.aws_vpc.this"}},
		{each(`"password" in resource.sensitivePaths && !has(resource.after.password) && !has(resource.before.password)`), []string{"aws_iam_role.a"}},
		{each(`resource.after.?ports.orValue([]) == [22, 1.5]`), []string{"aws_iam_role.a"}},
		{each(`"list[1]" in resource.unknownPaths && resource.after.list == ["x", null]`), []string{"aws_iam_role.a"}},
		{each(`workspace.namespace == "team-a" && workspace.labels["stage"] == "prod" && workspace.clusterName == "demo" && template.version == "1.2.0" && resource.name == "a"`), []string{"aws_iam_role.a"}},
		{each(`plan.toDestroy == 1 && !plan.destroy && resource.name == "a"`), []string{"aws_iam_role.a"}},
		{each(`resource.address == "aws_eip.same"`), nil},
	} {
		g := NewWithT(t)
		found := evaluate(t, plan, policy.Plan{ToDestroy: 1}, test.rule)
		if test.want == nil {
			g.Expect(found).To(BeEmpty(), test.rule.Expression)
			continue
		}
		g.Expect(found).To(ConsistOf(terraform.PolicyViolation{
			Kind: "WorkspacePolicy", Policy: "p", Generation: 3, Rule: "r", Action: terraform.PolicyDeny, Message: "no",
			Resources: test.want, Count: len(test.want),
		}), test.rule.Expression)
	}
}

func TestEvaluate_wholePlan(t *testing.T) {
	for expression, violated := range map[string]bool{
		`plan.resourceChanges.exists(c, c.type == "aws_vpc" && c.action == "replace")`:                                   true,
		`size(plan.resourceChanges) == 2`:                                                                                true,
		`size(plan.resourceChanges) > 2`:                                                                                 false,
		`plan.outputs["vpc_id"].before == "vpc-1" && "" in plan.outputs["vpc_id"].unknownPaths`:                          true,
		`"token" in plan.outputs && plan.outputs["token"].after == null && plan.outputs["token"].sensitivePaths == [""]`: true,
		`plan.destroy`: true,
		`plan.toAdd + plan.toChange + plan.toDestroy > 100`: false,
	} {
		found := evaluate(t, plan, policy.Plan{Destroy: true, ToAdd: 1}, whole(expression))
		NewWithT(t).Expect(found).To(HaveLen(map[bool]int{true: 1}[violated]), expression)
	}
}

func TestEvaluate_failsClosed(t *testing.T) {
	g := NewWithT(t)
	// The value is sensitive, unknown, or not there.
	for _, expression := range []string{`resource.after.password == "x"`, `resource.after.id == "x"`, `resource.after.list[7] == "x"`} {
		found := evaluate(t, plan, policy.Plan{}, each(expression))
		g.Expect(found).To(HaveLen(1), expression)
		g.Expect(found[0].Message).To(HavePrefix("The rule cannot be evaluated: "), expression)
		g.Expect(found[0].Count).To(Equal(2))
	}
	notBool := evaluate(t, plan, policy.Plan{}, each(`resource.after.tags`))
	g.Expect(notBool[0].Message).To(Or(ContainSubstring("does not return true or false"), ContainSubstring("no such key")))

	// A rule that the webhook did not see.
	broken := evaluate(t, plan, policy.Plan{}, each(`resource.adress == ""`))
	g.Expect(broken).To(HaveLen(1))
	g.Expect(broken[0].Message).To(ContainSubstring("undefined field 'adress'"))
	unknown := each(`false`)
	unknown.Action = "Explode"
	g.Expect(terraform.Strictest(evaluate(t, plan, policy.Plan{}, unknown))).To(Equal(terraform.PolicyDeny))
	unknown = each(`false`)
	unknown.Match = "Other"
	g.Expect(evaluate(t, plan, policy.Plan{}, unknown)).To(HaveLen(1))
}

func TestEvaluate_stopsExpensiveRules(t *testing.T) {
	g := NewWithT(t)
	list := strings.Repeat(`"x",`, 3000) + `"x"`
	large := `{"resource_changes":[{"address":"a.b","type":"a","name":"b","change":{"actions":["create"],"before":null,"after":{"list":[` + list + `]}}}]}`
	rule := each(`resource.after.list.all(a, resource.after.list.all(b, resource.after.list.all(c, a == b && b == c)))`)
	g.Expect(policy.Check(rule)).To(HaveLen(1), "the estimate refuses it as well")
	policy.LimitCosts(t, 10_000, 100_000)
	rule = each(`resource.after.list.all(a, resource.after.list.all(b, a == b))`)
	g.Expect(policy.Check(rule)).To(BeEmpty())
	found := evaluate(t, large, policy.Plan{}, rule)
	g.Expect(found).To(HaveLen(1))
	g.Expect(found[0].Message).To(ContainSubstring("cost limit exceeded"))
}

func TestEvaluate_limitsTheCostOfAllEvaluations(t *testing.T) {
	g := NewWithT(t)
	policy.LimitCosts(t, 10_000, 100_000)
	list := strings.Repeat(`"x",`, 300) + `"x"`
	var changes []string
	for i := range 20 {
		if i == 15 {
			list = ""
		}
		changes = append(changes, fmt.Sprintf(`{"address":"a.b[%d]","type":"a","name":"b","change":{"actions":["create"],"before":null,"after":{"list":[%s]}}}`, i, list))
	}
	found := evaluate(t, `{"resource_changes":[`+strings.Join(changes, ",")+`]}`, policy.Plan{}, each(`resource.after.list.exists(a, resource.after.list.exists(b, a != b))`))
	g.Expect(found).To(HaveLen(1))
	g.Expect(found[0].Count).To(Equal(20), "the last resources are not evaluated any more")
}

func TestEvaluate_messages(t *testing.T) {
	g := NewWithT(t)
	rule := each(`resource.action == "replace"`)
	rule.MessageExpression = `resource.address + " changes " + resource.before.cidr_block + "\nto " + resource.after.cidr_block`
	g.Expect(evaluate(t, plan, policy.Plan{}, rule)[0].Message).To(Equal("module.net.aws_vpc.this changes 10.0.0.0/16 to 10.1.0.0/16"))
	g.Expect(evaluate(t, plan, policy.Plan{HideValues: true}, rule)[0].Message).To(Equal("no"), "values of encrypted plans are not reported")
	rule.MessageExpression = `"The new ID is " + resource.after.id`
	g.Expect(evaluate(t, plan, policy.Plan{}, rule)[0].Message).To(Equal("no"), "the message cannot be evaluated")
	rule.Message = ""
	g.Expect(evaluate(t, plan, policy.Plan{}, rule)[0].Message).To(Equal("The plan violates the rule"))
	hidden := evaluate(t, plan, policy.Plan{HideValues: true}, each(`int(resource.after.name) > 1`))
	g.Expect(hidden[0].Message).To(Equal("The rule cannot be evaluated"))
}

func TestEvaluate_reportsTheStrictestFirst(t *testing.T) {
	g := NewWithT(t)
	warn, approval, deny := each(`true`), whole(`true`), each(`true`)
	warn.Name, warn.Action = "warn", terraform.PolicyWarn
	approval.Name, approval.Action = "approval", terraform.PolicyRequireApproval
	deny.Name = "deny"
	found := evaluate(t, plan, policy.Plan{}, warn, approval, deny)
	var names []string
	for _, v := range found {
		names = append(names, v.Rule)
	}
	g.Expect(names).To(Equal([]string{"deny", "approval", "warn"}))
	g.Expect(terraform.Strictest(found)).To(Equal(terraform.PolicyDeny))
	g.Expect(terraform.Strictest(found[1:])).To(Equal(terraform.PolicyRequireApproval))
	g.Expect(terraform.Strictest(nil)).To(BeEmpty())
}

func TestEvaluate_endsWithTheRun(t *testing.T) {
	g := NewWithT(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	e := policy.New(&terraform.Policies{Policies: []terraform.Policy{{Rules: []terraform.PolicyRule{whole(`[1, 2].all(x, x > 0)`)}}}}, policy.Plan{})
	_, err := e.Finish(ctx, same)
	g.Expect(err).To(MatchError(context.Canceled), "an interrupted run does not violate the rule")
}

func TestCheck_explainsErrors(t *testing.T) {
	for _, test := range []struct {
		rule terraform.PolicyRule
		want string
	}{
		{each(`resource.adress == ""`), "expression: line 1, column 9: undefined field 'adress'"},
		{each(`resource.address ==`), "expression: line 1, column 20: Syntax error"},
		{each(`resource.address`), "expression: must return bool, but returns string"},
		{each("true &&\nplan.resourceChanges.exists(c, true)"), "line 2, column 5: undefined field 'resourceChanges' (it exists only with match: Plan)"},
		{whole(`resource.address == ""`), "(resource exists only with match: EachChange)"},
		{whole(`plan.resourceChanges.exists(c, c.after == null)`), "(values exist only with match: EachChange)"},
		{whole(`plan.resourceChanges.all(a, plan.resourceChanges.all(b, a.address == b.address))`), "is too expensive: the estimated cost"},
		{terraform.PolicyRule{Match: terraform.MatchPlan, Expression: `true`, MessageExpression: `plan.toAdd`}, "messageExpression: must return string, but returns int"},
		{terraform.PolicyRule{Match: "x", Expression: `true`}, "match must be EachChange or Plan"},
	} {
		problems := policy.Check(test.rule)
		g := NewWithT(t)
		g.Expect(problems).To(HaveLen(1), test.rule.Expression)
		g.Expect(problems[0].Field + ": " + problems[0].Detail).To(ContainSubstring(test.want))
	}
}

// stream returns a plan of many resources without holding it.
type stream struct {
	left, made int
	rest       string
}

func (s *stream) Read(p []byte) (int, error) {
	if s.rest == "" {
		if s.left == 0 {
			return 0, fmt.Errorf("read beyond the end")
		}
		prefix := ","
		if s.made == 0 {
			prefix = `{"resource_changes":[`
		}
		s.rest = prefix + fmt.Sprintf(`{"address":"aws_x.y[%d]","mode":"managed","type":"aws_x","name":"y","change":{"actions":["update"],"before":{"a":"%s"},"after":{"a":"b"}}}`, s.made, strings.Repeat("v", 8<<10))
		s.made++
		if s.left--; s.left == 0 {
			s.rest += `]}`
		}
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

func TestEvaluate_holdsNoValuesOfLargePlans(t *testing.T) {
	g := NewWithT(t)
	e := policy.New(&terraform.Policies{Policies: []terraform.Policy{{Rules: []terraform.PolicyRule{
		each(`resource.after.a == "never"`), whole(`plan.resourceChanges.exists(c, c.action == "delete")`),
	}}}}, policy.Plan{})
	var before, during runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	count, most := 0, uint64(0)
	g.Expect(change.ReadPlanned(&stream{left: 5000}, false, func(p change.Planned) error {
		if count++; count%1000 == 0 {
			runtime.GC()
			runtime.ReadMemStats(&during)
			most = max(most, during.HeapAlloc)
		}
		return e.Add(t.Context(), p)
	})).To(Succeed())
	found, err := e.Finish(t.Context(), same)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(found).To(BeEmpty())
	g.Expect(count).To(Equal(5000))
	g.Expect(most).To(BeNumerically("<", before.HeapAlloc+(16<<20)), "the plan has 40 MiB")
}

func FuzzEvaluate(f *testing.F) {
	f.Add(`resource.after.tags.exists(k, k == "team")`, plan)
	f.Add(`!has(resource.after.?cidr_blocks) || "0.0.0.0/0" in resource.after.cidr_blocks`, plan)
	f.Fuzz(func(t *testing.T, expression, shown string) {
		for _, match := range []terraform.PolicyMatch{terraform.MatchEachChange, terraform.MatchPlan} {
			rule := terraform.PolicyRule{Name: "r", Match: match, Action: terraform.PolicyDeny, Expression: expression}
			problems := policy.Check(rule)
			e := policy.New(&terraform.Policies{Policies: []terraform.Policy{{Rules: []terraform.PolicyRule{rule}}}}, policy.Plan{})
			if change.ReadPlanned(strings.NewReader(shown), false, func(p change.Planned) error { return e.Add(t.Context(), p) }) != nil {
				continue
			}
			found, err := e.Finish(t.Context(), same)
			if err != nil {
				t.Fatal(err)
			}
			if len(problems) > 0 && len(found) == 0 {
				t.Errorf("a rule that cannot be evaluated is not violated: %v", problems)
			}
		}
	})
}

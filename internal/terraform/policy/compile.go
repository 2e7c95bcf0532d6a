package policy

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/checker"

	"github.com/appthrust/capt/internal/terraform"
)

// maxEstimate limits the estimated cost of one evaluation of an expression in the worst
// case. A million takes about a second.
const maxEstimate = 10_000_000

// maxCost limits the cost of one evaluation of an expression, maxTotalCost that of a rule
// in one plan. What is admitted can be evaluated.
var maxCost, maxTotalCost uint64 = maxEstimate, maxEstimate

// interruptFrequency is how many steps of a loop pass between two checks whether the run
// was stopped.
const interruptFrequency = 1000

// The sizes of values that the estimate of a cost assumes.
const (
	assumedChanges = 5000
	assumedSize    = 200
)

// Problem is an error of a field of a rule.
type Problem struct {
	// Field is expression or messageExpression.
	Field  string
	Detail string
}

// Check returns what is wrong with the expressions of a rule: they do not parse, have the
// wrong type, or are too expensive.
func Check(rule terraform.PolicyRule) []*Problem {
	var problems []*Problem
	if _, err := compile(rule.Match, rule.Expression, cel.BoolType); err != nil {
		problems = append(problems, &Problem{Field: "expression", Detail: err.Error()})
	}
	if rule.MessageExpression != "" {
		if _, err := compile(rule.Match, rule.MessageExpression, cel.StringType); err != nil {
			problems = append(problems, &Problem{Field: "messageExpression", Detail: err.Error()})
		}
	}
	return problems
}

// compile compiles an expression that returns a value of a type.
func compile(match terraform.PolicyMatch, expression string, want *cel.Type) (cel.Program, error) {
	prepare, known := environments[match]
	if !known {
		return nil, fmt.Errorf("match must be %s or %s", terraform.MatchEachChange, terraform.MatchPlan)
	}
	env, err := prepare()
	if err != nil {
		return nil, err
	}
	ast, issues := env.Compile(expression)
	if issues.Err() != nil {
		return nil, errors.New(describe(issues, match))
	}
	if got := ast.OutputType(); !got.IsExactType(want) && !got.IsExactType(cel.DynType) {
		return nil, fmt.Errorf("must return %s, but returns %s", want, got)
	}
	cost, err := env.EstimateCost(ast, estimator{})
	if err != nil {
		return nil, fmt.Errorf("estimating the cost: %w", err)
	}
	if cost.Max > maxEstimate {
		return nil, fmt.Errorf("is too expensive: the estimated cost for %d changes, and lists and texts of %d elements, exceeds the limit of %d. Use fewer nested loops, or match: %s", assumedChanges, assumedSize, maxEstimate, terraform.MatchEachChange)
	}
	program, err := env.Program(ast, cel.EvalOptions(cel.OptOptimize, cel.OptTrackCost), cel.CostLimit(maxCost), cel.InterruptCheckFrequency(interruptFrequency))
	if err != nil {
		return nil, fmt.Errorf("preparing the expression: %w", err)
	}
	return program, nil
}

// maxIssues limits the errors of an expression that are described.
const maxIssues = 3

// describe returns the errors of an expression with their positions, in one line.
func describe(issues *cel.Issues, match terraform.PolicyMatch) string {
	var texts []string
	for _, issue := range issues.Errors() {
		text := fmt.Sprintf("line %d, column %d: %s", issue.Location.Line(), issue.Location.Column()+1, strings.Join(strings.Fields(issue.Message), " "))
		if hint := hintFor(issue.Message, match); hint != "" {
			text += " (" + hint + ")"
		}
		texts = append(texts, text)
	}
	if len(texts) > maxIssues {
		texts = append(texts[:maxIssues], fmt.Sprintf("and %d more", len(texts)-maxIssues))
	}
	return strings.Join(texts, "; ")
}

// hintFor explains an error about a variable or a field that other rules have.
func hintFor(text string, match terraform.PolicyMatch) string {
	switch {
	case match == terraform.MatchPlan && strings.Contains(text, "undeclared reference to 'resource'"):
		return "resource exists only with match: " + string(terraform.MatchEachChange)
	case match == terraform.MatchEachChange && (strings.Contains(text, "undefined field 'resourceChanges'") || strings.Contains(text, "undefined field 'outputs'")):
		return "it exists only with match: " + string(terraform.MatchPlan)
	case match == terraform.MatchPlan && slices.ContainsFunc([]string{"before", "after", "changedPaths", "replacePaths", "unknownPaths", "sensitivePaths"}, func(name string) bool {
		return strings.Contains(text, "undefined field '"+name+"'")
	}):
		return "values exist only with match: " + string(terraform.MatchEachChange)
	default:
		return ""
	}
}

// estimator estimates the sizes of variables.
type estimator struct{}

// EstimateSize returns the assumed size of a value.
func (estimator) EstimateSize(node checker.AstNode) *checker.SizeEstimate {
	size := uint64(assumedSize)
	if slices.Equal(node.Path(), []string{"plan", "resourceChanges"}) {
		size = assumedChanges
	}
	return &checker.SizeEstimate{Max: size}
}

// EstimateCallCost leaves the costs of functions to CEL.
func (estimator) EstimateCallCost(string, string, *checker.AstNode, []checker.AstNode) *checker.CallEstimate {
	return nil
}

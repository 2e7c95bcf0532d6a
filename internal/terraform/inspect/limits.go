package inspect

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/appthrust/capt/internal/elements"
)

// The manager parses and evaluates what users write. HCL itself has no limits: brackets that
// are nested deeply exhaust the stack, which ends the process, and loops or values that contain
// each other exhaust the memory.
const (
	// maxDepth limits how deep expressions and blocks are nested.
	maxDepth = 500
	// maxCost limits what the evaluation of one expression processes, and maxTotal that of all
	// expressions of a module or file: about the bytes that their values may have.
	maxCost, maxTotal = 1 << 23, 1 << 25
	// elementSize is the size of an element apart from its text, valueSize what a function that
	// processes it allocates, and splitSize what one does that makes elements out of a byte.
	elementSize, valueSize, splitSize = 32, 512, 128
)

// MaxElements limits how many elements the values of variables have, and maxTokens the tokens of
// a module or file, or the elements of one in JSON: each of them needs some hundred bytes.
const (
	MaxElements = 20_000
	maxTokens   = 150_000
)

// count returns at least the number of tokens or elements of a configuration or variables file.
func count(name string, content []byte) int {
	if strings.HasSuffix(name, ".json") {
		return elements.JSON(content)
	}
	return elements.HCL(content)
}

// Complexity returns errors if a configuration or variables file is too large, or nested too
// deeply, to be parsed.
func Complexity(name string, content []byte) hcl.Diagnostics {
	switch {
	case count(name, content) > maxTokens:
		return tooLarge(name)
	case isTooDeep(name, content):
		return tooComplex(name)
	default:
		return nil
	}
}

// tooLarge is the error of a file that is not parsed.
func tooLarge(name string) hcl.Diagnostics {
	return hcl.Diagnostics{{
		Severity: hcl.DiagError, Summary: "Too large",
		Detail:  fmt.Sprintf("The module or file has more than %d tokens or elements, the limit: remove some, or use a remote module.", maxTokens),
		Subject: &hcl.Range{Filename: name, Start: hcl.InitialPos, End: hcl.InitialPos},
	}}
}

// isTooDeep reports whether a configuration or variables file is nested too deeply to be parsed.
func isTooDeep(name string, content []byte) bool {
	if strings.HasSuffix(name, ".json") {
		return isTooDeepJSON(content)
	}
	tokens, _ := hclsyntax.LexConfig(content, name, hcl.InitialPos)
	return areTooDeep(tokens)
}

// nesting is an open bracket or string. Operators within it nest expressions as well.
type nesting struct {
	isTemplate, isBlock bool
	// operators include directives, the if and for of a template that have not ended.
	operators, directives int
}

// areTooDeep reports whether the expressions of tokens are nested too deeply. It counts at least
// the depth of each expression.
func areTooDeep(tokens hclsyntax.Tokens) bool {
	open, operators := []nesting{{isBlock: true}}, 0
	for i, token := range tokens {
		top := &open[len(open)-1]
		switch token.Type {
		case hclsyntax.TokenNumberLit:
			if isHugeNumber(token.Bytes) {
				return true
			}
		case hclsyntax.TokenOBrace, hclsyntax.TokenOBrack, hclsyntax.TokenOParen, hclsyntax.TokenTemplateInterp, hclsyntax.TokenTemplateControl,
			hclsyntax.TokenOQuote, hclsyntax.TokenOHeredoc:
			// An index or a call nests what is before it. The parts of a template are a list.
			change := 1
			if token.Type == hclsyntax.TokenTemplateControl {
				change = top.directive(tokens[i+1:])
			} else if top.isTemplate {
				change = 0
			}
			top.operators += change
			operators += change
			open = append(open, nesting{
				isTemplate: token.Type == hclsyntax.TokenOQuote || token.Type == hclsyntax.TokenOHeredoc, isBlock: token.Type == hclsyntax.TokenOBrace && !isLoop(tokens[i+1:]),
			})
		case hclsyntax.TokenCBrace, hclsyntax.TokenCBrack, hclsyntax.TokenCParen, hclsyntax.TokenTemplateSeqEnd, hclsyntax.TokenCQuote, hclsyntax.TokenCHeredoc:
			if len(open) > 1 {
				operators -= top.operators
				open = open[:len(open)-1]
			}
		case hclsyntax.TokenNewline, hclsyntax.TokenComma, hclsyntax.TokenComment:
			// A comment until the end of a line contains the newline.
			ends := token.Type != hclsyntax.TokenComment || bytes.HasSuffix(token.Bytes, []byte("\n"))
			if top.isBlock && ends || token.Type == hclsyntax.TokenComma {
				operators -= top.operators
				top.operators = 0
			}
		case hclsyntax.TokenStar, hclsyntax.TokenSlash, hclsyntax.TokenPlus, hclsyntax.TokenMinus, hclsyntax.TokenPercent,
			hclsyntax.TokenEqualOp, hclsyntax.TokenNotEqual, hclsyntax.TokenLessThan, hclsyntax.TokenLessThanEq,
			hclsyntax.TokenGreaterThan, hclsyntax.TokenGreaterThanEq, hclsyntax.TokenAnd, hclsyntax.TokenOr, hclsyntax.TokenBang, hclsyntax.TokenQuestion:
			top.operators++
			operators++
		}
		if len(open)+operators > maxDepth {
			return true
		}
	}
	return false
}

// directive returns by how much the tokens after the start of a directive change the depth.
func (n *nesting) directive(tokens hclsyntax.Tokens) int {
	change := 0
	switch firstWord(tokens) {
	case "else":
	case "endif", "endfor":
		if n.directives > 0 {
			change = -1
		}
	default:
		change = 1
	}
	n.directives += change
	return change
}

// isLoop reports whether the tokens after a brace are those of a loop, in which newlines
// separate nothing.
func isLoop(tokens hclsyntax.Tokens) bool { return firstWord(tokens) == "for" }

// firstWord returns the identifier with which tokens begin, or an empty string.
func firstWord(tokens hclsyntax.Tokens) string {
	for _, token := range tokens {
		switch token.Type {
		case hclsyntax.TokenNewline, hclsyntax.TokenComment:
		case hclsyntax.TokenIdent:
			return string(token.Bytes)
		default:
			return ""
		}
	}
	return ""
}

// isHugeNumber reports whether a number has an exponent of more than three digits: as text, it
// would have as many digits as its exponent says.
func isHugeNumber(text []byte) bool {
	at := bytes.IndexAny(text, "eE")
	return at >= 0 && len(bytes.TrimLeft(text[at+1:], "+-0")) > 3
}

// isTooDeepJSON reports whether JSON, or a template in one of its strings, is nested too deeply.
func isTooDeepJSON(content []byte) bool {
	return isTooDeepData(content) || slices.ContainsFunc(templatesOf(content), func(text string) bool {
		tokens, _ := hclsyntax.LexTemplate([]byte(text), "", hcl.InitialPos)
		return areTooDeep(tokens)
	})
}

// isTooDeepData reports whether JSON without templates is nested too deeply, or has a number that
// is too large.
func isTooDeepData(content []byte) bool {
	depth, inString := 0, false
	for i := 0; i < len(content); i++ {
		switch c := content[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case !inString && (c == '[' || c == '{'):
			if depth++; depth > maxDepth {
				return true
			}
		case !inString && (c == ']' || c == '}'):
			depth--
		case !inString && (c == 'e' || c == 'E') && i > 0 && content[i-1] >= '0' && content[i-1] <= '9':
			rest := content[i:]
			if end := bytes.IndexAny(rest, ",]} \t\r\n"); end >= 0 {
				rest = rest[:end]
			}
			if isHugeNumber(rest) {
				return true
			}
		}
	}
	return false
}

// templatesOf returns the strings of JSON that are templates.
func templatesOf(content []byte) []string {
	var found []string
	for decoder := json.NewDecoder(bytes.NewReader(content)); ; {
		token, err := decoder.Token()
		if err != nil {
			return found
		}
		if text, ok := token.(string); ok && (strings.Contains(text, "${") || strings.Contains(text, "%{")) {
			found = append(found, text)
		}
	}
}

// budget is what evaluations may still process.
type budget struct{ left float64 }

func newBudget() *budget { return &budget{left: maxTotal} }

// smallBudget is that of a constant, of which a module may have many.
func smallBudget() *budget { return &budget{left: 1 << 17} }

// tooComplex is the error of a file that is not parsed or evaluated.
func tooComplex(name string) hcl.Diagnostics {
	return hcl.Diagnostics{{
		Severity: hcl.DiagError, Summary: "Too complex",
		Detail:  "Expressions are nested too deeply, or their values are too large: simplify them.",
		Subject: &hcl.Range{Filename: name, Start: hcl.InitialPos, End: hcl.InitialPos},
	}}
}

// spend reports whether an expression may be evaluated. It limits the numbers of the expression.
func (b *budget) spend(expr hclsyntax.Expression, scope *hcl.EvalContext) bool {
	if !limitNumbers(expr) {
		return false
	}
	cost := costOf(expr, scope)
	if cost > maxCost || cost > b.left {
		b.left -= min(cost, maxCost)
		return false
	}
	b.left -= cost
	return true
}

// value evaluates an expression. It returns false if that would take too much.
func (b *budget) value(expr hcl.Expression, scope *hcl.EvalContext) (value cty.Value, diagnostics hcl.Diagnostics, ok bool) {
	if syntax, native := expr.(hclsyntax.Expression); native && !b.spend(syntax, scope) {
		return cty.DynamicVal, nil, false
	}
	value, diagnostics = expr.Value(scope)
	return value, diagnostics, true
}

// constant evaluates an expression of constants. It returns false if that would take too much.
func (b *budget) constant(expr hcl.Expression, scope *hcl.EvalContext) (value cty.Value, diagnostics hcl.Diagnostics, ok bool) {
	value, diagnostics, ok = b.value(expr, scope)
	// What is left out is unknown.
	return value, diagnostics, ok && (diagnostics.HasErrors() || value.IsWhollyKnown())
}

// spendJSON reports whether the templates in the strings of JSON may be evaluated.
func (b *budget) spendJSON(content []byte, scope *hcl.EvalContext) bool {
	for _, text := range templatesOf(content) {
		expr, diagnostics := hclsyntax.ParseTemplate([]byte(text), "", hcl.InitialPos)
		if diagnostics.HasErrors() {
			continue
		}
		// The caller evaluates the template again, with numbers that are not limited.
		_, diagnostics, ok := b.constant(expr, scope)
		if !ok || diagnostics.HasErrors() && computes(expr) {
			return false
		}
	}
	return true
}

// costOf returns a bound for the size of the values that the evaluation of an expression creates.
func costOf(expr hclsyntax.Expression, scope *hcl.EvalContext) float64 {
	at := expr.Range()
	m := &meter{size: at.End.Byte - at.Start.Byte}
	_ = hclsyntax.Walk(expr, m)
	for _, traversal := range expr.Variables() {
		if scope == nil {
			break
		}
		if value, diagnostics := traversal.TraverseAbs(scope); !diagnostics.HasErrors() {
			m.add(value)
		}
		if m.size > maxCost {
			break
		}
	}
	elements, linear := m.elements, m.values*valueSize
	if m.splits {
		elements, linear = m.size, linear+m.size*splitSize
	}
	repeated := float64(m.size) * float64(m.groups+1) * math.Pow(float64(elements+1), float64(m.deepest))
	return max(float64(linear), repeated)
}

// unifying are the functions that compare each element, or its type, with each other one. Their
// values are not larger than their arguments, so what is within their arguments is not repeated.
var unifying = []string{"tolist", "toset", "tomap", "setunion", "setintersection", "setsubtract"}

// meter measures an expression and the values to which it refers.
type meter struct {
	// size is the number of bytes, elements that of nodes and values, and values that of values
	// to which the expression refers.
	size, elements, values int
	// loops are the variables of the loops around a node. deepest is the largest number of
	// loops around one that each repeat everything.
	loops           [][]string
	repeat, deepest int
	// splits is set if a function makes elements out of bytes, and groups is the number of
	// texts that a regular expression may make out of one.
	splits bool
	groups int
}

// repeats reports whether a node repeats one of its parts for each element of another. A loop over
// a part of an element of another loop does not: together, they repeat for each part once.
func (m *meter) repeats(node hclsyntax.Node) bool {
	switch node := node.(type) {
	case *hclsyntax.ForExpr:
		part, ok := node.CollExpr.(*hclsyntax.ScopeTraversalExpr)
		return !ok || !slices.ContainsFunc(m.loops, func(variables []string) bool { return slices.Contains(variables, part.Traversal.RootName()) })
	case *hclsyntax.FunctionCallExpr:
		// distinct compares each element with each other one.
		return node.Name == "join" || node.Name == "distinct"
	default:
		return false
	}
}

// Enter implements hclsyntax.Walker.
func (m *meter) Enter(node hclsyntax.Node) hcl.Diagnostics {
	m.elements++
	if m.repeats(node) {
		m.repeat++
		m.deepest = max(m.deepest, m.repeat)
	}
	switch node := node.(type) {
	case *hclsyntax.ForExpr:
		m.loops = append(m.loops, []string{node.KeyVar, node.ValVar})
	case *hclsyntax.FunctionCallExpr:
		if slices.Contains(unifying, node.Name) {
			m.deepest = max(m.deepest, m.repeat+1)
		}
		m.splits = m.splits || slices.Contains([]string{"split", "regexall", "jsondecode"}, node.Name)
	case *hclsyntax.LiteralValueExpr:
		if node.Val.Type() == cty.Number && node.Val.IsKnown() && !node.Val.IsNull() {
			m.size += digits(node.Val)
		}
		if node.Val.Type() == cty.String && node.Val.IsKnown() && !node.Val.IsNull() {
			m.groups += strings.Count(node.Val.AsString(), "(")
		}
	}
	return nil
}

// Exit implements hclsyntax.Walker.
func (m *meter) Exit(node hclsyntax.Node) hcl.Diagnostics {
	if _, ok := node.(*hclsyntax.ForExpr); ok {
		m.loops = m.loops[:len(m.loops)-1]
	}
	if m.repeats(node) {
		m.repeat--
	}
	return nil
}

// add adds a value. Values may contain each other many times, so it ends with the limit.
func (m *meter) add(value cty.Value) {
	m.elements++
	m.values++
	m.size += elementSize
	value, _ = value.Unmark()
	switch {
	case m.size > maxCost || !value.IsKnown() || value.IsNull():
	case value.Type() == cty.String:
		m.size += len(value.AsString())
	case value.Type() == cty.Number:
		m.size += digits(value)
	case value.CanIterateElements():
		for it := value.ElementIterator(); it.Next() && m.size <= maxCost; {
			key, element := it.Element()
			if key.Type() == cty.String && key.IsKnown() && !key.IsNull() {
				m.size += len(key.AsString())
			}
			m.add(element)
		}
	}
}

// digits returns about how many digits a number has as text.
func digits(number cty.Value) int {
	exponent := number.AsBigFloat().MantExp(nil)
	return max(exponent, -exponent) / 3
}

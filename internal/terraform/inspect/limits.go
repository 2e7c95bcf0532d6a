package inspect

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/appthrust/capt/internal/elements"
)

// maxDepth limits how deep expressions and blocks are nested. The manager parses what users write,
// and HCL itself has no limit: what is nested deeply exhausts the stack, which ends the process.
const maxDepth = 500

// MaxElements limits how many elements the values of variables have, and maxTokens the tokens of
// a module or file, or the elements of one in JSON: each of them needs some hundred bytes, and may
// be two bytes long.
const (
	MaxElements = 20_000
	maxTokens   = 100_000
)

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

// count returns at least the number of tokens of a configuration or variables file, or of elements
// in JSON. The lexer would need some hundred bytes for each.
func count(name string, content []byte) int {
	if strings.HasSuffix(name, ".json") {
		return elements.JSON(content)
	}
	return countHCL(content)
}

// plain matches the beginning of a comment line, or a string, in which nothing is evaluated, and
// quoted a string whose templates contain no other string.
var (
	plain  = regexp.MustCompile(`^[ \t]*(#|//)([^$%\r\n\x{FFFD}]|[$%][^$%{\r\n\x{FFFD}])*|"(` + literal + `)*[$%]?"`)
	quoted = regexp.MustCompile(`"(` + literal + `|[$%]\{[^"{}#/\r\n\x{FFFD}]*\})*[$%]?"`)
)

// literal matches a character in a string. Of a character that is not valid, the lexer makes a token.
const literal = `\\[^$%\r\n\x{FFFD}]|[^"\\$%\r\n\x{FFFD}]|[$%][^"\\$%{\r\n\x{FFFD}]`

// countHCL counts the words and other characters of HCL, and comment lines and strings as two.
// From a line on that may end within a string or a comment, it counts the words of everything.
func countHCL(text []byte) int {
	count, isOpen := 0, false
	for line := range bytes.Lines(text) {
		if !isOpen {
			rest := quoted.ReplaceAll(plain.ReplaceAll(line, []byte("#")), nil)
			isOpen = bytes.ContainsRune(rest, '"') || bytes.Contains(rest, []byte("/*"))
		}
		if !isOpen && !bytes.Contains(line, []byte("${")) && !bytes.Contains(line, []byte("%{")) {
			line = plain.ReplaceAll(line, []byte(`""`))
		}
		count += countWords(line)
	}
	return count
}

func countWords(text []byte) int {
	count, inWord := 0, false
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		text = text[size:]
		isWord := r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r)
		if isWord && !inWord || !isWord && r != ' ' && r != '\t' {
			count++
		}
		inWord = isWord
	}
	return count
}

// tooLarge is the error of a file that is not parsed.
func tooLarge(name string) hcl.Diagnostics {
	return failure(hcl.Range{Filename: name, Start: hcl.InitialPos, End: hcl.InitialPos}, "Too large",
		"The module or file has more than %d tokens or elements, the limit: remove some, or use a remote module.", maxTokens)
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

// tooComplex is the error of a file that is not parsed.
func tooComplex(name string) hcl.Diagnostics {
	return failure(hcl.Range{Filename: name, Start: hcl.InitialPos, End: hcl.InitialPos}, "Too complex",
		"Expressions are nested too deeply, or a number has too many digits: simplify them.")
}

// failure returns an error at a position.
func failure(at hcl.Range, summary, detail string, args ...any) hcl.Diagnostics {
	return hcl.Diagnostics{{Severity: hcl.DiagError, Summary: summary, Detail: fmt.Sprintf(detail, args...), Subject: &at}}
}

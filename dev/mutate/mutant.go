package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
)

// replacements maps an operator to the one that a mutant has instead. Each negates a
// condition or shifts its boundary.
var replacements = map[token.Token][]token.Token{
	token.EQL:  {token.NEQ},
	token.NEQ:  {token.EQL},
	token.LSS:  {token.LEQ, token.GEQ},
	token.LEQ:  {token.LSS, token.GTR},
	token.GTR:  {token.GEQ, token.LEQ},
	token.GEQ:  {token.GTR, token.LSS},
	token.LAND: {token.LOR},
	token.LOR:  {token.LAND},
	token.ADD:  {token.SUB},
	token.SUB:  {token.ADD},
}

// mutant is one change of a file: an operator that is replaced or removed.
type mutant struct {
	file        string
	text        []byte
	offset      int
	old, new    string
	line        int
	description string
}

func (m mutant) String() string {
	return fmt.Sprintf("%s:%d: %s", m.file, m.line, m.description)
}

// source returns the changed file.
func (m mutant) source() []byte {
	changed := make([]byte, 0, len(m.text)+len(m.new))
	changed = append(changed, m.text[:m.offset]...)
	changed = append(changed, m.new...)
	return append(changed, m.text[m.offset+len(m.old):]...)
}

// parse returns every mutant of a file.
func parse(path string) ([]mutant, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading a source file: %w", err)
	}
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("parsing a source file: %w", err)
	}
	var mutants []mutant
	add := func(at token.Pos, before, after string) {
		position := files.Position(at)
		description := fmt.Sprintf("%s → %s", before, after)
		if after == "" {
			description = before + " removed"
		}
		mutants = append(mutants, mutant{
			file: path, text: text, offset: position.Offset, line: position.Line, old: before, new: after, description: description,
		})
	}
	ast.Inspect(file, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.BinaryExpr:
			if isText(node) {
				return true
			}
			for _, other := range replacements[node.Op] {
				add(node.OpPos, node.Op.String(), other.String())
			}
		case *ast.UnaryExpr:
			if node.Op == token.NOT {
				add(node.OpPos, "!", "")
			}
		}
		return true
	})
	return mutants, nil
}

// isText reports whether an expression obviously concatenates strings: subtraction does
// not compile there, and a mutant that does not compile is not counted.
func isText(node *ast.BinaryExpr) bool {
	if node.Op != token.ADD {
		return false
	}
	found := false
	ast.Inspect(node, func(n ast.Node) bool {
		if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING {
			found = true
		}
		return !found
	})
	return found
}

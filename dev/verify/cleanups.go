package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// verifyCleanups returns an error for each function in the tests that cleans up with a context
// that has ended. It is the one of the test: it ends before the clean-ups run.
func verifyCleanups(root string) error {
	list, err := exec.Command("git", "-C", root, "ls-files", "-z", "*.go").Output()
	if err != nil {
		return fmt.Errorf("listing the files: %w", err)
	}
	var errs []error
	for file := range strings.SplitSeq(strings.TrimRight(string(list), "\x00"), "\x00") {
		if !strings.HasSuffix(file, "_test.go") && !strings.HasPrefix(file, "test/") && !strings.HasPrefix(file, "internal/testenv/") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, file))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("reading %s: %w", file, err)
		}
		errs = append(errs, checkCleanups(file, text)...)
	}
	return errors.Join(errs...)
}

// checkCleanups returns an error for each context of a test in the functions that a file passes
// to Cleanup. It does not know types: a variable or a field named ctx that is declared outside
// of the function counts as one.
func checkCleanups(file string, text []byte) []error {
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, file, text, parser.SkipObjectResolution)
	if err != nil {
		return []error{fmt.Errorf("parsing a test: %w", err)}
	}
	var errs []error
	ast.Inspect(parsed, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) != 1 || calledMethod(call) != "Cleanup" {
			return true
		}
		if literal, ok := call.Args[0].(*ast.FuncLit); ok {
			for _, found := range endedContexts(literal) {
				errs = append(errs, fmt.Errorf("%s: the context has ended when a clean-up runs: use context.WithoutCancel(t.Context()) or context.Background()", files.Position(found)))
			}
		}
		return true
	})
	return errs
}

// calledMethod returns the name of a called method, or of a function of another package.
func calledMethod(call *ast.CallExpr) string {
	if selector, ok := call.Fun.(*ast.SelectorExpr); ok {
		return selector.Sel.Name
	}
	return ""
}

// endedContexts returns where a function uses contexts of a test, except where it does so to
// get one that does not end.
func endedContexts(literal *ast.FuncLit) []token.Pos {
	own := ownContexts(literal)
	var found []token.Pos
	var visit func(n ast.Node) bool
	visit = func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if calledMethod(n) == "WithoutCancel" {
				return false
			}
			if selector, ok := n.Fun.(*ast.SelectorExpr); ok && selector.Sel.Name == "Context" && isTest(selector.X) {
				found = append(found, n.Pos())
				return false
			}
		case *ast.SelectorExpr:
			if n.Sel.Name == "ctx" {
				found = append(found, n.Pos())
			} else {
				ast.Inspect(n.X, visit)
			}
			return false
		case *ast.Ident:
			if n.Name == "ctx" && !own(n.Pos()) {
				found = append(found, n.Pos())
			}
		}
		return true
	}
	ast.Inspect(literal.Body, visit)
	return found
}

// ownContexts returns a function that reports whether a name ctx at a position is that of a
// variable of the function, or declares one.
func ownContexts(literal *ast.FuncLit) func(token.Pos) bool {
	since := token.Pos(0)
	var declaring []token.Pos
	declare := func(end token.Pos, names ...ast.Expr) {
		for _, name := range names {
			if ident, ok := name.(*ast.Ident); ok && ident.Name == "ctx" {
				declaring = append(declaring, ident.Pos())
				if since == 0 || end < since {
					since = end
				}
			}
		}
	}
	ast.Inspect(literal, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			if n.Tok == token.DEFINE {
				declare(n.End(), n.Lhs...)
			}
		case *ast.ValueSpec:
			for _, name := range n.Names {
				declare(n.End(), name)
			}
		case *ast.Field:
			for _, name := range n.Names {
				declare(n.End(), name)
			}
		}
		return true
	})
	return func(at token.Pos) bool {
		return since != 0 && at >= since || slices.Contains(declaring, at)
	}
}

// isTest reports whether an expression has the name of a test.
func isTest(value ast.Expr) bool {
	switch value := value.(type) {
	case *ast.Ident:
		return slices.Contains([]string{"t", "tb", "b", "T"}, value.Name)
	case *ast.SelectorExpr:
		return isTest(value.Sel)
	}
	return false
}

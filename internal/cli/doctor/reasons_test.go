package doctor

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/terraform"
)

// parseSources returns the files of a package without its tests.
func parseSources(t *testing.T, dir string) []*ast.File {
	t.Helper()
	g := NewWithT(t)
	names, err := filepath.Glob(filepath.Join("..", "..", "..", filepath.FromSlash(dir), "*.go"))
	g.Expect(err).NotTo(HaveOccurred())
	var files []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		g.Expect(err).NotTo(HaveOccurred())
		files = append(files, file)
	}
	g.Expect(files).NotTo(BeEmpty(), dir)
	return files
}

// constantsOf returns the reasons of an API package by the names of their constants.
func constantsOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	g := NewWithT(t)
	constants := map[string]string{}
	for _, file := range parseSources(t, dir) {
		ast.Inspect(file, func(node ast.Node) bool {
			spec, is := node.(*ast.ValueSpec)
			if !is || len(spec.Values) != 1 || !strings.HasSuffix(spec.Names[0].Name, "Reason") {
				return true
			}
			if literal, is := spec.Values[0].(*ast.BasicLit); is {
				value, err := strconv.Unquote(literal.Value)
				g.Expect(err).NotTo(HaveOccurred())
				constants[spec.Names[0].Name] = value
			}
			return true
		})
	}
	g.Expect(constants).NotTo(BeEmpty())
	return constants
}

// reasonName returns the name of the constant if an expression is a reason of an API package.
func reasonName(expression ast.Expr) string {
	if selector, is := expression.(*ast.SelectorExpr); is && strings.HasSuffix(selector.Sel.Name, "Reason") {
		if pkg, is := selector.X.(*ast.Ident); is && strings.HasSuffix(pkg.Name, "v1") {
			return selector.Sel.Name
		}
	}
	return ""
}

// stallingReason returns the name of a reason with which a workspace waits for a user: that
// of a stall, of a problem of the inputs, or of a failure that is never retried.
func stallingReason(node ast.Node) string {
	switch node := node.(type) {
	case *ast.CallExpr:
		callee := ""
		switch function := node.Fun.(type) {
		case *ast.Ident:
			callee = function.Name
		case *ast.SelectorExpr:
			callee = function.Sel.Name
		}
		if (callee == "Stall" || callee == "problem") && len(node.Args) > 0 {
			return reasonName(node.Args[0])
		}
	case *ast.ReturnStmt:
		if len(node.Results) == 2 {
			if mode, is := node.Results[1].(*ast.Ident); is && (mode.Name == "retryNever" || mode.Name == "unlessDestroying") {
				return reasonName(node.Results[0])
			}
		}
	}
	return ""
}

func TestFailureFixes_haveEveryReasonThatWaitsForAUser(t *testing.T) {
	g := NewWithT(t)
	values := constantsOf(t, "api/infrastructure/v1beta1")
	reasons := map[string]bool{string(terraform.StateMissing): true, string(terraform.StateForeign): true, string(terraform.StateOutdated): true}
	const workspaces = "internal/controllers/workspacetemplateapply"
	for _, dir := range []string{
		workspaces, workspaces + "/decision", workspaces + "/execution", workspaces + "/history", workspaces + "/lending",
		workspaces + "/runs", workspaces + "/sources", "internal/terraform/template",
	} {
		for _, file := range parseSources(t, dir) {
			ast.Inspect(file, func(node ast.Node) bool {
				if name := stallingReason(node); name != "" {
					g.Expect(values).To(HaveKey(name))
					reasons[values[name]] = true
				}
				return true
			})
		}
	}
	g.Expect(reasons).To(And(HaveKey(infrav1.RunFailedReason), HaveKey(infrav1.ToolNotAvailableReason), HaveKey(infrav1.ReservedNameReason), HaveKey(infrav1.DependencyCycleReason)), "the sources are understood")
	for reason := range reasons {
		g.Expect(failureFixes).To(HaveKey(reason))
	}
}

func TestAddonFixes_haveEveryFailure(t *testing.T) {
	g := NewWithT(t)
	found := 0
	for _, reason := range constantsOf(t, "api/addons/v1beta1") {
		if addonsv1.IsFailure(reason) {
			found++
			g.Expect(addonFixes).To(HaveKey(reason))
		}
	}
	g.Expect(found).To(BeNumerically(">", 10), "the sources are understood")
}

// A command that can be copied names the workspace.
func TestFailureFixes_nameTheWorkspaceInEveryCommand(t *testing.T) {
	for reason, fix := range failureFixes {
		for _, command := range regexp.MustCompile(`captctl (?:state |show )?[a-z-]+`).FindAllString(fix, -1) {
			if command != "captctl validate" {
				NewWithT(t).Expect(fix).To(ContainSubstring(command+" -n NS NAME"), reason)
			}
		}
	}
}

// A fix is a command that can be copied: every placeholder is replaced.
func TestForWorkspace_leavesNoPlaceholder(t *testing.T) {
	apply := &infrav1.WorkspaceTemplateApply{ObjectMeta: named("net")}
	fixes := maps.Clone(failureFixes)
	for reason, limit := range waitLimits {
		fixes[reason] = limit.fix
	}
	for reason, fix := range fixes {
		NewWithT(t).Expect(forWorkspace(fix, apply)).NotTo(MatchRegexp(`\b(NS|NAME)\b`), reason)
	}
}

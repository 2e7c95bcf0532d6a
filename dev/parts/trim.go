package main

import (
	"bytes"
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/appthrust/capt/dev/gomod"
)

// Terraform's AWS provider contains some 260 services, and linking them all requires
// more memory than most machines have. The code below builds it with a few of them: in
// a copy of the module's source, it removes the other services from the two generated
// files that list them. The code of the remaining services does not change.
const (
	// servicePackages lists every service of the provider.
	servicePackages = "internal/provider/sdkv2/service_packages_gen.go"
	// serviceClients has a method for the client of every service.
	serviceClients = "internal/conns/awsclient_gen.go"
	// services is the directory of the packages of the services.
	services = "internal/service"
)

// source returns the directory and the package of a program. For a trimmed program the
// directory is a copy, which done removes.
func (s store) source(ctx context.Context, p pinned) (dir, pkg string, done func(), err error) {
	module := filepath.Join(s.modules, p.module)
	if len(p.services) == 0 {
		return module, p.pkg, func() {}, nil
	}
	original, err := gomod.Download(ctx, module, p.versionOf+"@"+p.version)
	if err != nil {
		return "", "", nil, err
	}
	dir, err = os.MkdirTemp(s.cache, p.name+"-")
	if err != nil {
		return "", "", nil, fmt.Errorf("creating a directory for the source of %s: %w", p.name, err)
	}
	done = func() {
		if err := os.RemoveAll(dir); err != nil {
			fmt.Fprintln(os.Stderr, "parts: removing a copy of the source:", err)
		}
	}
	if err := copySource(original, dir); err != nil {
		done()
		return "", "", nil, fmt.Errorf("copying the source of %s: %w", p.name, err)
	}
	if err := trim(dir, p.pkg, p.services); err != nil {
		done()
		return "", "", nil, fmt.Errorf("trimming the source of %s: %w", p.name, err)
	}
	return dir, ".", done, nil
}

// copySource copies the files of a build, without tests and documentation.
func copySource(from, to string) error {
	return filepath.WalkDir(from, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(from, name)
		if err != nil {
			return err
		}
		target := filepath.Join(to, relative)
		if entry.IsDir() {
			if relative == "website" || relative == "docs" || relative == "examples" || entry.Name() == "testdata" {
				return filepath.SkipDir
			}
			return os.MkdirAll(target, 0o755)
		}
		if strings.HasSuffix(name, "_test.go") {
			return nil
		}
		content, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		return os.WriteFile(target, content, 0o644)
	})
}

// trim removes all services except those in keep, and unused clients, from the source
// of the AWS provider in dir.
func trim(dir, module string, keep []string) error {
	for _, name := range keep {
		if _, err := os.Stat(filepath.Join(dir, services, name)); err != nil {
			return fmt.Errorf("finding the service %q: %w", name, err)
		}
	}
	if err := rewrite(filepath.Join(dir, servicePackages), func(file *ast.File) []ast.Node {
		return otherServices(file, module, keep)
	}); err != nil {
		return err
	}
	packages, err := reached(dir, module)
	if err != nil {
		return err
	}
	used := map[string]bool{}
	for _, pkg := range packages {
		if err := clientsUsed(filepath.Join(dir, pkg), used); err != nil {
			return err
		}
	}
	return rewrite(filepath.Join(dir, serviceClients), func(file *ast.File) []ast.Node {
		return otherClients(file, used)
	})
}

// rewrite removes the lines of the nodes that drop returns from a file, and the imports
// that are no longer used.
func rewrite(name string, drop func(*ast.File) []ast.Node) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return fmt.Errorf("reading a generated list: %w", err)
	}
	for _, choose := range []func(*ast.File) []ast.Node{drop, unusedImports} {
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, name, text, parser.ParseComments)
		if err != nil {
			return fmt.Errorf("reading a generated list: %w", err)
		}
		text = cutLines(text, files, choose(file))
	}
	if err := os.WriteFile(name, text, 0o644); err != nil {
		return fmt.Errorf("writing a generated list: %w", err)
	}
	return nil
}

func cutLines(text []byte, files *token.FileSet, nodes []ast.Node) []byte {
	cut := map[int]bool{}
	for _, node := range nodes {
		for line := files.Position(node.Pos()).Line; line <= files.Position(node.End()).Line; line++ {
			cut[line] = true
		}
	}
	var kept bytes.Buffer
	number := 0
	for line := range bytes.Lines(text) {
		if number++; !cut[number] {
			kept.Write(line)
		}
	}
	return kept.Bytes()
}

// otherServices returns the entries of services that are not in keep: each a
// call of the package's function ServicePackage.
func otherServices(file *ast.File, module string, keep []string) []ast.Node {
	listed := map[string]bool{}
	for _, spec := range file.Imports {
		if name, is := strings.CutPrefix(importPath(spec), module+"/"+services+"/"); is {
			listed[localName(spec)] = !slices.Contains(keep, name)
		}
	}
	var dropped []ast.Node
	ast.Inspect(file, func(node ast.Node) bool {
		call, is := node.(*ast.CallExpr)
		if !is {
			return true
		}
		if selector, is := call.Fun.(*ast.SelectorExpr); is && selector.Sel.Name == "ServicePackage" {
			if name, is := selector.X.(*ast.Ident); is && listed[name.Name] {
				dropped = append(dropped, call)
			}
		}
		return true
	})
	return dropped
}

// otherClients returns the methods whose names are not in used.
func otherClients(file *ast.File, used map[string]bool) []ast.Node {
	var dropped []ast.Node
	for _, declaration := range file.Decls {
		if method, is := declaration.(*ast.FuncDecl); is && method.Recv != nil && !used[method.Name.Name] {
			dropped = append(dropped, method)
		}
	}
	return dropped
}

func unusedImports(file *ast.File) []ast.Node {
	named := map[string]bool{}
	ast.Inspect(file, func(node ast.Node) bool {
		if selector, is := node.(*ast.SelectorExpr); is {
			if name, is := selector.X.(*ast.Ident); is {
				named[name.Name] = true
			}
		}
		return true
	})
	var dropped []ast.Node
	for _, spec := range file.Imports {
		if !named[localName(spec)] {
			dropped = append(dropped, spec)
		}
	}
	return dropped
}

func importPath(spec *ast.ImportSpec) string {
	name, err := strconv.Unquote(spec.Path.Value)
	if err != nil {
		return ""
	}
	return name
}

func localName(spec *ast.ImportSpec) string {
	if spec.Name != nil {
		return spec.Name.Name
	}
	return path.Base(importPath(spec))
}

// reached returns the directories, relative to dir, of the module's packages that its
// main package depends on.
func reached(dir, module string) ([]string, error) {
	seen := map[string]bool{".": true}
	for todo := []string{"."}; len(todo) > 0; todo = todo[1:] {
		err := eachFile(filepath.Join(dir, todo[0]), parser.ImportsOnly, func(_ string, file *ast.File) {
			for _, spec := range file.Imports {
				pkg, is := strings.CutPrefix(importPath(spec), module+"/")
				if is && !seen[pkg] {
					seen[pkg] = true
					todo = append(todo, pkg)
				}
			}
		})
		if err != nil {
			return nil, err
		}
	}
	return slices.Sorted(maps.Keys(seen)), nil
}

// clientsUsed adds every name that a package's files select to used, except in the list
// of clients itself.
func clientsUsed(dir string, used map[string]bool) error {
	return eachFile(dir, parser.SkipObjectResolution, func(name string, file *ast.File) {
		if strings.HasSuffix(filepath.ToSlash(name), serviceClients) {
			return
		}
		ast.Inspect(file, func(node ast.Node) bool {
			if selector, is := node.(*ast.SelectorExpr); is {
				used[selector.Sel.Name] = true
			}
			return true
		})
	})
}

// eachFile parses the Go files of a package, without its tests.
func eachFile(dir string, mode parser.Mode, visit func(name string, file *ast.File)) error {
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return fmt.Errorf("listing a package: %w", err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, mode)
		if err != nil {
			return fmt.Errorf("reading a package: %w", err)
		}
		visit(name, file)
	}
	return nil
}

package page

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"strconv"
	"strings"
)

// Field is a field in the Go code of a page.
type Field struct {
	// Path is the path of the field in an object, such as
	// spec.controlPlaneEndpoint.host.
	Path string
	// Type is the OpenAPI type.
	Type string
	// Doc is its description.
	Doc string
	// Markers are its validations by the name of the marker. A marker without a value
	// has an empty value.
	Markers map[string][]string
}

// Fields returns the fields of the spec or status in a block of code. The name of the
// first struct determines its path.
func Fields(source string) ([]Field, error) {
	file, err := parser.ParseFile(token.NewFileSet(), "page.go", "package page\n"+source, parser.ParseComments)
	if err != nil {
		return nil, fmt.Errorf("parsing: %w", err)
	}
	w := &structs{types: map[string]*ast.StructType{}, docs: map[string]string{}}
	for _, decl := range file.Decls {
		gen, ok := decl.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, spec := range gen.Specs {
			t, ok := spec.(*ast.TypeSpec)
			if !ok {
				continue
			}
			if s, ok := t.Type.(*ast.StructType); ok {
				w.types[t.Name.Name], w.docs[t.Name.Name] = s, gen.Doc.Text()
				w.order = append(w.order, t.Name.Name)
			}
		}
	}
	if len(w.order) == 0 {
		return nil, nil
	}
	root := w.order[0]
	w.walk(root, rootPath(root))
	return w.fields, nil
}

// rootPath returns the path of a struct in an object.
func rootPath(name string) string {
	switch {
	case strings.HasSuffix(name, "MachineTemplateSpec") && strings.Contains(name, "ControlPlane"):
		return "spec.machineTemplate.spec"
	case strings.HasSuffix(name, "Spec"):
		return "spec"
	case strings.HasSuffix(name, "Status"):
		return "status"
	default:
		return ""
	}
}

type structs struct {
	types  map[string]*ast.StructType
	docs   map[string]string
	order  []string
	fields []Field
}

func (w *structs) walk(name, path string) {
	for _, f := range w.types[name].Fields.List {
		tag := ""
		if f.Tag != nil {
			text, _ := strconv.Unquote(f.Tag.Value)
			tag, _, _ = strings.Cut(reflect.StructTag(text).Get("json"), ",")
		}
		if tag == "" || len(f.Names) == 0 {
			continue
		}
		text, markers := split(commentOf(f))
		field := Field{Path: strings.TrimPrefix(path+"."+tag, "."), Type: typeOf(f.Type), Doc: text, Markers: markers}
		inner := nameOfType(f.Type)
		if _, known := w.types[inner]; known {
			_, ofType := split(w.docs[inner])
			for name, values := range ofType {
				markers[name] = append(markers[name], values...)
			}
		}
		w.fields = append(w.fields, field)
		if _, known := w.types[inner]; known {
			w.walk(inner, field.Path)
		}
	}
}

// commentOf returns the comment of a field, with its markers.
func commentOf(f *ast.Field) string {
	if f.Doc == nil {
		return ""
	}
	var lines []string
	for _, c := range f.Doc.List {
		lines = append(lines, strings.TrimSpace(strings.TrimPrefix(c.Text, "//")))
	}
	return strings.Join(lines, "\n")
}

// split separates the markers of a comment from its text.
func split(comment string) (string, map[string][]string) {
	var text []string
	markers := map[string][]string{}
	for line := range strings.SplitSeq(comment, "\n") {
		marker, ok := strings.CutPrefix(strings.TrimSpace(line), "+")
		if !ok {
			text = append(text, line)
			continue
		}
		name, value, _ := strings.Cut(marker, "=")
		name = strings.TrimPrefix(name, "kubebuilder:validation:")
		markers[name] = append(markers[name], value)
	}
	return strings.Join(text, " "), markers
}

func nameOfType(e ast.Expr) string {
	switch t := e.(type) {
	case *ast.Ident:
		return t.Name
	case *ast.StarExpr:
		return nameOfType(t.X)
	case *ast.ArrayType:
		return nameOfType(t.Elt)
	case *ast.SelectorExpr:
		return nameOfType(t.X) + "." + t.Sel.Name
	default:
		return ""
	}
}

func typeOf(e ast.Expr) string {
	if star, ok := e.(*ast.StarExpr); ok {
		return typeOf(star.X)
	}
	if _, ok := e.(*ast.ArrayType); ok {
		return "array"
	}
	switch nameOfType(e) {
	case "string", "metav1.Time":
		return "string"
	case "int32", "int64":
		return "integer"
	case "bool":
		return "boolean"
	default:
		return "object"
	}
}

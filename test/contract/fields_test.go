package contract

import (
	"slices"
	"strconv"
	"strings"

	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/appthrust/capt/test/contract/page"
)

// hasFields holds when the definition of the kind has every field that the code
// of the clause shows, with its type and its validations.
func hasFields(c *check) { c.hasFields(c.subject.kind) }

// templateHasFields is hasFields for the template.
func templateHasFields(c *check) { c.hasFields(c.subject.template()) }

func (c *check) hasFields(kind schema.GroupVersionKind) {
	c.t.Helper()
	root := c.schemaOf(kind)
	for _, field := range c.fields() {
		found, required := lookup(root, field.Path)
		c.Expect(found).NotTo(BeNil(), "%s has the field %s", kind.Kind, field.Path)
		c.Expect(found.Type).To(Equal(field.Type), field.Path)
		for marker, values := range field.Markers {
			c.marked(field.Path, found, required, marker, values)
		}
	}
}

// lacksFields holds when the definition has none of the fields.
func lacksFields(c *check) {
	c.t.Helper()
	root := c.schemaOf(c.subject.kind)
	for _, field := range c.fields() {
		found, _ := lookup(root, field.Path)
		c.Expect(found).To(BeNil(), "%s has no field %s", c.subject.kind.Kind, field.Path)
	}
}

// lacks holds when the definition has no field of the path.
func lacks(path string) rule {
	return func(c *check) {
		found, _ := lookup(c.schemaOf(c.subject.kind), path)
		c.Expect(found).To(BeNil(), "%s has no field %s", c.subject.kind.Kind, path)
	}
}

// hasType holds when the definition has the field, with the type.
func hasType(path, of string) rule {
	return func(c *check) {
		found, _ := lookup(c.schemaOf(c.subject.kind), path)
		c.Expect(found).NotTo(BeNil(), "%s has the field %s", c.subject.kind.Kind, path)
		c.Expect(found.Type).To(Equal(of), path)
	}
}

// fields are those of the clause's code.
func (c *check) fields() []page.Field {
	c.t.Helper()
	var all []page.Field
	for _, code := range c.clause.Code {
		fields, err := page.Fields(code)
		c.Expect(err).NotTo(HaveOccurred())
		all = append(all, fields...)
	}
	c.Expect(all).NotTo(BeEmpty(), "the clause shows fields")
	return all
}

// lookup finds the schema of a path, and whether the field is required.
func lookup(s *apiextensionsv1.JSONSchemaProps, path string) (found *apiextensionsv1.JSONSchemaProps, required bool) {
	for name := range strings.SplitSeq(path, ".") {
		if s.Items != nil && s.Items.Schema != nil {
			s = s.Items.Schema
		}
		next, ok := s.Properties[name]
		if !ok {
			return nil, false
		}
		required = slices.Contains(s.Required, name)
		s = &next
	}
	return s, required
}

// marked compares a marker of the page with the schema. Those that do not reach
// a schema are left out by name, so that a new one is seen.
func (c *check) marked(path string, s *apiextensionsv1.JSONSchemaProps, required bool, marker string, values []string) {
	c.t.Helper()
	number := func(n *int64) string {
		if n == nil {
			return "none"
		}
		return strconv.FormatInt(*n, 10)
	}
	whole := func(n *float64) string {
		if n == nil {
			return "none"
		}
		return strconv.FormatFloat(*n, 'f', -1, 64)
	}
	item := &apiextensionsv1.JSONSchemaProps{}
	if s.Items != nil && s.Items.Schema != nil {
		item = s.Items.Schema
	}
	wanted := strings.Join(values, ",")
	switch marker {
	case "required":
		c.Expect(required).To(BeTrue(), "%s is required", path)
	case "optional":
		c.Expect(required).To(BeFalse(), "%s is optional", path)
	case "MinLength":
		c.Expect(number(s.MinLength)).To(Equal(wanted), "%s of %s", marker, path)
	case "MaxLength":
		c.Expect(number(s.MaxLength)).To(Equal(wanted), "%s of %s", marker, path)
	case "MinItems":
		c.Expect(number(s.MinItems)).To(Equal(wanted), "%s of %s", marker, path)
	case "MaxItems":
		c.Expect(number(s.MaxItems)).To(Equal(wanted), "%s of %s", marker, path)
	case "MinProperties":
		c.Expect(number(s.MinProperties)).To(Equal(wanted), "%s of %s", marker, path)
	case "Minimum":
		c.Expect(whole(s.Minimum)).To(Equal(wanted), "%s of %s", marker, path)
	case "Maximum":
		c.Expect(whole(s.Maximum)).To(Equal(wanted), "%s of %s", marker, path)
	case "items:MinLength":
		c.Expect(number(item.MinLength)).To(Equal(wanted), "%s of %s", marker, path)
	case "items:MaxLength":
		c.Expect(number(item.MaxLength)).To(Equal(wanted), "%s of %s", marker, path)
	case "listType":
		c.Expect(s.XListType).To(HaveValue(Equal(wanted)), "%s of %s", marker, path)
	case "listMapKey":
		c.Expect(s.XListMapKeys).To(ConsistOf(values), "%s of %s", marker, path)
	case "kubebuilder:object:root", "kubebuilder:storageversion", "kubebuilder:subresource:status", "kubebuilder:resource:path":
	default:
		c.t.Fatalf("the page has the marker %s at %s, which no rule compares", marker, path)
	}
}

package contract

import (
	"fmt"
	"slices"
	"strings"

	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// contractFields are the fields in the Go code of the pages, with their type and their
// markers.
var contractFields = map[string]string{
	"spec":                                          "object",
	"spec.controlPlaneEndpoint":                     "object optional MinProperties=1",
	"spec.controlPlaneEndpoint.host":                "string optional MinLength=1 MaxLength=512",
	"spec.controlPlaneEndpoint.port":                "integer optional Minimum=1 Maximum=65535",
	"spec.providerID":                               "string optional MinLength=1 MaxLength=512",
	"spec.providerIDList":                           "array optional MaxItems=10000 items:MinLength=1 items:MaxLength=512 listType=atomic",
	"spec.template":                                 "object",
	"spec.template.metadata":                        "object optional",
	"spec.template.spec":                            "object",
	"spec.version":                                  "string required MinLength=1 MaxLength=256",
	"status":                                        "object",
	"status.addresses":                              "array optional",
	"status.dataSecretName":                         "string optional MinLength=1 MaxLength=253",
	"status.externalManagedControlPlane":            "boolean optional",
	"status.failureDomain":                          "string optional MinLength=1 MaxLength=256",
	"status.failureDomains":                         "array optional MinItems=1 MaxItems=100 listType=map listMapKey=name",
	"status.initialization":                         "object optional MinProperties=1",
	"status.initialization.controlPlaneInitialized": "boolean optional",
	"status.initialization.dataSecretCreated":       "boolean optional",
	"status.initialization.provisioned":             "boolean optional",
	"status.replicas":                               "integer optional",
	"status.version":                                "string optional MinLength=1 MaxLength=256",
	"status.versions":                               "array optional MinItems=1 MaxItems=100 listType=map listMapKey=version",
}

// endpointFields are the fields of an endpoint.
var endpointFields = []string{"spec.controlPlaneEndpoint", "spec.controlPlaneEndpoint.host", "spec.controlPlaneEndpoint.port"}

// hasFields holds when the definition of the kind has the fields of the paths, with the
// types and the validations of the contract.
func hasFields(paths ...string) rule {
	return func(c *check) { c.hasFields(c.subject.kind, paths) }
}

// templateHasFields is hasFields for the template.
func templateHasFields(paths ...string) rule {
	return func(c *check) { c.hasFields(c.subject.template(), paths) }
}

func (c *check) hasFields(kind schema.GroupVersionKind, paths []string) {
	c.t.Helper()
	root := c.schemaOf(kind)
	for _, path := range paths {
		found, required := lookup(root, path)
		c.Expect(found).NotTo(BeNil(), "%s has the field %s", kind.Kind, path)
		c.Expect(contractFields).To(HaveKey(path))
		c.Expect(markers(found, required)).To(ContainElements(strings.Fields(contractFields[path])), path)
	}
}

// lacks holds when the definition has no fields of the paths.
func lacks(paths ...string) rule {
	return func(c *check) {
		for _, path := range paths {
			found, _ := lookup(c.schemaOf(c.subject.kind), path)
			c.Expect(found).To(BeNil(), "%s has no field %s", c.subject.kind.Kind, path)
		}
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

// markers returns the type of a field and its markers.
func markers(s *apiextensionsv1.JSONSchemaProps, required bool) []string {
	all := []string{s.Type, "optional"}
	if required {
		all[1] = "required"
	}
	add := func(prefix string, s *apiextensionsv1.JSONSchemaProps) {
		for name, limit := range map[string]*int64{
			"MinLength": s.MinLength, "MaxLength": s.MaxLength, "MinItems": s.MinItems, "MaxItems": s.MaxItems, "MinProperties": s.MinProperties,
		} {
			if limit != nil {
				all = append(all, fmt.Sprintf("%s%s=%d", prefix, name, *limit))
			}
		}
		for name, limit := range map[string]*float64{"Minimum": s.Minimum, "Maximum": s.Maximum} {
			if limit != nil {
				all = append(all, fmt.Sprintf("%s%s=%.0f", prefix, name, *limit))
			}
		}
	}
	add("", s)
	if s.Items != nil && s.Items.Schema != nil {
		add("items:", s.Items.Schema)
	}
	if s.XListType != nil {
		all = append(all, "listType="+*s.XListType)
	}
	if len(s.XListMapKeys) > 0 {
		all = append(all, "listMapKey="+strings.Join(s.XListMapKeys, ","))
	}
	return all
}

package generate

import (
	"maps"
	"slices"

	"github.com/zclconf/go-cty/cty"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// schemaOf returns the schema of the values that a variable of a type takes. Sets and tuples are
// arrays; the plan checks what a schema cannot express.
func schemaOf(t cty.Type) clusterv1.JSONSchemaProps {
	switch {
	case t == cty.String:
		return clusterv1.JSONSchemaProps{Type: "string"}
	case t == cty.Number:
		return clusterv1.JSONSchemaProps{Type: "number"}
	case t == cty.Bool:
		return clusterv1.JSONSchemaProps{Type: "boolean"}
	case t.IsListType(), t.IsSetType():
		return clusterv1.JSONSchemaProps{Type: "array", Items: new(schemaOf(t.ElementType()))}
	case t.IsTupleType():
		return clusterv1.JSONSchemaProps{Type: "array", Items: new(anything())}
	case t.IsMapType():
		return clusterv1.JSONSchemaProps{Type: "object", AdditionalProperties: new(schemaOf(t.ElementType()))}
	case t.IsObjectType():
		return objectSchema(t)
	default:
		return anything()
	}
}

func objectSchema(t cty.Type) clusterv1.JSONSchemaProps {
	schema := clusterv1.JSONSchemaProps{Type: "object", Properties: map[string]clusterv1.JSONSchemaProps{}}
	types := t.AttributeTypes()
	for _, name := range slices.Sorted(maps.Keys(types)) {
		schema.Properties[name] = schemaOf(types[name])
		if !t.AttributeOptional(name) {
			schema.Required = append(schema.Required, name)
		}
	}
	return schema
}

// anything is the schema of all values.
func anything() clusterv1.JSONSchemaProps {
	return clusterv1.JSONSchemaProps{XPreserveUnknownFields: new(true)}
}

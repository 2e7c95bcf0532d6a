package validate

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	metavalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"

	"github.com/appthrust/capt/config/crd"
)

// kind is a version of one of CAPT's kinds with the checks of the API server.
type kind struct {
	crd     *apiextensionsv1.CustomResourceDefinition
	version apiextensionsv1.CustomResourceDefinitionVersion

	once       sync.Once
	err        error
	structural *structuralschema.Structural
	schema     validation.SchemaValidator
	cel        *cel.Validator
}

// kinds returns CAPT's kinds.
var kinds = sync.OnceValues(func() (map[schema.GroupVersionKind]*kind, error) {
	definitions, err := crd.Definitions()
	if err != nil {
		return nil, err
	}
	all := map[schema.GroupVersionKind]*kind{}
	for _, definition := range definitions {
		for _, version := range definition.Spec.Versions {
			gvk := schema.GroupVersionKind{Group: definition.Spec.Group, Version: version.Name, Kind: definition.Spec.Names.Kind}
			all[gvk] = &kind{crd: definition, version: version}
		}
	}
	return all, nil
})

// prepare compiles the schema and its CEL rules once, because that is slow.
func (k *kind) prepare() error {
	k.once.Do(func() { k.err = k.compile() })
	return k.err
}

func (k *kind) compile() error {
	internal := &apiextensions.JSONSchemaProps{}
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(k.version.Schema.OpenAPIV3Schema, internal, nil); err != nil {
		return fmt.Errorf("reading the schema of %s: %w", k.crd.Name, err)
	}
	var err error
	if k.structural, err = structuralschema.NewStructural(internal); err != nil {
		return fmt.Errorf("reading the schema of %s: %w", k.crd.Name, err)
	}
	if k.schema, _, err = validation.NewSchemaValidator(internal); err != nil {
		return fmt.Errorf("reading the schema of %s: %w", k.crd.Name, err)
	}
	k.cel = cel.NewValidator(k.structural, true, celconfig.PerCallLimit)
	return nil
}

// isNamespaced reports whether objects of the kind are in a namespace.
func (k *kind) isNamespaced() bool { return k.crd.Spec.Scope == apiextensionsv1.NamespaceScoped }

// unknownFields removes the fields that the kind does not have from the object, and
// returns their paths. The error is about invalid metadata.
func (k *kind) unknownFields(object map[string]any) ([]string, *field.Error) {
	unknown := pruning.PruneWithOptions(object, k.structural, true, structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
	err, inMetadata := objectmeta.CoerceWithOptions(nil, object, k.structural, true, objectmeta.CoerceOptions{ReturnUnknownFieldPaths: true})
	return append(unknown, inMetadata...), err
}

// names returns the fields that the kind has at a path.
func (k *kind) names(path []string) []string {
	at := k.structural
	for _, segment := range path {
		switch next, found := at.Properties[segment]; {
		case found:
			at = &next
		case segment == "[]" && at.Items != nil:
			at = at.Items
		case at.AdditionalProperties != nil && at.AdditionalProperties.Structural != nil:
			at = at.AdditionalProperties.Structural
		default:
			return nil
		}
	}
	return slices.Sorted(maps.Keys(at.Properties))
}

// check sets the defaults of the object, and returns the errors for which the API server
// would reject it.
func (k *kind) check(ctx context.Context, object *unstructured.Unstructured) field.ErrorList {
	if k.version.Subresources != nil && k.version.Subresources.Status != nil {
		unstructured.RemoveNestedField(object.Object, "status")
	}
	defaulting.Default(object.Object, k.structural)
	errs := metavalidation.ValidateObjectMetaAccessor(object, k.isNamespaced(), metavalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	errs = append(errs, validation.ValidateCustomResource(nil, object.Object, k.schema)...)
	errs = append(errs, objectmeta.Validate(nil, object.Object, k.structural, false)...)
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, k.structural, object.Object)...)
	if k.cel == nil || preventsCEL(errs) {
		return errs
	}
	violations, _ := k.cel.Validate(ctx, nil, k.structural, object.Object, nil, celconfig.RuntimeCELCostBudget)
	return append(errs, violations...)
}

// preventsCEL reports whether the API server does not evaluate CEL rules because of the
// errors.
func preventsCEL(errs field.ErrorList) bool {
	for _, err := range errs {
		switch err.Type {
		case field.ErrorTypeNotSupported, field.ErrorTypeRequired, field.ErrorTypeTooLong, field.ErrorTypeTooMany, field.ErrorTypeTypeInvalid:
			return true
		default:
		}
	}
	return false
}

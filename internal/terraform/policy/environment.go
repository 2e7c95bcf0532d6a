// Package policy decides about plans with the rules of policies, which are written in
// CEL. It makes no API calls.
package policy

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"

	"github.com/appthrust/capt/internal/terraform"
)

// The types of the variables that rules see.
const (
	resourceType  = "capt.Resource"
	changeType    = "capt.Change"
	outputType    = "capt.Output"
	planType      = "capt.Plan"
	summaryType   = "capt.Summary"
	workspaceType = "capt.Workspace"
	templateType  = "capt.Template"
)

var (
	labelsType = cel.MapType(cel.StringType, cel.StringType)
	textsType  = cel.ListType(cel.StringType)
)

// fields are the fields of the types. A change in a plan has no values, so that a plan
// of thousands of resources does not have to be in memory.
var fields = func() map[string]map[string]*cel.Type {
	change := map[string]*cel.Type{
		"address": cel.StringType, "previousAddress": cel.StringType, "module": cel.StringType, "mode": cel.StringType,
		"type": cel.StringType, "name": cel.StringType, "provider": cel.StringType, "reason": cel.StringType,
		"action": cel.StringType, "actions": textsType,
	}
	values := map[string]*cel.Type{
		"before": cel.DynType, "after": cel.DynType,
		"changedPaths": textsType, "unknownPaths": textsType, "sensitivePaths": textsType,
	}
	resource := maps.Clone(change)
	maps.Copy(resource, values)
	resource["replacePaths"] = textsType
	output := map[string]*cel.Type{"action": cel.StringType}
	maps.Copy(output, values)
	summary := map[string]*cel.Type{
		"destroy": cel.BoolType, "refreshOnly": cel.BoolType, "partial": cel.BoolType, "toAdd": cel.IntType, "toChange": cel.IntType, "toDestroy": cel.IntType,
	}
	plan := maps.Clone(summary)
	plan["resourceChanges"] = cel.ListType(cel.ObjectType(changeType))
	plan["outputs"] = cel.MapType(cel.StringType, cel.ObjectType(outputType))
	return map[string]map[string]*cel.Type{
		resourceType: resource, changeType: change, outputType: output, planType: plan, summaryType: summary,
		workspaceType: {"namespace": cel.StringType, "name": cel.StringType, "clusterName": cel.StringType, "labels": labelsType},
		templateType:  {"namespace": cel.StringType, "name": cel.StringType, "version": cel.StringType, "labels": labelsType},
	}
}()

// variables are the variables of rules and their types.
func variables(match terraform.PolicyMatch) map[string]string {
	names := map[string]string{"plan": planType, "workspace": workspaceType, "template": templateType}
	if match == terraform.MatchEachChange {
		names["plan"], names["resource"] = summaryType, resourceType
	}
	return names
}

// provider adds the types of the variables to those of CEL. Their values are maps.
type provider struct{ types.Provider }

// FindStructType returns a type by name.
func (p provider) FindStructType(name string) (*types.Type, bool) {
	if _, found := fields[name]; found {
		return types.NewTypeTypeWithParam(types.NewObjectType(name)), true
	}
	return p.Provider.FindStructType(name)
}

// FindStructFieldNames returns the names of the fields of a type.
func (p provider) FindStructFieldNames(name string) ([]string, bool) {
	if known, found := fields[name]; found {
		return slices.Sorted(maps.Keys(known)), true
	}
	return p.Provider.FindStructFieldNames(name)
}

// FindStructFieldType returns the type of a field.
func (p provider) FindStructFieldType(name, field string) (*types.FieldType, bool) {
	if known, found := fields[name]; found {
		fieldType, exists := known[field]
		return &types.FieldType{Type: fieldType}, exists
	}
	return p.Provider.FindStructFieldType(name, field)
}

// environments are the environments of the rules of each match. They are immutable.
var environments = map[terraform.PolicyMatch]func() (*cel.Env, error){
	terraform.MatchEachChange: sync.OnceValues(func() (*cel.Env, error) { return newEnvironment(terraform.MatchEachChange) }),
	terraform.MatchPlan:       sync.OnceValues(func() (*cel.Env, error) { return newEnvironment(terraform.MatchPlan) }),
}

// newEnvironment returns an environment with the standard library and optional values.
// Functions whose costs CEL does not track are left out.
func newEnvironment(match terraform.PolicyMatch) (*cel.Env, error) {
	base, err := cel.NewEnv(cel.OptionalTypes())
	if err != nil {
		return nil, fmt.Errorf("preparing CEL: %w", err)
	}
	options := []cel.EnvOption{cel.CustomTypeProvider(provider{base.CELTypeProvider()})}
	for name, variable := range variables(match) {
		options = append(options, cel.Variable(name, cel.ObjectType(variable)))
	}
	env, err := base.Extend(options...)
	if err != nil {
		return nil, fmt.Errorf("preparing CEL: %w", err)
	}
	return env, nil
}

package inspect

import (
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// Configuration is a configuration of a provider: a provider block.
type Configuration struct {
	// Provider is the local name of the provider.
	Provider string
	// Several is set if the block is not the only configuration of the provider, or stands
	// for more than one: it has an alias or for_each.
	Several bool
	// Static is set if the arguments depend on nothing but variables, so that they are known
	// before a plan.
	Static bool
}

var (
	configurationSchema = &hcl.BodySchema{Blocks: []hcl.BlockHeaderSchema{
		{Type: "provider", LabelNames: []string{"name"}}, {Type: "locals"},
	}}
	severalSchema = &hcl.BodySchema{Attributes: []hcl.AttributeSchema{{Name: "alias"}, {Name: "for_each"}}}
)

// Configurations returns the provider blocks of all files, also those that an override file
// merges into another.
func (m *Module) Configurations() []Configuration {
	locals := locals{}
	var blocks hcl.Blocks
	for _, body := range m.bodies {
		content, _, _ := body.PartialContent(configurationSchema) // Errors are in the diagnostics.
		for _, block := range content.Blocks {
			if block.Type == "provider" {
				blocks = append(blocks, block)
				continue
			}
			attributes, _ := block.Body.JustAttributes()
			for name, attribute := range attributes {
				locals[name] = append(locals[name], attribute.Expr)
			}
		}
	}
	var configurations []Configuration
	for _, block := range blocks {
		content, _, _ := block.Body.PartialContent(severalSchema)
		configurations = append(configurations, Configuration{
			Provider: block.Labels[0], Several: len(content.Attributes) > 0,
			Static: locals.areStatic(expressions(block.Body), map[string]bool{}),
		})
	}
	return configurations
}

// expressions returns the expressions of a body and of the blocks in it, or nil elements for
// what cannot be read.
func expressions(body hcl.Body) []hcl.Expression {
	var found []hcl.Expression
	native, isNative := body.(*hclsyntax.Body)
	if !isNative {
		// In JSON, blocks are attributes as well.
		attributes, problems := body.JustAttributes()
		if problems.HasErrors() {
			return []hcl.Expression{nil}
		}
		for _, attribute := range attributes {
			found = append(found, attribute.Expr)
		}
		return found
	}
	for _, attribute := range native.Attributes {
		found = append(found, attribute.Expr)
	}
	for _, block := range native.Blocks {
		found = append(found, expressions(block.Body)...)
	}
	return found
}

// locals are the local values of a module. An override file adds another expression.
type locals map[string][]hcl.Expression

// areStatic reports whether expressions depend on nothing but variables. Checked are the local
// values that need no further check.
func (l locals) areStatic(all []hcl.Expression, checked map[string]bool) bool {
	for _, expr := range all {
		if expr == nil {
			return false
		}
		for _, traversal := range expr.Variables() {
			switch traversal.RootName() {
			case "var", "path", "terraform":
			case "local":
				if len(traversal) < 2 {
					return false
				}
				step, isAttribute := traversal[1].(hcl.TraverseAttr)
				if !isAttribute || len(l[step.Name]) == 0 {
					return false
				}
				if checked[step.Name] {
					continue
				}
				checked[step.Name] = true
				if !l.areStatic(l[step.Name], checked) {
					return false
				}
			default:
				return false
			}
		}
	}
	return true
}

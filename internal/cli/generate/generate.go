// Package generate writes a WorkspaceTemplate, and a ClusterClass for a control plane, for a
// Terraform module that others have written.
package generate

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/terraform/inspect"
)

// Options configure what is generated.
type Options struct {
	// Name is the name of the objects.
	Name string
	// Parameters are the source of the module.
	Parameters infrav1.ModuleParameters
	// ProviderConfig is the name of the WorkspaceProviderConfig, or empty.
	ProviderConfig string
	// Network is the name of the WorkspaceTemplate of the network, or empty.
	Network string
	// Variables are the optional variables that the class gets. Nil are all.
	Variables []string
}

// Result is what is generated for a module.
type Result struct {
	Objects []client.Object
	// Missing are the things that the user must add.
	Missing []string
}

// role is what a module creates.
type role string

const (
	controlPlane role = "control plane"
	networkRole  role = "network"
	workspace    role = "workspace"
)

// generator collects the result for a module.
type generator struct {
	Options
	Result
	module *inspect.Module
	role   role
	// vars are the variables of the module that the template sets.
	vars []infrav1.Variable
	// taken are the variables of the module that CAPT or the template sets.
	taken map[string]bool
}

// New generates objects for a module without errors.
func New(module *inspect.Module, options Options) (*Result, error) {
	g := &generator{Options: options, module: module, role: roleOf(module), taken: map[string]bool{}}
	for _, name := range options.Variables {
		if _, declared := module.Variables[name]; !declared {
			return nil, fmt.Errorf("the module has no variable %q: its variables are %s", name, strings.Join(sorted(module.Variables), ", "))
		}
	}
	if g.role == controlPlane {
		g.connectInputs()
	}
	template := g.template()
	g.Objects = append(g.Objects, template)
	if g.role == controlPlane {
		if err := g.addClass(); err != nil {
			return nil, err
		}
	} else {
		g.listRequired()
	}
	g.listProviders()
	return &g.Result, nil
}

// roleOf returns what a module creates, as far as its outputs show it.
func roleOf(module *inspect.Module) role {
	switch {
	case endpoint.in(module) != "" && (kubeconfig.in(module) != "" || authority.in(module) != ""), kubeconfig.in(module) != "":
		return controlPlane
	case network.in(module) != "" && subnets.in(module) != "":
		return networkRole
	default:
		return workspace
	}
}

func (g *generator) miss(format string, args ...any) {
	g.Missing = append(g.Missing, fmt.Sprintf(format, args...))
}

// connectInputs sets the variables of the module that have another name than CAPT's.
func (g *generator) connectInputs() {
	for _, i := range []input{clusterName, version} {
		found := i.in(g.module)
		if found == "" {
			g.miss("no variable for %s: the module must have one of %s", i.name(), strings.Join(i.names, ", "))
			continue
		}
		g.taken[found] = true
		if found != i.name() {
			g.vars = append(g.vars, infrav1.Variable{Key: infrav1.VariableName(found), Value: infrav1.StringValue("${" + i.name() + "}")})
		}
	}
	for _, name := range fromNetwork {
		g.taken[name] = g.Network != ""
	}
}

// template returns the WorkspaceTemplate of the module.
func (g *generator) template() *infrav1.WorkspaceTemplate {
	spec := infrav1.WorkspaceSpec{ForProvider: g.Parameters, Outputs: g.outputs()}
	spec.ForProvider.Vars = g.vars
	if g.ProviderConfig != "" {
		spec.ProviderConfigRef = &infrav1.LocalReference{Name: g.ProviderConfig}
	}
	return &infrav1.WorkspaceTemplate{
		TypeMeta:   metav1.TypeMeta{APIVersion: infrav1.GroupVersion.String(), Kind: "WorkspaceTemplate"},
		ObjectMeta: metav1.ObjectMeta{Name: g.Name},
		Spec:       infrav1.WorkspaceTemplateSpec{Template: infrav1.WorkspaceTemplateDefinition{Spec: spec}},
	}
}

// outputs returns the selection of all outputs that gives those that CAPT reads its names. It
// returns nil if they have these names.
func (g *generator) outputs() []infrav1.SelectedOutput {
	renamed := map[string]string{}
	for _, o := range g.readOutputs() {
		switch found := o.in(g.module); found {
		case "":
			if o.name() != authority.name() || g.isEKS() {
				g.miss("no output %s: the module must have it, or one of %s", o.name(), strings.Join(o.names[1:], ", "))
			}
		case o.name():
		default:
			renamed[found] = o.name()
		}
	}
	if len(renamed) == 0 {
		return nil
	}
	var selected []infrav1.SelectedOutput
	for _, name := range sorted(g.module.Outputs) {
		selected = append(selected, infrav1.SelectedOutput{Name: infrav1.OutputName(name), As: infrav1.OutputName(renamed[name])})
	}
	if len(selected) > maxOutputs {
		g.miss("the module has %d outputs, and a template selects at most %d: remove those that you do not need from outputs", len(selected), maxOutputs)
	}
	return selected
}

// maxOutputs is how many outputs a template selects.
const maxOutputs = 128

// readOutputs returns the outputs that CAPT reads.
func (g *generator) readOutputs() []output {
	switch g.role {
	case controlPlane:
		if g.isEKS() {
			return []output{endpoint, authority}
		}
		return []output{endpoint, authority, kubeconfig}
	case networkRole:
		return []output{network, subnets}
	default:
		return nil
	}
}

// isEKS reports whether CAPT signs the tokens of the kubeconfig.
func (g *generator) isEKS() bool {
	return kubeconfig.in(g.module) == "" && slices.ContainsFunc(sorted(g.module.Providers), func(name string) bool {
		return name == "aws" || strings.HasSuffix(g.module.Providers[name].Source, "hashicorp/aws")
	})
}

// listRequired lists the variables that workspaces must set.
func (g *generator) listRequired() {
	for _, name := range sorted(g.module.Variables) {
		if g.isRequired(name) {
			g.miss("variable %s (%s) has no default: set it in spec.variables of each %s", name, typeOf(g.module.Variables[name]), g.owner())
		}
	}
}

// owner returns the kind of the object that sets the variables of the template.
func (g *generator) owner() string {
	if g.role == networkRole {
		return "CAPTCluster"
	}
	return "WorkspaceTemplateApply"
}

// isRequired reports whether neither the module nor CAPT sets a variable.
func (g *generator) isRequired(name string) bool {
	set := g.role == networkRole && name == "name"
	return g.module.Variables[name].Required && !g.module.Provided[name] && !set
}

// listProviders lists the providers that a provider config must configure.
func (g *generator) listProviders() {
	var names []string
	for _, name := range sorted(g.module.Providers) {
		provider := g.module.Providers[name]
		if provider.Aliases {
			g.miss("the module expects further configurations of provider %s (configuration_aliases): call it from a module of your own that configures them", name)
		}
		if source := provider.Source; source != "" {
			name += " (" + source + ")"
		}
		names = append(names, name)
	}
	if len(names) > 0 && g.ProviderConfig == "" {
		g.miss("the module uses the providers %s: configure them in a WorkspaceProviderConfig, and name it with --provider-config, unless they need no configuration", strings.Join(names, ", "))
	}
}

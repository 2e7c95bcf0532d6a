package generate

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2/ext/typeexpr"
	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/message"
	"github.com/appthrust/capt/internal/terraform/inspect"
)

// The kinds of the templates of a class.
const (
	clusterKind      = "CAPTClusterTemplate"
	controlPlaneKind = "CAPTControlPlaneTemplate"
)

// addClass adds a ClusterClass and the templates that it refers to.
func (g *generator) addClass() error {
	variables, err := g.classVariables()
	if err != nil {
		return err
	}
	meta := metav1.ObjectMeta{Name: g.Name}
	class := &clusterv1.ClusterClass{
		TypeMeta:   metav1.TypeMeta{APIVersion: clusterv1.GroupVersion.String(), Kind: "ClusterClass"},
		ObjectMeta: meta,
		Spec: clusterv1.ClusterClassSpec{
			Infrastructure: clusterv1.InfrastructureClass{TemplateRef: clusterv1.ClusterClassTemplateReference{
				APIVersion: infrav1.GroupVersion.String(), Kind: clusterKind, Name: g.Name,
			}},
			ControlPlane: clusterv1.ControlPlaneClass{TemplateRef: clusterv1.ClusterClassTemplateReference{
				APIVersion: controlplanev1.GroupVersion.String(), Kind: controlPlaneKind, Name: g.Name,
			}},
			Variables: variables, Patches: patches(variables),
		},
	}
	cluster := &infrav1.CAPTClusterTemplate{
		TypeMeta:   metav1.TypeMeta{APIVersion: infrav1.GroupVersion.String(), Kind: clusterKind},
		ObjectMeta: meta,
	}
	if g.Network != "" {
		cluster.Spec.Template.Spec.VPCTemplateRef = &infrav1.TemplateReference{Name: g.Network}
	}
	plane := &controlplanev1.CAPTControlPlaneTemplate{
		TypeMeta:   metav1.TypeMeta{APIVersion: controlplanev1.GroupVersion.String(), Kind: controlPlaneKind},
		ObjectMeta: meta,
	}
	plane.Spec.Template.Spec.WorkspaceTemplateRef = infrav1.TemplateReference{Name: g.Name}
	if !g.isEKS() {
		plane.Spec.Template.Spec.Kubeconfig = &controlplanev1.KubeconfigConfig{Source: controlplanev1.KubeconfigSourceOutput}
	}
	g.Objects = append(g.Objects, class, cluster, plane)
	return nil
}

// classVariables returns the variables of the class: those of the module that CAPT does not set.
// Sensitive ones are left out, because a Cluster shows its variables to everyone who can read it.
func (g *generator) classVariables() ([]clusterv1.ClusterClassVariable, error) {
	var variables []clusterv1.ClusterClassVariable
	for _, name := range sorted(g.module.Variables) {
		v := g.module.Variables[name]
		required := g.isRequired(name)
		switch {
		case g.taken[name]:
			continue
		case v.Sensitive && required:
			g.miss("variable %s is required and sensitive: set it with secretKeyRef in spec.template.spec.forProvider.vars of the WorkspaceTemplate", name)
			continue
		case v.Sensitive, !required && g.Variables != nil && !slices.Contains(g.Variables, name):
			continue
		}
		schema := schemaOf(v.Type)
		description, err := describe(v)
		if err != nil {
			return nil, err
		}
		schema.Description = description
		variables = append(variables, clusterv1.ClusterClassVariable{Name: name, Required: &required, Schema: clusterv1.VariableSchema{OpenAPIV3Schema: schema}})
	}
	return variables, nil
}

// maxDescription limits the description of a variable.
const maxDescription = 500

// describe returns the description of a variable with its default, which only the module sets.
func describe(v *inspect.Variable) (string, error) {
	text := message.OneLine(v.Description)
	if v.Default == cty.NilVal || v.Default.IsNull() {
		return shorten(text), nil
	}
	encoded, err := ctyjson.Marshal(v.Default, v.Default.Type())
	if err != nil {
		return "", fmt.Errorf("encoding the default of variable %s: %w", v.Name, err)
	}
	if text != "" && !strings.HasSuffix(text, ".") {
		text += "."
	}
	if len(text)+len(encoded) > maxDescription {
		return shorten(text), nil
	}
	return strings.TrimSpace(text + " Default: " + string(encoded)), nil
}

func shorten(text string) string {
	runes := []rune(text)
	if len(runes) <= maxDescription {
		return text
	}
	return string(runes[:maxDescription-1]) + "…"
}

// typeOf returns the type of a variable as Terraform writes it.
func typeOf(v *inspect.Variable) string {
	if v.TypeOmitted {
		return "any"
	}
	return typeexpr.TypeString(v.Type)
}

// patches returns the patch that passes the variables of the class that a Cluster sets to the
// module.
func patches(variables []clusterv1.ClusterClassVariable) []clusterv1.ClusterClassPatch {
	if len(variables) == 0 {
		return nil
	}
	var names []string
	for _, v := range variables {
		names = append(names, strconv.Quote(v.Name))
	}
	return []clusterv1.ClusterClassPatch{{
		Name: "variables", Description: "Passes the variables to the module.",
		Definitions: []clusterv1.PatchDefinition{{
			Selector: clusterv1.PatchSelector{
				APIVersion: controlplanev1.GroupVersion.String(), Kind: controlPlaneKind,
				MatchResources: clusterv1.PatchSelectorMatch{ControlPlane: new(true)},
			},
			JSONPatches: []clusterv1.JSONPatch{{
				Op: "add", Path: "/spec/template/spec/variables",
				ValueFrom: &clusterv1.JSONPatchValue{Template: "{{ pick . " + strings.Join(names, " ") + " | toJson }}\n"},
			}},
		}},
	}}
}

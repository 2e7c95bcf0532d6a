package migrate

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// templatePath is the path that a patch of a class sets to choose the
// WorkspaceTemplate.
const templatePath = "/spec/template/spec/workspaceTemplateRef/name"

// class is the ClusterClass of a cluster. Cluster API then manages the template, and
// would revert a change of the control plane.
type class struct {
	name string
	// template is the CAPTControlPlaneTemplate of the class.
	template string
	// variable is the name of the variable that chooses the WorkspaceTemplate, or
	// empty.
	variable string
}

func (m *Migration) readClass(ctx context.Context, cluster *clusterv1.Cluster) (*class, error) {
	if !cluster.Spec.Topology.IsDefined() {
		return nil, nil
	}
	found := &clusterv1.ClusterClass{}
	key := cluster.GetClassKey()
	if err := m.Client.Get(ctx, key, found); err != nil {
		return nil, fmt.Errorf("reading ClusterClass %s: %w", key.Name, err)
	}
	return newClass(found), nil
}

// newClass finds the variable that chooses the template.
func newClass(found *clusterv1.ClusterClass) *class {
	c := &class{name: found.Name, template: found.Spec.ControlPlane.TemplateRef.Name}
	for _, patch := range found.Spec.Patches {
		for _, definition := range patch.Definitions {
			for _, p := range definition.JSONPatches {
				if definition.Selector.Kind == "CAPTControlPlaneTemplate" && p.Path == templatePath && p.ValueFrom != nil && p.ValueFrom.Variable != "" {
					c.variable = p.ValueFrom.Variable
				}
			}
		}
	}
	return c
}

// advice returns what to change if the class has no such variable.
func (c *class) advice(to string) string {
	return fmt.Sprintf("CAPTControlPlaneTemplate %[2]s of ClusterClass %[1]s sets one template for all clusters: add a variable to the class with a patch of %[3]s; captctl then sets it to %[4]s",
		c.name, c.template, templatePath, to)
}

// setVariable sets a variable of the cluster's topology.
func (w *work) setVariable(ctx context.Context, key client.ObjectKey, name, value string) error {
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("encoding variable %s: %w", name, err)
	}
	return edit(ctx, w.Client, key, func(cluster *clusterv1.Cluster) {
		variables, variable := cluster.Spec.Topology.Variables, clusterv1.ClusterVariable{Name: name, Value: apiextensionsv1.JSON{Raw: text}}
		if i := slices.IndexFunc(variables, func(v clusterv1.ClusterVariable) bool { return v.Name == name }); i >= 0 {
			variables[i].Value = variable.Value
		} else {
			cluster.Spec.Topology.Variables = append(variables, variable)
		}
	})
}

package validate

import (
	"fmt"
	"slices"
	"strings"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/appthrust/capt/internal/message"
)

func indexed(i int) string { return fmt.Sprintf("[%d]", i) }

// checkTopologies checks clusters against their ClusterClass.
func (c *checker) checkTopologies() {
	objects, clusters := all[*clusterv1.Cluster](c)
	for i, cluster := range clusters {
		if !cluster.Spec.Topology.IsDefined() {
			continue
		}
		topology := &cluster.Spec.Topology
		k := key{group: clusterv1.GroupVersion.Group, kind: "ClusterClass", namespace: cluster.Namespace, name: topology.ClassRef.Name}
		if topology.ClassRef.Namespace != "" {
			k.namespace = topology.ClassRef.Namespace
		}
		class := find[*clusterv1.ClusterClass](c, k)
		if class == nil {
			continue
		}
		c.checkClassVariables(objects[i], topology, class)
		c.checkWorkerClasses(objects[i], topology, class)
	}
}

func (c *checker) checkClassVariables(o *Object, topology *clusterv1.Topology, class *clusterv1.ClusterClass) {
	given := map[string]bool{}
	var known []string
	for _, v := range class.Spec.Variables {
		known = append(known, v.Name)
	}
	for i, v := range topology.Variables {
		given[v.Name] = true
		if !slices.Contains(known, v.Name) {
			c.add(o.finding(Error, RuleVariable, "spec.topology.variables"+indexed(i),
				unknownName(fmt.Sprintf("ClusterClass %s has no variable", class.Name), v.Name, known)))
		}
	}
	for _, v := range class.Spec.Variables {
		if v.Required != nil && *v.Required && !given[v.Name] && v.Schema.OpenAPIV3Schema.Default == nil {
			c.add(o.fail(RuleVariable, "spec.topology.variables", "ClusterClass %s requires variable %s: add it with a value", class.Name, v.Name))
		}
	}
}

func (c *checker) checkWorkerClasses(o *Object, topology *clusterv1.Topology, class *clusterv1.ClusterClass) {
	var deployments, pools []string
	for _, d := range class.Spec.Workers.MachineDeployments {
		deployments = append(deployments, d.Class)
	}
	for _, p := range class.Spec.Workers.MachinePools {
		pools = append(pools, p.Class)
	}
	for i, d := range topology.Workers.MachineDeployments {
		if !slices.Contains(deployments, d.Class) {
			c.add(o.finding(Error, RuleReference, "spec.topology.workers.machineDeployments"+indexed(i)+".class",
				unknownName(fmt.Sprintf("ClusterClass %s has no machine deployment class", class.Name), d.Class, deployments)))
		}
	}
	for i, p := range topology.Workers.MachinePools {
		if !slices.Contains(pools, p.Class) {
			c.add(o.finding(Error, RuleReference, "spec.topology.workers.machinePools"+indexed(i)+".class",
				unknownName(fmt.Sprintf("ClusterClass %s has no machine pool class", class.Name), p.Class, pools)))
		}
	}
}

// unknownName returns the message for a name that is not one of the known ones.
func unknownName(problem, name string, known []string) string {
	text := problem + " " + name
	if nearest, found := message.Nearest(name, known); found {
		return text + ": did you mean " + nearest + "?"
	}
	if len(known) == 0 {
		return text + ": it has none"
	}
	return text + ": it has " + strings.Join(known, ", ")
}

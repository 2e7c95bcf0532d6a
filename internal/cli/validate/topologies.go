package validate

import (
	"fmt"
	"slices"
	"strings"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/appthrust/capt/internal/message"
)

func indexed(i int) string { return fmt.Sprintf("[%d]", i) }

// checkTopologies compares clusters with the classes they are of.
func (s *set) checkTopologies() {
	objects, clusters := all[*clusterv1.Cluster](s)
	for i, cluster := range clusters {
		if !cluster.Spec.Topology.IsDefined() {
			continue
		}
		topology := &cluster.Spec.Topology
		k := key{group: clusterv1.GroupVersion.Group, kind: "ClusterClass", namespace: cluster.Namespace, name: topology.ClassRef.Name}
		if topology.ClassRef.Namespace != "" {
			k.namespace = topology.ClassRef.Namespace
		}
		class := find[*clusterv1.ClusterClass](s, k)
		if class == nil {
			continue
		}
		s.checkClassVariables(objects[i], topology, class)
		s.checkWorkerClasses(objects[i], topology, class)
	}
}

func (s *set) checkClassVariables(o *Object, topology *clusterv1.Topology, class *clusterv1.ClusterClass) {
	given := map[string]bool{}
	var known []string
	for _, v := range class.Spec.Variables {
		known = append(known, v.Name)
	}
	for i, v := range topology.Variables {
		given[v.Name] = true
		if !slices.Contains(known, v.Name) {
			s.add(o.finding(Error, RuleVariable, "spec.topology.variables"+indexed(i),
				unknown(fmt.Sprintf("ClusterClass %s has no variable", class.Name), v.Name, known)))
		}
	}
	for _, v := range class.Spec.Variables {
		if v.Required != nil && *v.Required && !given[v.Name] && v.Schema.OpenAPIV3Schema.Default == nil {
			s.add(o.fail(RuleVariable, "spec.topology.variables", "ClusterClass %s requires variable %s: add it with a value", class.Name, v.Name))
		}
	}
}

func (s *set) checkWorkerClasses(o *Object, topology *clusterv1.Topology, class *clusterv1.ClusterClass) {
	var deployments, pools []string
	for _, d := range class.Spec.Workers.MachineDeployments {
		deployments = append(deployments, d.Class)
	}
	for _, p := range class.Spec.Workers.MachinePools {
		pools = append(pools, p.Class)
	}
	for i, d := range topology.Workers.MachineDeployments {
		if !slices.Contains(deployments, d.Class) {
			s.add(o.finding(Error, RuleReference, "spec.topology.workers.machineDeployments"+indexed(i)+".class",
				unknown(fmt.Sprintf("ClusterClass %s has no class of machine deployments", class.Name), d.Class, deployments)))
		}
	}
	for i, p := range topology.Workers.MachinePools {
		if !slices.Contains(pools, p.Class) {
			s.add(o.finding(Error, RuleReference, "spec.topology.workers.machinePools"+indexed(i)+".class",
				unknown(fmt.Sprintf("ClusterClass %s has no class of machine pools", class.Name), p.Class, pools)))
		}
	}
}

// unknown words a name that is none of the known ones.
func unknown(problem, name string, known []string) string {
	text := problem + " " + name
	if nearest, found := message.Nearest(name, known); found {
		return text + ": did you mean " + nearest + "?"
	}
	if len(known) == 0 {
		return text + ": it has none"
	}
	return text + ": it has " + strings.Join(known, ", ")
}

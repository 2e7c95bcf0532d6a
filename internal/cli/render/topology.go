package render

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/cluster-api/exp/topology/desiredstate"
	topologyscope "sigs.k8s.io/cluster-api/exp/topology/scope"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/appthrust/capt/config/crd"
	"github.com/appthrust/capt/internal/message"
)

// topology is the result of a cluster's topology.
type topology struct {
	cluster *clusterv1.Cluster
	objects []client.Object
}

// topology computes the objects of a cluster with Cluster API's own generator.
func (r *renderer) topology(ctx context.Context, cluster *clusterv1.Cluster) (*topology, error) {
	key := cluster.GetClassKey()
	class := find[*clusterv1.ClusterClass](r, key.Namespace, key.Name)
	if class == nil {
		r.note("ClusterClass %s is not among the manifests: add it to see the objects of Cluster %s", key, cluster.Name)
		return nil, nil
	}
	defaulted := cluster.DeepCopy()
	if err := defaultVariables(defaulted, class); err != nil {
		return nil, err
	}
	if err := checkWorkerClasses(&defaulted.Spec.Topology.Workers, class); err != nil {
		return nil, err
	}
	blueprint, missing, err := r.blueprint(withStatus(class))
	if err != nil {
		return nil, err
	}
	if len(missing) > 0 {
		r.note("templates of ClusterClass %s are not among the manifests: %s", class.Name, strings.Join(missing, ", "))
		return nil, nil
	}
	blueprint.Topology = defaulted.Spec.Topology
	generator, err := desiredstate.NewGenerator(&definitions{scheme: r.scheme}, noClusters{}, nil, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("creating the topology generator: %w", err)
	}
	s := topologyscope.New(defaulted)
	s.Blueprint = blueprint
	s.Current.ControlPlane = &topologyscope.ControlPlaneState{}
	desired, err := generator.Generate(ctx, s)
	if err != nil {
		return nil, fmt.Errorf("computing the topology: %w", err)
	}
	return r.collect(desired)
}

// withStatus returns a class with the status that Cluster API's controller would set.
// Patches find their variables in it.
func withStatus(class *clusterv1.ClusterClass) *clusterv1.ClusterClass {
	class = class.DeepCopy()
	class.Status.Variables = nil
	for _, v := range class.Spec.Variables {
		class.Status.Variables = append(class.Status.Variables, clusterv1.ClusterClassStatusVariable{
			Name: v.Name,
			Definitions: []clusterv1.ClusterClassStatusVariableDefinition{{
				From: clusterv1.VariableDefinitionFromInline, Required: v.Required, Schema: v.Schema,
			}},
		})
	}
	return class
}

// defaultVariables sets the defaults of variables like Cluster API's webhook. Variables that the
// class does not have, or requires, are errors.
func defaultVariables(cluster *clusterv1.Cluster, class *clusterv1.ClusterClass) error {
	given := map[string]bool{}
	var known []string
	for _, v := range class.Spec.Variables {
		known = append(known, v.Name)
	}
	for _, v := range cluster.Spec.Topology.Variables {
		given[v.Name] = true
		if !slices.Contains(known, v.Name) {
			return fmt.Errorf("ClusterClass %s has no variable %s%s", class.Name, v.Name, message.Suggestion(v.Name, known))
		}
	}
	for _, v := range class.Spec.Variables {
		required := v.Required != nil && *v.Required
		switch value := v.Schema.OpenAPIV3Schema.Default; {
		case given[v.Name]:
		case value != nil:
			cluster.Spec.Topology.Variables = append(cluster.Spec.Topology.Variables, clusterv1.ClusterVariable{Name: v.Name, Value: *value})
		case required:
			return fmt.Errorf("ClusterClass %s requires variable %s: set it in spec.topology.variables", class.Name, v.Name)
		}
	}
	return nil
}

// checkWorkerClasses returns an error for workers of a class that the ClusterClass does not have.
// The generator finds them too, but needs all templates.
func checkWorkerClasses(workers *clusterv1.WorkersTopology, class *clusterv1.ClusterClass) error {
	var deployments, pools []string
	for _, d := range class.Spec.Workers.MachineDeployments {
		deployments = append(deployments, d.Class)
	}
	for _, p := range class.Spec.Workers.MachinePools {
		pools = append(pools, p.Class)
	}
	check := func(kind, name string, known []string) error {
		if slices.Contains(known, name) {
			return nil
		}
		hint := cmp.Or(message.Suggestion(name, known), ": it has "+cmp.Or(strings.Join(known, ", "), "none"))
		return fmt.Errorf("ClusterClass %s has no %s class %s%s", class.Name, kind, name, hint)
	}
	for _, d := range workers.MachineDeployments {
		if err := check("machine deployment", d.Class, deployments); err != nil {
			return err
		}
	}
	for _, p := range workers.MachinePools {
		if err := check("machine pool", p.Class, pools); err != nil {
			return err
		}
	}
	return nil
}

// blueprint returns a class with its templates, and the names of missing templates.
func (r *renderer) blueprint(class *clusterv1.ClusterClass) (blueprint *topologyscope.ClusterBlueprint, missing []string, err error) {
	get := func(ref clusterv1.ClusterClassTemplateReference) *unstructured.Unstructured {
		found, problem := r.unstructured(class.Namespace, ref)
		if problem != nil {
			err = problem
		}
		if name := ref.Kind + " " + ref.Name; found == nil && !slices.Contains(missing, name) {
			missing = append(missing, name)
		}
		return found
	}
	blueprint = &topologyscope.ClusterBlueprint{
		ClusterClass: class, InfrastructureClusterTemplate: get(class.Spec.Infrastructure.TemplateRef),
		ControlPlane:       &topologyscope.ControlPlaneBlueprint{Template: get(class.Spec.ControlPlane.TemplateRef)},
		MachineDeployments: map[string]*topologyscope.MachineDeploymentBlueprint{},
		MachinePools:       map[string]*topologyscope.MachinePoolBlueprint{},
	}
	for _, d := range class.Spec.Workers.MachineDeployments {
		blueprint.MachineDeployments[d.Class] = &topologyscope.MachineDeploymentBlueprint{
			Metadata: d.Metadata, HealthCheck: d.HealthCheck,
			BootstrapTemplate: get(d.Bootstrap.TemplateRef), InfrastructureMachineTemplate: get(d.Infrastructure.TemplateRef),
		}
	}
	for _, p := range class.Spec.Workers.MachinePools {
		blueprint.MachinePools[p.Class] = &topologyscope.MachinePoolBlueprint{
			Metadata: p.Metadata, BootstrapTemplate: get(p.Bootstrap.TemplateRef), InfrastructureMachinePoolTemplate: get(p.Infrastructure.TemplateRef),
		}
	}
	return blueprint, missing, err
}

func (r *renderer) unstructured(namespace string, ref clusterv1.ClusterClassTemplateReference) (*unstructured.Unstructured, error) {
	gvk := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind)
	for _, obj := range r.objects {
		if obj.GetNamespace() != namespace || obj.GetName() != ref.Name || obj.GetObjectKind().GroupVersionKind() != gvk {
			continue
		}
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
		if err != nil {
			return nil, fmt.Errorf("reading %s %s: %w", ref.Kind, ref.Name, err)
		}
		found := &unstructured.Unstructured{Object: content}
		found.SetGroupVersionKind(gvk)
		return found, nil
	}
	return nil, nil
}

// collect returns the objects of a topology. Cluster API appends random suffixes to
// names; here the suffix is the name of the worker topology.
func (r *renderer) collect(desired *topologyscope.ClusterState) (*topology, error) {
	result := &topology{cluster: desired.Cluster}
	add := func(name string, objects ...client.Object) error {
		for _, obj := range objects {
			typed, err := r.typed(obj)
			if err != nil {
				return err
			}
			typed.SetName(name)
			typed.SetOwnerReferences(nil)
			result.objects = append(result.objects, typed)
		}
		return nil
	}
	name := desired.Cluster.Name
	if err := add(name, desired.InfrastructureCluster, desired.ControlPlane.Object); err != nil {
		return nil, err
	}
	result.cluster.Spec.InfrastructureRef.Name, result.cluster.Spec.ControlPlaneRef.Name = name, name
	for _, topologyName := range slices.Sorted(maps.Keys(desired.MachineDeployments)) {
		d := desired.MachineDeployments[topologyName]
		member := name + "-" + topologyName
		d.Object.Spec.Template.Spec.InfrastructureRef.Name, d.Object.Spec.Template.Spec.Bootstrap.ConfigRef.Name = member, member
		if err := add(member, d.Object, d.InfrastructureMachineTemplate, d.BootstrapTemplate); err != nil {
			return nil, err
		}
	}
	for _, topologyName := range slices.Sorted(maps.Keys(desired.MachinePools)) {
		p := desired.MachinePools[topologyName]
		member := name + "-" + topologyName
		p.Object.Spec.Template.Spec.InfrastructureRef.Name, p.Object.Spec.Template.Spec.Bootstrap.ConfigRef.Name = member, member
		if err := add(member, p.Object, p.InfrastructureMachinePoolObject, p.BootstrapObject); err != nil {
			return nil, err
		}
	}
	return result, nil
}

// typed returns an object as its Go type, if the scheme has one.
func (r *renderer) typed(obj client.Object) (client.Object, error) {
	content, isUnstructured := obj.(*unstructured.Unstructured)
	if !isUnstructured {
		return obj, nil
	}
	empty, err := r.scheme.New(content.GroupVersionKind())
	if runtime.IsNotRegisteredError(err) {
		return obj, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", content.GetKind(), err)
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content.Object, empty); err != nil {
		return nil, fmt.Errorf("reading %s: %w", content.GetKind(), err)
	}
	typed, ok := empty.(client.Object)
	if !ok {
		return nil, fmt.Errorf("%s is not an object", content.GetKind())
	}
	return typed, nil
}

// definitions is a client that returns only the metadata of CAPT's CRDs. The generator
// reads the contract version from it.
type definitions struct {
	client.Client
	scheme *runtime.Scheme
}

// Scheme returns the scheme.
func (d *definitions) Scheme() *runtime.Scheme { return d.scheme }

// Get returns the metadata of a CRD.
func (d *definitions) Get(_ context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	metadata, ok := obj.(*metav1.PartialObjectMetadata)
	if !ok {
		return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
	}
	all, err := crd.Definitions()
	if err != nil {
		return err
	}
	for _, definition := range all {
		if definition.Name == key.Name {
			metadata.ObjectMeta = definition.ObjectMeta
			return nil
		}
	}
	return apierrors.NewNotFound(apiextensionsv1.Resource("customresourcedefinitions"), key.Name)
}

// noClusters has no connections. A new cluster needs none.
type noClusters struct{ clustercache.ClusterCache }

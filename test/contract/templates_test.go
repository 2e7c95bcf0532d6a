package contract

import (
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// templateIsDefined creates a template of the sample as a dry run, and checks that the
// metadata of the template are kept.
func templateIsDefined(c *check) {
	obj := c.templateOf(c.subject.sample("sample"))
	obj.SetNamespace(metav1.NamespaceDefault)
	obj.SetName("sample")
	c.Expect(c.env.Client.Create(c.ctx, obj, client.DryRunAll)).To(Succeed())
	labels, _, err := unstructured.NestedStringMap(obj.Object, "spec", "template", "metadata", "labels")
	c.Expect(err).NotTo(HaveOccurred())
	c.Expect(labels).To(HaveKeyWithValue("kept", "yes"))
	template := c.schemaOf(c.subject.template()).Properties["spec"].Properties["template"]
	c.Expect(template.Properties["metadata"].Type).To(Equal("object"))
	c.Expect(template.Properties["spec"].Type).To(Equal("object"))
}

// templateOf wraps the spec of an object in a template.
func (c *check) templateOf(obj client.Object) *unstructured.Unstructured {
	body, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	c.Expect(err).NotTo(HaveOccurred())
	spec, _, err := unstructured.NestedMap(body, "spec")
	c.Expect(err).NotTo(HaveOccurred())
	for _, field := range c.subject.notInTemplate {
		delete(spec, field)
	}
	template := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"template": map[string]any{
		"metadata": map[string]any{"labels": map[string]any{"kept": "yes"}},
		"spec":     spec,
	}}}}
	template.SetGroupVersionKind(c.subject.template())
	return template
}

// templateIsNamed finds the kind of the template by the kind of the object.
func templateIsNamed(c *check) {
	c.Expect(c.crd(c.subject.template()).Status.AcceptedNames.Kind).To(Equal(c.subject.kind.Kind + "Template"))
}

// letsTopologyTry holds when a change of a template is rejected, unless it is a dry run
// of Cluster API's topology controller.
func letsTopologyTry(c *check) {
	h := newHarness(c.Gomega, c.env)
	template := c.templateOf(c.subject.sample("sample"))
	template.SetName("sample")
	h.create(template)

	apply := func(annotations map[string]string, options ...client.ApplyOption) error {
		changed := c.templateOf(c.subject.sample("sample"))
		changed.SetName("sample")
		changed.SetNamespace(h.namespace)
		changed.SetAnnotations(annotations)
		c.Expect(unstructured.SetNestedField(changed.Object, "changed", "spec", "template", "metadata", "labels", "kept")).To(Succeed())
		options = append(options, client.FieldOwner("capi-topology"), client.ForceOwnership)
		return h.env.Client.Apply(h.ctx, client.ApplyConfigurationFromUnstructured(changed), options...)
	}
	trying := map[string]string{clusterv1.TopologyDryRunAnnotation: ""}
	c.Expect(apply(trying, client.DryRunAll)).To(Succeed(), "the topology controller may try")
	c.Expect(apply(nil, client.DryRunAll)).To(MatchError(ContainSubstring("cannot be changed")), "no other client may try")
	c.Expect(apply(trying)).To(MatchError(ContainSubstring("cannot be changed")), "no client may do it")
}

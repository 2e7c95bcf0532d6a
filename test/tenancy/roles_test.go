package tenancy

import (
	"io/fs"
	"regexp"
	"testing"

	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/appthrust/capt/flavors"
)

// may reports whether a user may do something in a namespace.
func may(t *testing.T, user client.Client, namespace, verb string, resource schema.GroupResource, subresource string) bool {
	t.Helper()
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: namespace, Verb: verb, Group: resource.Group, Resource: resource.Resource, Subresource: subresource,
		},
	}}
	NewWithT(t).Expect(user.Create(t.Context(), review)).To(Succeed())
	return review.Status.Allowed
}

// object matches the type of an object in a flavor. Flavors have variables, so they are not
// always valid YAML.
var object = regexp.MustCompile(`(?m)^apiVersion: (\S+)\nkind: (\S+)$`)

// flavorKinds returns the resources of all objects in the flavors.
func flavorKinds(t *testing.T) map[schema.GroupResource]bool {
	t.Helper()
	g := NewWithT(t)
	resources := map[schema.GroupResource]bool{}
	files, err := fs.Glob(flavors.Files, "*.yaml")
	g.Expect(err).NotTo(HaveOccurred())
	for _, file := range files {
		content, err := flavors.Files.ReadFile(file)
		g.Expect(err).NotTo(HaveOccurred())
		objects := object.FindAllSubmatch(content, -1)
		g.Expect(objects).NotTo(BeEmpty(), file)
		for _, match := range objects {
			plural, _ := meta.UnsafeGuessKindToResource(schema.FromAPIVersionAndKind(string(match[1]), string(match[2])))
			resources[plural.GroupResource()] = true
		}
	}
	return resources
}

// The roles of a team suffice for the flavors: Cluster API has no role for its kinds.
func TestEditor_createsTheClustersOfAllFlavors(t *testing.T) {
	g := NewWithT(t)
	ns, other := env.Namespace(t), env.Namespace(t)
	editor, viewer := editor(t, ns), viewer(t, ns)
	kinds := flavorKinds(t)
	g.Expect(kinds).To(HaveKey(schema.GroupResource{Group: "cluster.x-k8s.io", Resource: "clusters"}))
	for resource := range kinds {
		for _, verb := range []string{"create", "patch", "delete"} {
			g.Eventually(func() bool { return may(t, editor, ns, verb, resource, "") }, testTimeout).Should(BeTrue(), "the editor may %s %s", verb, resource)
			g.Expect(may(t, editor, other, verb, resource, "")).To(BeFalse(), "the editor may %s %s elsewhere", verb, resource)
			g.Expect(may(t, viewer, ns, verb, resource, "")).To(BeFalse(), "the viewer may %s %s", verb, resource)
		}
		g.Eventually(func() bool { return may(t, viewer, ns, "watch", resource, "") }, testTimeout).Should(BeTrue(), "the viewer may watch %s", resource)
	}
	for resource, group := range map[string]string{
		"machinedeployments": "cluster.x-k8s.io", "machinepools": "cluster.x-k8s.io",
		"captmachinedeployments": "infrastructure.cluster.x-k8s.io", "captmachinesets": "infrastructure.cluster.x-k8s.io",
	} {
		g.Expect(may(t, editor, ns, "patch", schema.GroupResource{Group: group, Resource: resource}, "scale")).To(BeTrue(), "the editor may scale %s", resource)
	}
	g.Expect(may(t, editor, ns, "create", schema.GroupResource{Group: "cluster.x-k8s.io", Resource: "clusterclasses"}, "")).To(BeFalse())
}

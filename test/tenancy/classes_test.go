package tenancy

import (
	"testing"

	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Cluster API copies the templates of a class into the namespace of the Cluster, where the
// user reads them.
func TestEditor_usesClassesThatHeMayRead(t *testing.T) {
	g := NewWithT(t)
	ctx := t.Context()
	ns, platform := env.Namespace(t), env.Namespace(t)
	editor := editor(t, ns)
	cluster := func(class, namespace string) *clusterv1.Cluster {
		return &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "c-" + class}, Spec: clusterv1.ClusterSpec{Topology: clusterv1.Topology{
			ClassRef: clusterv1.ClusterClassRef{Name: class, Namespace: namespace}, Version: "v1.36.0",
		}}}
	}
	allowed(t, "a class of the namespace", func() error { return editor.Create(ctx, cluster("prod", ""), client.DryRunAll) })
	allowed(t, "a class of the namespace, which is named", func() error { return editor.Create(ctx, cluster("prod", ns), client.DryRunAll) })
	err := editor.Create(ctx, cluster("prod", platform), client.DryRunAll)
	refused(t, "a class of another namespace", err)
	g.Expect(err).To(MatchError(ContainSubstring("the ClusterClass prod is in the namespace " + platform + ": ask its owners for the permission to get it there")))

	own := cluster("own", "")
	g.Expect(editor.Create(ctx, own)).To(Succeed())
	refused(t, "changing to a class of another namespace", patched(editor, own, func(c *clusterv1.Cluster) { c.Spec.Topology.ClassRef.Namespace = platform }))

	t.Log("the permission is for one class of one namespace")
	withRules(t, platform, "editor", rbacv1.PolicyRule{
		APIGroups: []string{clusterv1.GroupVersion.Group}, Resources: []string{"clusterclasses"}, Verbs: []string{"get"}, ResourceNames: []string{"prod"},
	})
	allowed(t, "a class that the user may read", func() error { return editor.Create(ctx, cluster("prod", platform), client.DryRunAll) })
	refused(t, "another class of that namespace", editor.Create(ctx, cluster("other", platform), client.DryRunAll))

	t.Log("who does not change the class needs no permission")
	foreign := cluster("foreign", platform)
	g.Expect(env.Client.Create(ctx, foreign)).To(Succeed())
	g.Expect(patched(editor, foreign, func(c *clusterv1.Cluster) { c.Spec.Topology.Version = "v1.37.0" })).To(Succeed())
	g.Expect(patched(editor, foreign, func(c *clusterv1.Cluster) { c.Finalizers = []string{"example.com/x"} })).To(Succeed())
	g.Expect(env.Client.Get(ctx, client.ObjectKeyFromObject(foreign), foreign)).To(Succeed())
	g.Expect(patched(editor, foreign, func(c *clusterv1.Cluster) { c.Finalizers = nil })).To(Succeed())
	g.Expect(env.Client.Get(ctx, client.ObjectKeyFromObject(foreign), foreign)).To(Succeed())
	refused(t, "another class of that namespace, by a change", patched(editor, foreign, func(c *clusterv1.Cluster) { c.Spec.Topology.ClassRef.Name = "third" }))
}

package cli_test

import (
	"testing"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// crossplaneCRD has the fields of Crossplane's Workspace that are not checked here.
const crossplaneCRD = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: workspaces.tf.upbound.io}
spec:
  group: tf.upbound.io
  scope: Cluster
  names: {kind: Workspace, listKind: WorkspaceList, plural: workspaces, singular: workspace}
  versions:
  - name: v1beta1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

func object(g Gomega, text string) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{}
	g.Expect(yaml.Unmarshal([]byte(text), &obj.Object)).To(Succeed())
	return obj
}

func TestAdoptWorkspace_readsTheWorkspaceOfCrossplane(t *testing.T) {
	h := newHarness(t)
	h.Expect(env.Client.Create(h.ctx, object(h, crossplaneCRD))).To(Succeed())
	name := "net-" + h.namespace
	given := object(h, "apiVersion: tf.upbound.io/v1beta1\nkind: Workspace\nspec:\n  providerConfigRef: {name: aws}\n  forProvider: {source: Inline, module: \"output \\\"a\\\" {\\n  value = 1\\n}\\n\", enableTerraformCLILogging: true, vars: [{key: cidr, value: 10.0.0.0/16}]}\n")
	given.SetName(name)
	h.Eventually(func() error { return env.Client.Create(h.ctx, given) }).Should(Succeed(), "the kind is served")

	var a result
	h.Eventually(func() int { a = h.run("adopt", "workspace", name, "--name", "net", "--dry-run"); return a.code }).Should(Equal(0))
	h.Expect(a.out).To(And(ContainSubstring("        - key: cidr\n          value: 10.0.0.0/16\n"), ContainSubstring("  adoption: Observe\n")))
	h.Expect(a.err).To(ContainSubstring("ProviderConfig aws belong into a WorkspaceProviderConfig"))
	h.Expect(env.Client.Get(h.ctx, client.ObjectKeyFromObject(given), given)).To(Succeed())
	h.Expect(given.GetAnnotations()).To(BeEmpty(), "nothing was changed")

	a = h.run("adopt", "workspace", name, "--name", "net", "--yes")
	h.Expect(a.code).To(Equal(1))
	h.Expect(a.err).To(ContainSubstring("no Secret has the labels tfstate=true and tfstateWorkspace=" + name))
	h.Expect(env.Client.Get(h.ctx, client.ObjectKeyFromObject(given), given)).To(Succeed())
	h.Expect(given.GetAnnotations()).To(HaveKeyWithValue("crossplane.io/paused", "true"))

	state := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "tfstate-" + name + "-x", Labels: map[string]string{"tfstate": "true", "tfstateWorkspace": name}}}
	lock := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "lock-" + state.Name}, Spec: coordinationv1.LeaseSpec{HolderIdentity: new("crossplane")}}
	h.create(state, lock)
	a = h.run("adopt", "workspace", name, "--name", "net", "--yes")
	h.Expect(a.code).To(Equal(1))
	h.Expect(a.err).To(ContainSubstring("is locked: wait until Crossplane's last run has ended"))
}

package cluster

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/kubernetes/manifest"
	"github.com/appthrust/capt/internal/testenv"
)

var yamlBlock = regexp.MustCompile("(?s)\n```yaml\n(.*?)\n```")

// exampleOf returns the objects of the YAML blocks of a page, with other namespaces.
func (h *harness) exampleOf(page string, namespaces ...string) [][]*unstructured.Unstructured {
	h.t.Helper()
	text := testenv.ReadFile(h.t, page)
	var blocks [][]*unstructured.Unstructured
	for _, block := range yamlBlock.FindAllStringSubmatch(string(text), -1) {
		objects, err := manifest.Parse([]byte(strings.NewReplacer(namespaces...).Replace(block[1])))
		h.Expect(err).NotTo(HaveOccurred())
		blocks = append(blocks, objects)
	}
	return blocks
}

// A team creates a Cluster of a class of another namespace, as docs/catalogue.md says, and
// gets a network, a control plane and an add-on, but not the credentials.
func TestCatalogue_needsOneObject(t *testing.T) {
	platform, team := newHarness(t), newHarnessOn(t, env)
	platform.localTemplates()
	platform.install("clusterclasses/local.yaml")
	change(platform, "local-vpc", &infrav1.WorkspaceTemplate{}, func(w *infrav1.WorkspaceTemplate) {
		w.Spec.Template.Spec.ProviderConfigRef = &infrav1.LocalReference{Name: "cloud"}
	})
	t.Cleanup(team.stopLocal)
	name := team.namespace
	blocks := platform.exampleOf("docs/catalogue.md", "namespace: platform", "namespace: "+platform.namespace, "namespace: team-a", "namespace: "+team.namespace, "name: demo", "name: "+name)
	platform.Expect(blocks).To(HaveLen(4))
	platform.Expect(blocks[0][0].GetKind()).To(Equal("ResourceQuota"), "test/tenancy creates it")
	blocks = blocks[1:]
	for _, object := range slices.Concat(blocks[0], blocks[1]) {
		platform.Expect(env.Client.Create(t.Context(), object)).To(Succeed(), object.GetKind())
	}
	cluster := blocks[2][0]
	team.Expect(env.Client.Create(t.Context(), cluster)).To(Succeed())

	t.Log("nothing runs before the namespace has the label that the grant selects")
	network := name + "-vpc"
	team.Eventually(func(g Gomega) {
		infra := &infrav1.CAPTClusterList{}
		g.Expect(env.Client.List(t.Context(), infra, client.InNamespace(team.namespace))).To(Succeed())
		g.Expect(infra.Items).To(HaveLen(1))
		c := meta.FindStatusCondition(infra.Items[0].Status.Conditions, infrav1.ReadyCondition)
		g.Expect(c).NotTo(BeNil())
		g.Expect(c.Reason).To(Equal(infrav1.NotGrantedReason), c.Message)
	}, testTimeout, 200*time.Millisecond).Should(Succeed())
	namespace := &corev1.Namespace{}
	team.Expect(env.Client.Get(t.Context(), client.ObjectKey{Name: team.namespace}, namespace)).To(Succeed())
	namespace.Labels["example.com/catalogue"] = "true"
	team.Expect(env.Client.Update(t.Context(), namespace)).To(Succeed())

	team.waitAvailable(name)
	waitCondition(team, network, &infrav1.WorkspaceTemplateApply{}, infrav1.ReadyCondition, "True")
	hosted := get(platform, team.namespace+"."+network, &infrav1.WorkspaceTemplateApply{})
	platform.Expect(hosted.Status.History).NotTo(BeEmpty(), "the run is in the namespace of the platform")
	team.Eventually(func() error {
		return env.Client.Get(t.Context(), client.ObjectKey{Namespace: team.namespace, Name: "baseline"}, &addonsv1.CAPTAddon{})
	}, testTimeout).Should(Succeed())
	team.waitAddon("baseline", name, clusterv1.ReadyReason)
	baseline := &corev1.Namespace{}
	team.Expect(team.workload(name).Get(t.Context(), client.ObjectKey{Name: "baseline"}, baseline)).To(Succeed())
	team.Expect(baseline.Labels).To(HaveKeyWithValue("example.com/cluster", name))
	var secrets corev1.SecretList
	team.Expect(env.Client.List(t.Context(), &secrets, client.InNamespace(team.namespace))).To(Succeed())
	for i := range secrets.Items {
		for key, value := range secrets.Items[i].Data {
			team.Expect(string(value)).NotTo(ContainSubstring("a-credential-that-no-team-reads"), "%s %s", secrets.Items[i].Name, key)
		}
		team.Expect(secrets.Items[i].Name).NotTo(HavePrefix("capt-run-" + network))
	}

	t.Log("a withdrawn grant stops new runs, and destroys nothing")
	granted := get(platform, "catalogue", &infrav1.CAPTReferenceGrant{})
	platform.delete(granted)
	waitCondition(team, network, &infrav1.WorkspaceTemplateApply{}, infrav1.DependenciesReadyCondition, "False NotGranted")
	team.create(&infrav1.WorkspaceOperation{
		ObjectMeta: metav1.ObjectMeta{Namespace: team.namespace, Name: "again"},
		Spec:       infrav1.WorkspaceOperationSpec{Workspace: network, WorkspaceUID: get(team, network, &infrav1.WorkspaceTemplateApply{}).UID, Type: infrav1.OperationRun},
	})
	change(team, network, &infrav1.WorkspaceTemplateApply{}, func(a *infrav1.WorkspaceTemplateApply) {
		a.Spec.Timeout = &metav1.Duration{Duration: time.Hour}
	})
	waitCondition(team, network, &infrav1.WorkspaceTemplateApply{}, infrav1.DependenciesReadyCondition, "False NotGranted")
	waitCondition(team, "baseline", &addonsv1.CAPTAddon{}, infrav1.ReadyCondition, "False NotGranted")
	team.Expect(env.Client.Get(t.Context(), client.ObjectKeyFromObject(cluster), &clusterv1.Cluster{})).To(Succeed())
	team.Expect(team.workload(name).Get(t.Context(), client.ObjectKey{Name: "baseline"}, baseline)).To(Succeed())
	again := get(platform, hosted.Name, &infrav1.WorkspaceTemplateApply{})
	platform.Expect(again.Status.Runs).To(Equal(hosted.Status.Runs), "no run was started")

	t.Log("the cluster is deleted when the grant is in force again")
	granted.ResourceVersion, granted.UID = "", ""
	platform.create(granted)
	t.Log("a copy is deleted with its add-on, and removed from the cluster")
	platform.delete(get(platform, "baseline", &addonsv1.CAPTAddon{}))
	team.Eventually(func() bool {
		return apierrors.IsNotFound(env.Client.Get(t.Context(), client.ObjectKey{Namespace: team.namespace, Name: "baseline"}, &addonsv1.CAPTAddon{}))
	}, testTimeout, 200*time.Millisecond).Should(BeTrue())
	created := team.cluster(name)
	team.destroy(created)
	platform.waitDeleted(hosted)
}

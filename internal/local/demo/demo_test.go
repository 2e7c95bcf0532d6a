package demo

import (
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/testenv"
)

func TestConditionPending(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		conditions []metav1.Condition
		pending    string
	}{
		"no condition":   {nil, "no status yet"},
		"ready":          {[]metav1.Condition{{Type: "Ready", Status: "True", ObservedGeneration: 2}}, ""},
		"outdated":       {[]metav1.Condition{{Type: "Ready", Status: "True", Reason: "Ready", ObservedGeneration: 1}}, "Ready"},
		"a reason":       {[]metav1.Condition{{Type: "Ready", Status: "False", Reason: "Waiting", ObservedGeneration: 2}}, "Waiting"},
		"a long message": {[]metav1.Condition{{Type: "Ready", Status: "False", Reason: "Failed", Message: "It broke:\nat line 3", ObservedGeneration: 2}}, "Failed: It broke:"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			object := &infrav1.CAPTCluster{ObjectMeta: metav1.ObjectMeta{Generation: 2}}
			object.Status.Conditions = test.conditions
			NewWithT(t).Expect(conditionPending(object, "Ready")).To(Equal(test.pending))
		})
	}
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestReadAddons_useTheChartsOfTheEnvironment(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	dir := t.TempDir()
	g.Expect(readAddons(dir, "")).Error().To(MatchError(ContainSubstring("make addons")))
	g.Expect(readAddons(dir, "127.0.0.1:1")).Error().To(MatchError(And(ContainSubstring("fluxcd.yaml"), ContainSubstring("make addons"))))

	write(t, dir, flux+".yaml", "apiVersion: addons.cluster.x-k8s.io/v1beta1\nkind: CAPTAddon\nmetadata: {name: fluxcd}\nspec: {}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\n")
	write(t, dir, karpenter+".yaml", "apiVersion: addons.cluster.x-k8s.io/v1beta1\nkind: CAPTAddon\nmetadata: {name: karpenter}\nspec: {helm: {chart: {repository: oci://elsewhere, name: karpenter}}}\n")
	write(t, dir, nodePool+".yaml", "apiVersion: addons.cluster.x-k8s.io/v1beta1\nkind: CAPTAddon\nmetadata: {name: pool}\nspec: {}\n")
	objects, err := readAddons(dir, "127.0.0.1:1")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(objects).To(HaveLen(4))
	chart, _, err := unstructured.NestedMap(objects[2].Object, "spec", "helm", "chart")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(chart).To(Equal(map[string]any{"repository": "oci://127.0.0.1:1/charts", "name": "karpenter", "insecure": true}))
	g.Expect(objects[0].Object).NotTo(HaveKey("helm"))
}

// The demo applies the examples.
func TestExamples_matchTheDemo(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	root, err := testenv.Root()
	g.Expect(err).NotTo(HaveOccurred())
	pods, err := readPods(filepath.Join(root, "examples", "quickstart-workload.yaml"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(pods.Spec.Template.Spec.NodeSelector).To(HaveKey("karpenter.sh/nodepool"), "the initial nodes do not run them")
	g.Expect(readPods(filepath.Join(root, "examples", "quickstart.yaml"))).Error().To(MatchError(ContainSubstring("must contain exactly one Deployment")))
	text, err := os.ReadFile(filepath.Join(root, "examples", "quickstart.yaml"))
	g.Expect(err).NotTo(HaveOccurred())
	for _, label := range []string{`fluxcd.io/enabled: "true"`, `karpenter.sh/enabled: "true"`} {
		g.Expect(string(text)).To(ContainSubstring(label))
	}
}

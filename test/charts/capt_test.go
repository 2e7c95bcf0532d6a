package charts

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/appthrust/capt/internal/kubernetes/manifest"
	"github.com/appthrust/capt/internal/kubernetes/scheme"
	"github.com/appthrust/capt/internal/testenv"
)

// The API server accepts the chart of CAPT as Helm applies it, and the chart upgrades
// the CRDs. cert-manager is not installed, so its objects are left out.
func TestCAPT_installsAndUpgradesCRDs(t *testing.T) {
	if os.Getenv("CAPT_TEST_CHARTS") != "1" {
		t.Skip("set CAPT_TEST_CHARTS=1 to install the chart of CAPT")
	}
	g := NewWithT(t)
	root, err := testenv.Root()
	g.Expect(err).NotTo(HaveOccurred())
	values := filepath.Join(t.TempDir(), "values.yaml")
	g.Expect(os.WriteFile(values, []byte("certManager: {enabled: false}\nreplicas: 3\nflags: {max-runs: 20}\n"), 0o600)).To(Succeed())
	cmd := exec.Command("go", "run", ".", "render", "--chart", filepath.Join(root, "charts", "capt"), "--values", values)
	cmd.Dir = filepath.Join(root, "dev", "bin", "charts")
	text, err := cmd.Output()
	g.Expect(err).NotTo(HaveOccurred())
	objects, err := manifest.Parse(text)
	g.Expect(err).NotTo(HaveOccurred())

	env := testenv.New(t)
	known := scheme.New()
	g.Expect(apiextensionsv1.AddToScheme(known)).To(Succeed())
	g.Expect(appsv1.AddToScheme(known)).To(Succeed())
	c, err := client.New(env.Config, client.Options{Scheme: known})
	g.Expect(err).NotTo(HaveOccurred())
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "captaddons.addons.cluster.x-k8s.io"}}
	g.Expect(c.Get(t.Context(), client.ObjectKeyFromObject(crd), crd)).To(Succeed())
	columns := crd.Spec.Versions[0].AdditionalPrinterColumns
	g.Expect(columns).NotTo(BeEmpty())
	crd.Spec.Versions[0].AdditionalPrinterColumns = nil
	g.Expect(c.Update(t.Context(), crd)).To(Succeed())

	g.Expect(c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "capt-system"}})).To(Succeed())
	for range 2 {
		for _, obj := range objects {
			err := c.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(obj.DeepCopy()), client.FieldOwner("helm"), client.ForceOwnership)
			g.Expect(err).NotTo(HaveOccurred(), "%s %s", obj.GetKind(), obj.GetName())
		}
	}

	g.Expect(c.Get(t.Context(), client.ObjectKeyFromObject(crd), crd)).To(Succeed())
	g.Expect(crd.Spec.Versions[0].AdditionalPrinterColumns).To(Equal(columns), "the chart upgrades CRDs")
	g.Expect(crd.Annotations).To(HaveKeyWithValue("helm.sh/resource-policy", "keep"))
	var deployment appsv1.Deployment
	g.Expect(c.Get(t.Context(), client.ObjectKey{Namespace: "capt-system", Name: "capt-controller-manager"}, &deployment)).To(Succeed())
	g.Expect(deployment.Spec.Replicas).To(HaveValue(BeEquivalentTo(3)))
	g.Expect(deployment.Spec.Template.Spec.Containers[0].Args).To(ContainElement("--max-runs=20"))
}

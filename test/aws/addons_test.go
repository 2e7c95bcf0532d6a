package aws

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/kubernetes/manifest"
	"github.com/appthrust/capt/internal/kubernetes/scheme"
	"github.com/appthrust/capt/internal/testenv"
)

// karpenterKinds are the kinds that the add-on karpenter-nodepool creates.
var karpenterKinds = []schema.GroupVersionKind{
	{Group: "karpenter.k8s.aws", Version: "v1", Kind: "EC2NodeClass"},
	{Group: "karpenter.sh", Version: "v1", Kind: "NodePool"},
}

// installNodePool installs the shipped add-on karpenter-nodepool, with values of the real
// outputs. The test is in place of Karpenter: it has the CRDs, and reports that their
// objects are ready.
func (m *management) installNodePool(server *apiServer, infra *infrav1.CAPTCluster, outputs map[string]infrav1.Value) {
	m.t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(server.dir, "kubeconfig"))
	m.Expect(err).NotTo(HaveOccurred())
	types := scheme.New()
	m.Expect(apiextensionsv1.AddToScheme(types)).To(Succeed())
	workload, err := client.New(config, client.Options{Scheme: types})
	m.Expect(err).NotTo(HaveOccurred())
	for _, kind := range karpenterKinds {
		m.Expect(workload.Create(m.t.Context(), definition(kind))).To(Succeed())
	}

	m.repeat(func(ctx context.Context) { _ = collectGarbage(ctx, workload) })

	root, err := testenv.Root()
	m.Expect(err).NotTo(HaveOccurred())
	text, err := os.ReadFile(filepath.Join(root, "addons", "karpenter-nodepool.yaml"))
	m.Expect(err).NotTo(HaveOccurred())
	objects, err := manifest.Parse(text)
	m.Expect(err).NotTo(HaveOccurred())
	m.Expect(objects).To(HaveLen(1))
	unstructured.RemoveNestedField(objects[0].Object, "spec", "dependsOn")
	m.create(objects[0])

	addon := &addonsv1.CAPTAddon{}
	m.Eventually(func(g Gomega) {
		for _, kind := range karpenterKinds {
			obj := &unstructured.Unstructured{}
			obj.SetGroupVersionKind(kind)
			g.Expect(workload.Get(m.t.Context(), client.ObjectKey{Name: "default"}, obj)).To(Succeed())
			g.Expect(setReady(obj)).To(Succeed())
			g.Expect(workload.Status().Update(m.t.Context(), obj)).To(Succeed())
		}
		g.Expect(m.get(objects[0].GetName(), addon)).To(Succeed())
		ready := conditions.Get(addon, infrav1.ReadyCondition)
		g.Expect(ready).To(HaveValue(HaveField("Status", metav1.ConditionTrue)), "%v", addon.Status.Clusters)
	}, testTimeout, time.Second).Should(Succeed())

	class := &unstructured.Unstructured{}
	class.SetGroupVersionKind(karpenterKinds[0])
	m.Expect(workload.Get(m.t.Context(), client.ObjectKey{Name: "default"}, class)).To(Succeed())
	m.Expect(class.Object["spec"]).To(HaveKeyWithValue("instanceProfile", outputs["karpenter_instance_profile_name"].String()))
	var subnets []string
	terms, _, err := unstructured.NestedSlice(class.Object, "spec", "subnetSelectorTerms")
	m.Expect(err).NotTo(HaveOccurred())
	for _, term := range terms {
		subnets = append(subnets, term.(map[string]any)["id"].(string))
	}
	m.Expect(subnets).To(ConsistOf(infra.Status.SubnetIDs))
}

// collectGarbage ends the foreground deletion of Karpenter's objects, as the garbage
// collector of the cluster does.
func collectGarbage(ctx context.Context, workload client.Client) error {
	for _, kind := range karpenterKinds {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind)
		if err := workload.List(ctx, list); err != nil {
			return err
		}
		for i := range list.Items {
			obj := &list.Items[i]
			if !obj.GetDeletionTimestamp().IsZero() && controllerutil.RemoveFinalizer(obj, metav1.FinalizerDeleteDependents) {
				if err := workload.Update(ctx, obj); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// setReady sets the condition Ready of an object.
func setReady(obj *unstructured.Unstructured) error {
	return unstructured.SetNestedSlice(obj.Object, []any{map[string]any{
		"type": "Ready", "status": "True", "reason": "Ready", "message": "",
		"observedGeneration": obj.GetGeneration(), "lastTransitionTime": metav1.Now().UTC().Format(time.RFC3339),
	}}, "status", "conditions")
}

// definition returns the CRD of a kind without a namespace, with any fields.
func definition(kind schema.GroupVersionKind) *apiextensionsv1.CustomResourceDefinition {
	singular := strings.ToLower(kind.Kind)
	plural := singular + "s"
	if strings.HasSuffix(singular, "s") {
		plural = singular + "es"
	}
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: plural + "." + kind.Group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: kind.Group, Scope: apiextensionsv1.ClusterScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: kind.Kind, Plural: plural, Singular: singular, ListKind: kind.Kind + "List"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: kind.Version, Served: true, Storage: true,
				Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", XPreserveUnknownFields: new(true),
				}},
			}},
		},
	}
}

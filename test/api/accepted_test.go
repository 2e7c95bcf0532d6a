package api_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/appthrust/capt/addons"
	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/kubernetes/manifest"
	"github.com/appthrust/capt/internal/testenv"
)

func TestGoodManifests_areAccepted(t *testing.T) {
	kinds := map[string]bool{}
	observed := map[string]bool{}
	for _, crd := range crds(t) {
		_, observed[crd.Spec.Names.Kind] = crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["status"].Properties["observedGeneration"]
	}
	for _, dir := range []string{"addons", "examples", "templates", "clusterclasses", "policies", filepath.Join("test", "api", "testdata", "good")} {
		if !exists(t, dir) {
			continue
		}
		for _, path := range files(t, dir) {
			if filepath.Base(path) == addons.VersionsFile {
				continue
			}
			ns := env.Namespace(t)
			for _, obj := range documents(t, path) {
				kinds[obj.GetKind()] = true
				t.Run(filepath.Base(path)+"/"+obj.GetKind()+"/"+obj.GetName(), func(t *testing.T) {
					obj.SetNamespace(ns)
					g := NewWithT(t)
					g.Expect(env.Client.Create(context.Background(), obj, strict)).To(Succeed())
					if observed[obj.GetKind()] {
						result, err := status.Compute(obj)
						g.Expect(err).NotTo(HaveOccurred())
						g.Expect(result.Status).To(Equal(status.InProgressStatus), "no controller has seen it")
					}
				})
			}
		}
	}
	for _, crd := range crds(t) {
		NewWithT(t).Expect(kinds).To(HaveKey(crd.Spec.Names.Kind), "every kind has a good manifest")
	}
}

// The format of Crossplane and of earlier releases of CAPT is unchanged after a round
// trip through the API server and CAPT's types.
func TestWireShape_roundTrips(t *testing.T) {
	ns := env.Namespace(t)
	for _, written := range documents(t, filepath.Join(root(t), "test", "api", "testdata", "wire", "workspacetemplate.yaml")) {
		t.Run(written.GetName(), func(t *testing.T) {
			g := NewWithT(t)
			ctx := context.Background()
			// The manifests get the namespace of this test.
			inNamespace(written.Object["spec"], ns)
			written.SetNamespace(ns)
			g.Expect(env.Client.Create(ctx, written.DeepCopy(), strict)).To(Succeed())

			typed, err := env.Scheme.New(written.GroupVersionKind())
			g.Expect(err).NotTo(HaveOccurred())
			obj := typed.(client.Object)
			g.Expect(env.Client.Get(ctx, client.ObjectKeyFromObject(written), obj)).To(Succeed())
			back, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
			g.Expect(err).NotTo(HaveOccurred())
			spec := back["spec"].(map[string]any)
			for _, defaulted := range []string{"historyLimit", "snapshotLimit"} {
				delete(spec, defaulted)
			}
			g.Expect(spec).To(Equal(written.Object["spec"]))
		})
	}
}

func TestControlPlane_getsVersionPrefix(t *testing.T) {
	g := NewWithT(t)
	cp := &controlplanev1.CAPTControlPlane{
		ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace(t), Name: "prefix"},
		Spec: controlplanev1.CAPTControlPlaneSpec{
			Version: "1.33.0", WorkspaceTemplateRef: infrav1.TemplateReference{Name: "eks"},
		},
	}
	g.Expect(env.Client.Create(context.Background(), cp)).To(Succeed())
	g.Expect(cp.Spec.Version).To(Equal("v1.33.0"))

	cp.Spec.Version = "1.35"
	g.Expect(env.Client.Update(context.Background(), cp)).To(Succeed(), "the controller upgrades minor by minor")
	g.Expect(cp.Spec.Version).To(Equal("v1.35"))
}

func TestMachineDeployment_getsClusterLabel(t *testing.T) {
	g := NewWithT(t)
	md := &infrav1.CAPTMachineDeployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace(t), Name: "label"},
		Spec: infrav1.CAPTMachineDeploymentSpec{
			ClusterName: "production",
			Selector:    metav1.LabelSelector{MatchLabels: map[string]string{"pool": "a"}},
			Template: infrav1.MachineTemplate{
				ObjectMeta: clusterv1.ObjectMeta{Labels: map[string]string{"pool": "a"}},
				Spec:       infrav1.CAPTMachineSpec{WorkspaceTemplateRef: infrav1.TemplateReference{Name: "node"}},
			},
		},
	}
	g.Expect(env.Client.Create(context.Background(), md)).To(Succeed())
	g.Expect(md.Labels).To(HaveKeyWithValue(clusterv1.ClusterNameLabel, "production"))
	g.Expect(md.Spec.Template.ObjectMeta.Labels).To(HaveKeyWithValue(clusterv1.ClusterNameLabel, "production"))
	g.Expect(md.Spec.Selector.MatchLabels).To(Equal(map[string]string{"pool": "a"}))
}

// documents returns the objects of a YAML file.
func documents(t *testing.T, path string) []*unstructured.Unstructured {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	objects, err := manifest.Parse(text)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return objects
}

// inNamespace replaces every namespace in a value.
func inNamespace(value any, ns string) {
	switch v := value.(type) {
	case map[string]any:
		for key, item := range v {
			if key == "namespace" {
				v[key] = ns
			}
			inNamespace(item, ns)
		}
	case []any:
		for _, item := range v {
			inNamespace(item, ns)
		}
	}
}

func root(t *testing.T) string {
	t.Helper()
	dir, err := testenv.Root()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func exists(t *testing.T, dir string) bool {
	t.Helper()
	_, err := os.Stat(filepath.Join(root(t), dir))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return err == nil
}

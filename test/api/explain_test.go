package api_test

import (
	"context"
	"os/exec"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/cluster-api/util/contract"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/appthrust/capt/internal/testenv"
)

// foreign are the fields that other projects document.
var foreign = []string{
	".apiVersion", ".kind", ".spec.runner.resources", ".spec.runner.tolerations[]", ".spec.runner.affinity", ".spec.runner.topologySpreadConstraints[]",
	".spec.runner.env[].valueFrom", ".spec.runner.volumes[].emptyDir", ".spec.runner.volumes[].configMap", ".spec.runner.volumes[].secret", ".spec.runner.volumes[].persistentVolumeClaim",
}

func TestFields_areDocumented(t *testing.T) {
	for _, crd := range servedCRDs(t) {
		t.Run(crd.Spec.Names.Kind, func(t *testing.T) {
			for _, version := range crd.Spec.Versions {
				walk("", version.Schema.OpenAPIV3Schema, func(path string, schema *apiextensionsv1.JSONSchemaProps) {
					// The API server itself documents an object's metadata.
					if strings.HasSuffix(path, "[]") || path == ".metadata" {
						return
					}
					switch name := path[strings.LastIndex(path, ".")+1:]; {
					case strings.TrimSpace(schema.Description) == "":
						t.Errorf("%s has no description", path)
					case path == "" || isForeign(path):
					case !strings.HasPrefix(schema.Description, name+" "):
						t.Errorf("%s: the description must start with %q: %s", path, name, schema.Description)
					case !strings.HasSuffix(schema.Description, "."):
						t.Errorf("%s: the description must end with a period: %s", path, schema.Description)
					}
				})
			}
		})
	}
}

// isForeign reports whether a field belongs to a type of another project.
func isForeign(path string) bool {
	return slices.ContainsFunc(foreign, func(f string) bool { return path == f || strings.HasPrefix(path, f+".") }) ||
		strings.Contains(path, "onditions[].") || strings.Contains(path, "elector.") || strings.Contains(path, ".metadata.")
}

func TestKubectlExplain_showsEveryField(t *testing.T) {
	kubectl, err := testenv.Part("kubectl")
	if err != nil {
		t.Fatal(err)
	}
	explain := func(args ...string) string {
		cmd := exec.Command(kubectl, append([]string{"--kubeconfig", env.Kubeconfig, "explain"}, args...)...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v: %s", cmd, err, out)
		}
		return string(out)
	}
	for _, crd := range servedCRDs(t) {
		t.Run(crd.Spec.Names.Kind, func(t *testing.T) {
			g := NewWithT(t)
			version := crd.Spec.Versions[0]
			api := "--api-version=" + crd.Spec.Group + "/" + version.Name

			all := explain(crd.Spec.Names.Plural, "--recursive", api)
			g.Expect(oneLine(all)).To(ContainSubstring(oneLine(version.Schema.OpenAPIV3Schema.Description)))
			walk("", version.Schema.OpenAPIV3Schema, func(path string, _ *apiextensionsv1.JSONSchemaProps) {
				if name := path[strings.LastIndex(path, ".")+1:]; name != "" && !strings.HasSuffix(name, "[]") {
					g.Expect(all).To(MatchRegexp(`(?m)^\s+`+name+`\s+<`), "%s must be listed", path)
				}
			})
			g.Expect(explain(crd.Spec.Names.Plural+".spec", api)).NotTo(ContainSubstring("<no description>"))
		})
	}
}

// contractKinds are the kinds that Cluster API handles by its contracts.
var contractKinds = []string{
	"CAPTBootstrapConfig", "CAPTBootstrapConfigTemplate", "CAPTControlPlane", "CAPTControlPlaneTemplate",
	"CAPTCluster", "CAPTClusterTemplate", "CAPTMachine", "CAPTMachineTemplate", "CAPTMachinePool", "CAPTMachinePoolTemplate",
}

func TestCRDs_followTheContract(t *testing.T) {
	for _, crd := range servedCRDs(t) {
		t.Run(crd.Spec.Names.Kind, func(t *testing.T) {
			g := NewWithT(t)
			g.Expect(crd.Name).To(Equal(contract.CalculateCRDName(crd.Spec.Group, crd.Spec.Names.Kind)))
			// Cluster API owns and deletes objects of kinds with this label for all users who name them.
			if slices.Contains(contractKinds, crd.Spec.Names.Kind) {
				g.Expect(crd.Labels).To(HaveKeyWithValue("cluster.x-k8s.io/v1beta2", "v1beta1"))
			} else {
				g.Expect(crd.Labels).NotTo(HaveKey(HavePrefix("cluster.x-k8s.io/v")))
			}
			scope := apiextensionsv1.NamespaceScoped
			if strings.HasPrefix(crd.Spec.Names.Kind, "Cluster") {
				scope = apiextensionsv1.ClusterScoped
			}
			g.Expect(crd.Spec.Scope).To(Equal(scope))
			g.Expect(crd.Spec.Names.Categories).To(ContainElement("capt"))
			g.Expect(crd.Spec.Names.ShortNames).NotTo(BeEmpty())
			for _, version := range crd.Spec.Versions {
				g.Expect(version.AdditionalPrinterColumns).NotTo(BeEmpty())
				for _, column := range version.AdditionalPrinterColumns {
					g.Expect(column.Description).NotTo(BeEmpty(), "column %s", column.Name)
				}
				_, hasStatus := version.Schema.OpenAPIV3Schema.Properties["status"]
				hasSubresource := version.Subresources != nil && version.Subresources.Status != nil
				g.Expect(hasSubresource).To(Equal(hasStatus), "a status has its subresource")
			}
		})
	}
}

func TestCRDs_shortNamesAreUnique(t *testing.T) {
	g := NewWithT(t)
	owner := map[string]string{}
	for _, crd := range servedCRDs(t) {
		for _, name := range crd.Spec.Names.ShortNames {
			g.Expect(owner).NotTo(HaveKey(name), "%s has the same short name", crd.Name)
			owner[name] = crd.Name
		}
	}
}

// servedCRDs returns CAPT's CRDs from the API server.
func servedCRDs(t *testing.T) []*apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := apiextensionsv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(env.Config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	var served []*apiextensionsv1.CustomResourceDefinition
	for _, crd := range crds(t) {
		got := &apiextensionsv1.CustomResourceDefinition{}
		if err := c.Get(context.Background(), client.ObjectKeyFromObject(crd), got); err != nil {
			t.Fatal(err)
		}
		served = append(served, got)
	}
	return served
}

// oneLine replaces line breaks with spaces.
func oneLine(s string) string {
	return strings.Join(strings.Fields(s), " ")
}

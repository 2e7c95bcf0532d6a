package contract

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/kubernetes/manifest"
	"github.com/appthrust/capt/internal/testenv"
)

// The page is about the files of a release, which dev/manifests builds from those that the rules
// read, and test/clusterctl installs and moves with the real clusterctl.
func TestClusterctl_keepsTheContract(t *testing.T) {
	walkPage(t, contract{page: "clusterctl.md", sum: "9940be71dbdbe698", subject: captCluster, sections: sections{
		"Provider Repositories": {
			"MUST contain the metadata YAML":              metadataIsValid,
			"MUST contain the components YAML":            eachProvider(hasComponents),
			"SHOULD contain workload cluster templates":   templatesAreNamed,
			"optionally includes ClusterClass files":      classesAreWhole,
			"tag or directory MUST be a semantic version": notApplicable("a clause for maintainers"),
		},
		"Metadata YAML": {
			"required":                     metadataIsValid,
			"the contract is that of CRDs": metadataAgrees,
		},
		"Components YAML: target namespace": {
			"should contain one Namespace object":         eachProvider(hasOneNamespace),
			"objects MUST belong to the target namespace": eachProvider(isInItsNamespace),
		},
		"Components YAML: controllers and watching namespace": {
			"the container MUST be called manager":          eachProvider(runsTheManager),
			"the manager MUST support the --namespace flag": supportsNamespace,
			"canonical names should be used for images":     eachProvider(hasCanonicalImages),
		},
		"Components YAML: variables": {
			"should be prefixed with the name of the provider": notApplicable("there are none: dev/manifests escapes the placeholders of CAPT, and test/clusterctl installs the files"),
		},
		"Components YAML: labels": {
			"should be labeled with the name of the provider": eachProvider(isLabeled),
		},
		"Workload cluster templates": {
			"MUST follow the naming convention":               templatesAreNamed,
			"MUST assume the target namespace already exists": eachTemplate(createsNoNamespace),
			"objects MUST be deployed in the same namespace":  eachTemplate(isInOneNamespace),
			"should use the common variables":                 eachTemplate(usesCommonVariables),
		},
		"ClusterClass definitions": {
			"references and objects should NOT specify a namespace": classesAreWhole,
			"SHOULD NOT have any environment variables":             classesAreWhole,
			"objects should not be shared across definitions":       classesAreWhole,
		},
		"OwnerReferences chain": {
			"MUST link directly or indirectly to a Cluster": ownersLeadToTheCluster,
		},
		"Move": {
			"respect the Cluster.spec.paused field":          pausesByBoth,
			"Status is never restored":                       notApplicable("test/cluster TestMove_changesNothing copies a cluster without its status, and test/clusterctl moves one"),
			"the delete-for-move annotation stops providers": leavesMovedObjects,
		},
	}})
}

// providers are the directories of config/providers with the names of the providers.
var providers = map[string]string{
	"infrastructure": "infrastructure-capt", "control-plane": "control-plane-capt", "bootstrap": "bootstrap-capt", "addon": "addon-capt",
}

// components are the objects of a provider.
type components struct {
	name    string
	objects []*unstructured.Unstructured
}

// eachProvider holds when the rule holds for the components of every provider.
func eachProvider(of func(c *check, p components)) rule {
	return func(c *check) {
		for directory, name := range providers {
			objects, err := testenv.Kustomize("config/providers/" + directory)
			c.Expect(err).NotTo(HaveOccurred())
			of(c, components{name: name, objects: objects})
		}
	}
}

func hasComponents(c *check, p components) {
	kinds := map[string]int{}
	for _, obj := range p.objects {
		kinds[obj.GetKind()]++
	}
	for _, kind := range []string{"CustomResourceDefinition", "Deployment", "ClusterRole", "ServiceAccount"} {
		c.Expect(kinds[kind]).To(BeNumerically(">", 0), "%s has a %s", p.name, kind)
	}
}

func hasOneNamespace(c *check, p components) { c.Expect(p.namespace(c)).NotTo(BeEmpty()) }

// namespace returns the name of the only Namespace.
func (p components) namespace(c *check) string {
	var names []string
	for _, obj := range p.objects {
		if obj.GetKind() == "Namespace" {
			names = append(names, obj.GetName())
		}
	}
	c.Expect(names).To(HaveLen(1), p.name)
	return names[0]
}

func isInItsNamespace(c *check, p components) {
	namespace := p.namespace(c)
	for _, obj := range p.objects {
		c.Expect(obj.GetNamespace()).To(BeElementOf("", namespace), "%s %s of %s", obj.GetKind(), obj.GetName(), p.name)
	}
}

func isLabeled(c *check, p components) {
	for _, obj := range p.objects {
		c.Expect(obj.GetLabels()).To(HaveKeyWithValue("cluster.x-k8s.io/provider", p.name), "%s %s", obj.GetKind(), obj.GetName())
	}
}

// containers returns the containers of the Deployments.
func (p components) containers(c *check) []corev1.Container {
	var found []corev1.Container
	for _, obj := range p.objects {
		if obj.GetKind() != "Deployment" {
			continue
		}
		var deployment appsv1.Deployment
		c.Expect(runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, &deployment)).To(Succeed())
		found = append(found, deployment.Spec.Template.Spec.Containers...)
	}
	return found
}

func runsTheManager(c *check, p components) {
	c.Expect(p.containers(c)).To(ConsistOf(HaveField("Name", "manager")), p.name)
}

func hasCanonicalImages(c *check, p components) {
	for _, container := range p.containers(c) {
		c.Expect(container.Image).To(MatchRegexp(`^[a-z0-9-]+(\.[a-z0-9-]+)+/`), p.name)
	}
}

// metadataIsValid checks what clusterctl requires of metadata.yaml.
func metadataIsValid(c *check) {
	var metadata struct {
		APIVersion    string
		Kind          string
		ReleaseSeries []struct{ Contract string }
	}
	c.Expect(yaml.Unmarshal([]byte(c.read("metadata.yaml")), &metadata)).To(Succeed())
	c.Expect(metadata.APIVersion).To(Equal("clusterctl.cluster.x-k8s.io/v1alpha3"))
	c.Expect(metadata.Kind).To(Equal("Metadata"))
	c.Expect(metadata.ReleaseSeries).NotTo(BeEmpty())
}

// read returns a file of the repository.
func (c *check) read(path string) string {
	root, err := testenv.Root()
	c.Expect(err).NotTo(HaveOccurred())
	text, err := os.ReadFile(filepath.Join(root, path))
	c.Expect(err).NotTo(HaveOccurred())
	return string(text)
}

// files returns the paths of files of the repository.
func (c *check) files(pattern string) []string {
	root, err := testenv.Root()
	c.Expect(err).NotTo(HaveOccurred())
	found, err := filepath.Glob(filepath.Join(root, pattern))
	c.Expect(err).NotTo(HaveOccurred())
	c.Expect(found).NotTo(BeEmpty(), pattern)
	for i := range found {
		found[i], err = filepath.Rel(root, found[i])
		c.Expect(err).NotTo(HaveOccurred())
	}
	return found
}

func templatesAreNamed(c *check) {
	names := c.files("flavors/*.yaml")
	c.Expect(names).To(ContainElement("flavors/cluster-template.yaml"))
	for _, name := range names {
		c.Expect(name).To(MatchRegexp(`^flavors/cluster-template(-[a-z0-9-]+)?\.yaml$`))
	}
}

// eachTemplate holds when the rule holds for every template of clusters.
func eachTemplate(of func(c *check, name, text string)) rule {
	return func(c *check) {
		for _, name := range c.files("flavors/*.yaml") {
			of(c, name, c.read(name))
		}
	}
}

func createsNoNamespace(c *check, name, text string) {
	c.Expect(text).NotTo(MatchRegexp(`(?m)^kind: Namespace$`), name)
}

var namespaceField = regexp.MustCompile(`(?m)^  namespace: (.*)$`)

func isInOneNamespace(c *check, name, text string) {
	fields := namespaceField.FindAllStringSubmatch(text, -1)
	c.Expect(fields).To(HaveLen(strings.Count("\n"+text, "\nkind: ")), "each object of %s has a namespace", name)
	for _, field := range fields {
		c.Expect(field[1]).To(ContainSubstring("${NAMESPACE"), name)
	}
}

func usesCommonVariables(c *check, name, text string) {
	for _, variable := range []string{"CLUSTER_NAME", "NAMESPACE", "KUBERNETES_VERSION"} {
		c.Expect(text).To(ContainSubstring("${"+variable), name)
	}
}

// classesAreWhole checks the ClusterClasses: they have no namespaces and no variables of
// clusterctl, and share no objects.
func classesAreWhole(c *check) {
	owner := map[string]string{}
	for _, name := range c.files("clusterclasses/*.yaml") {
		text := c.read(name)
		c.Expect(text).NotTo(ContainSubstring("${"), name)
		objects, err := manifest.Parse([]byte(text))
		c.Expect(err).NotTo(HaveOccurred())
		for _, obj := range objects {
			c.Expect(obj.GetNamespace()).To(BeEmpty(), name)
			key := obj.GetKind() + " " + obj.GetName()
			c.Expect(owner).NotTo(HaveKey(key), name)
			owner[key] = name
			if obj.GetKind() == "ClusterClass" {
				c.Expect(filepath.Base(name)).To(Equal(obj.GetName() + ".yaml"))
			}
		}
	}
}

// ownersLeadToTheCluster checks the workspaces of a cluster, which Cluster API does not refer to.
func ownersLeadToTheCluster(c *check) {
	h := c.on(fixture.in(c))
	owners := map[types.UID][]metav1.OwnerReference{}
	for _, list := range []client.ObjectList{&infrav1.CAPTClusterList{}, &controlplanev1.CAPTControlPlaneList{}, &infrav1.WorkspaceTemplateApplyList{}} {
		c.Expect(h.env.Client.List(h.ctx, list, client.InNamespace(h.namespace))).To(Succeed())
		objects, err := runtime.DefaultUnstructuredConverter.ToUnstructured(list)
		c.Expect(err).NotTo(HaveOccurred())
		items, _, err := unstructured.NestedSlice(objects, "items")
		c.Expect(err).NotTo(HaveOccurred())
		for _, item := range items {
			obj := &unstructured.Unstructured{Object: item.(map[string]any)} //nolint:forcetypeassert // It is one.
			owners[obj.GetUID()] = obj.GetOwnerReferences()
		}
	}
	c.Expect(len(owners)).To(BeNumerically(">=", 4), "infrastructure, control plane, and a workspace of each")
	for uid, references := range owners {
		for len(references) > 0 && references[0].Kind != clusterv1.ClusterKind {
			references = owners[references[0].UID]
		}
		c.Expect(references).NotTo(BeEmpty(), "object %s has no Cluster", uid)
	}
}

// leavesMovedObjects checks that an object is left alone that clusterctl has moved.
func leavesMovedObjects(c *check) {
	h := newHarness(c.Gomega, c.env)
	h.create(h.templates()...)
	infra := newInfra("moved")
	infra.Annotations = map[string]string{"clusterctl.cluster.x-k8s.io/delete-for-move": ""}
	h.create(infra, newCluster("moved"))
	waitCondition(h, "moved", emptyInfra(), clusterv1.PausedCondition, "True Paused")
	var workspaces infrav1.WorkspaceTemplateApplyList
	c.Expect(h.env.Client.List(h.ctx, &workspaces, client.InNamespace(h.namespace))).To(Succeed())
	c.Expect(workspaces.Items).To(BeEmpty())
}

package contract

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"

	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	capicontract "sigs.k8s.io/cluster-api/util/contract"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/appthrust/capt/internal/testenv"
)

// everyResource returns the rules for the clauses that all pages have. Some of them
// contain the role.
func everyResource(role string) sections {
	organisational := notApplicable("it concerns maintainers, not the program")
	return sections{
		"Contract rules for " + role: {
			"MUST consider any Cluster API behaviour that": usesOnlyPublicPackages,
			"MUST NOT rely on any Cluster API":             all(usesOnlyPublicPackages, namesNothingInternal),
			"MUST engage the community":                    organisational,
		},
		"All resources: scope": {
			"MUST be namespace-scoped": namespaced,
		},
		"All resources: TypeMeta and ObjectMeta field": {
			"MUST have the standard Kubernetes TypeMeta and": standardMeta,
		},
		"All resources: API group": {
			"MUST grant full read/write RBAC permissions for": notApplicable("CAPT uses Cluster API's own groups, in which its controllers may do everything", clusterAPIMayWrite),
		},
		"All resources: version": {
			"SHOULD abide by the same policies":                                  versionPolicy,
			"MUST point to an available version in":                              labelNamesServedVersions,
			"must be consistent with the contract version":                       metadataAgrees,
			"MUST set cluster.x-k8s.io/<version> label on the " + labelled(role): labelIsSet,
		},
		role + ", " + role + "List resource definition": {
			"MUST also add the corresponding list resource":                                           listIsServed(subject.self),
			"MUST be named as <" + role + ">List":                                                     listIsNamed(subject.self),
			"must have the format produced by sigs.k8s.io/cluster-api/util/contract.CalculateCRDName": nameIsCalculated,
		},
	}
}

// labelled returns the role in a page's clause about the label: the page of control
// planes names InfraCluster.
func labelled(role string) string {
	if role == "ControlPlane" {
		return "InfraCluster"
	}
	return role
}

func (s subject) self() schema.GroupVersionKind { return s.kind }

var crdClient = sync.OnceValues(func() (client.Client, error) {
	scheme := runtime.NewScheme()
	if err := apiextensionsv1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	return client.New(env.Config, client.Options{Scheme: scheme})
})

// crd reads the definition of a kind from the API server.
func (c *check) crd(kind schema.GroupVersionKind) *apiextensionsv1.CustomResourceDefinition {
	c.t.Helper()
	reader, err := crdClient()
	c.Expect(err).NotTo(HaveOccurred())
	var list apiextensionsv1.CustomResourceDefinitionList
	c.Expect(reader.List(c.ctx, &list)).To(Succeed())
	for i := range list.Items {
		if crd := &list.Items[i]; crd.Spec.Group == kind.Group && crd.Spec.Names.Kind == kind.Kind {
			return crd
		}
	}
	c.t.Fatalf("the API server has no definition of %s", kind)
	return nil
}

func (c *check) crds() []*apiextensionsv1.CustomResourceDefinition {
	c.t.Helper()
	var found []*apiextensionsv1.CustomResourceDefinition
	for _, kind := range c.subject.resources() {
		found = append(found, c.crd(kind))
	}
	return found
}

// schemaOf returns the schema of the version that Cluster API uses.
func (c *check) schemaOf(kind schema.GroupVersionKind) *apiextensionsv1.JSONSchemaProps {
	c.t.Helper()
	for _, v := range c.crd(kind).Spec.Versions {
		if v.Name == kind.Version {
			return v.Schema.OpenAPIV3Schema
		}
	}
	c.t.Fatalf("%s is not served", kind)
	return nil
}

func isCRD(c *check) {
	for _, crd := range c.crds() {
		c.Expect(crd.Status.Conditions).To(ContainElement(And(
			HaveField("Type", apiextensionsv1.Established), HaveField("Status", apiextensionsv1.ConditionTrue))), crd.Name)
	}
}

func namespaced(c *check) {
	for _, crd := range c.crds() {
		c.Expect(crd.Spec.Scope).To(Equal(apiextensionsv1.NamespaceScoped), crd.Name)
	}
}

// standardMeta checks the published types and the objects of the API server.
func standardMeta(c *check) {
	for _, kind := range c.subject.resources() {
		obj, err := c.env.Scheme.New(kind)
		c.Expect(err).NotTo(HaveOccurred())
		of := reflect.TypeOf(obj).Elem()
		for name, wanted := range map[string]reflect.Type{
			"TypeMeta": reflect.TypeFor[metav1.TypeMeta](), "ObjectMeta": reflect.TypeFor[metav1.ObjectMeta](),
		} {
			field, found := of.FieldByName(name)
			c.Expect(found && field.Anonymous && field.Type == wanted).To(BeTrue(), "%s embeds %s", kind.Kind, name)
		}
		properties := c.schemaOf(kind).Properties
		c.Expect(properties["apiVersion"].Type).To(Equal("string"))
		c.Expect(properties["kind"].Type).To(Equal("string"))
		c.Expect(properties["metadata"].Type).To(Equal("object"))
	}
}

// groupAndVersion covers the requirements of the sections below it.
var groupAndVersion = all(clusterAPIMayWrite, versionPolicy, labelIsSet, labelNamesServedVersions)

// clusterAPIMayWrite checks the permissions of Cluster API's controllers.
func clusterAPIMayWrite(c *check) {
	module, err := testenv.ModuleDir("sigs.k8s.io/cluster-api")
	c.Expect(err).NotTo(HaveOccurred())
	text, err := os.ReadFile(filepath.Join(module, "core", "config", "rbac", "role.yaml"))
	c.Expect(err).NotTo(HaveOccurred())
	var role rbacv1.ClusterRole
	c.Expect(yaml.Unmarshal(text, &role)).To(Succeed())
	var verbs []string
	for _, r := range role.Rules {
		if slices.Contains(r.APIGroups, c.subject.kind.Group) && slices.Contains(r.Resources, "*") {
			verbs = append(verbs, r.Verbs...)
		}
	}
	c.Expect(verbs).To(ContainElements("create", "delete", "get", "list", "patch", "update", "watch"), "for all of %s", c.subject.kind.Group)
}

var kubernetesVersion = regexp.MustCompile(`^v[1-9][0-9]*((alpha|beta)[1-9][0-9]*)?$`)

// versionPolicy checks Kubernetes' deprecation policy: version names contain the
// stability, a stored version is served, and a deprecated version has a newer one.
func versionPolicy(c *check) {
	for _, crd := range c.crds() {
		var served []string
		for _, v := range crd.Spec.Versions {
			c.Expect(v.Name).To(MatchRegexp(kubernetesVersion.String()), crd.Name)
			if v.Served {
				served = append(served, v.Name)
			}
			c.Expect(v.Storage && !v.Served).To(BeFalse(), "%s stores %s and does not serve it", crd.Name, v.Name)
			c.Expect(v.Deprecated && len(crd.Spec.Versions) == 1).To(BeFalse(), "%s deprecates its only version", crd.Name)
		}
		c.Expect(served).To(ContainElements(crd.Status.StoredVersions), "%s serves everything that it ever stored", crd.Name)
	}
}

// contractLabel is the label of the contract that the pages describe.
var contractLabel = "cluster.x-k8s.io/" + clusterv1.GroupVersion.Version

func labelIsSet(c *check) {
	for _, crd := range c.crds() {
		c.Expect(crd.Labels).To(HaveKey(contractLabel), crd.Name)
	}
}

var contractLabels = regexp.MustCompile(`^cluster\.x-k8s\.io/(v[0-9].*)$`)

func labelNamesServedVersions(c *check) {
	for _, crd := range c.crds() {
		for label, value := range crd.Labels {
			if !contractLabels.MatchString(label) {
				continue
			}
			for version := range strings.SplitSeq(value, "_") {
				c.Expect(crd.Spec.Versions).To(ContainElement(And(HaveField("Name", version), HaveField("Served", true))), "%s: %s", crd.Name, label)
			}
		}
	}
}

// metadataAgrees compares the labels with every metadata.yaml of the repository.
func metadataAgrees(c *check) {
	var contracts []string
	for _, crd := range c.crds() {
		for label := range crd.Labels {
			if m := contractLabels.FindStringSubmatch(label); m != nil && !slices.Contains(contracts, m[1]) {
				contracts = append(contracts, m[1])
			}
		}
	}
	c.Expect(contracts).To(ConsistOf(clusterv1.GroupVersion.Version))
	for _, path := range c.metadataFiles() {
		text, err := os.ReadFile(path)
		c.Expect(err).NotTo(HaveOccurred())
		var metadata struct {
			Kind          string
			ReleaseSeries []struct{ Contract string }
		}
		c.Expect(yaml.Unmarshal(text, &metadata)).To(Succeed(), path)
		if metadata.Kind != "Metadata" {
			continue
		}
		c.Expect(metadata.ReleaseSeries).NotTo(BeEmpty(), path)
		for _, series := range metadata.ReleaseSeries {
			c.Expect(contracts).To(ContainElement(series.Contract), path)
		}
	}
}

func (c *check) metadataFiles() []string {
	root, err := testenv.Root()
	c.Expect(err).NotTo(HaveOccurred())
	var found []string
	for _, pattern := range []string{"metadata.yaml", "*/metadata.yaml", "*/*/metadata.yaml", "*/*/*/metadata.yaml"} {
		paths, err := filepath.Glob(filepath.Join(root, pattern))
		c.Expect(err).NotTo(HaveOccurred())
		found = append(found, paths...)
	}
	return found
}

// isDefined creates an object as a dry run, which includes validation and webhooks.
func isDefined(c *check) {
	crd := c.crd(c.subject.kind)
	for _, v := range crd.Spec.Versions {
		c.Expect(v.Subresources).NotTo(BeNil(), "%s %s has a status", crd.Name, v.Name)
		c.Expect(v.Subresources.Status).NotTo(BeNil(), "%s %s has a status", crd.Name, v.Name)
	}
	properties := c.schemaOf(c.subject.kind).Properties
	c.Expect(properties["spec"].Type).To(Equal("object"))
	c.Expect(properties["status"].Type).To(Equal("object"))
	obj := c.subject.sample("sample")
	obj.SetNamespace(metav1.NamespaceDefault)
	c.Expect(c.env.Client.Create(c.ctx, obj, client.DryRunAll)).To(Succeed())
}

func nameIsCalculated(c *check) {
	for _, kind := range c.subject.resources() {
		c.Expect(c.crd(kind).Name).To(Equal(capicontract.CalculateCRDName(kind.Group, kind.Kind)))
	}
}

// listIsServed lists the objects of a kind.
func listIsServed(of func(subject) schema.GroupVersionKind) rule {
	return func(c *check) {
		kind := of(c.subject)
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		c.Expect(c.env.Client.List(c.ctx, list)).To(Succeed())
		c.Expect(list.GetKind()).To(Equal(kind.Kind + "List"))
		c.Expect(c.env.Scheme.New(kind.GroupVersion().WithKind(kind.Kind+"List"))).Error().NotTo(HaveOccurred(), "CAPT publishes the type of the list")
	}
}

func listIsNamed(of func(subject) schema.GroupVersionKind) rule {
	return func(c *check) {
		kind := of(c.subject)
		crd := c.crd(kind)
		c.Expect(crd.Spec.Names.ListKind).To(Equal(kind.Kind + "List"))
		c.Expect(crd.Status.AcceptedNames.ListKind).To(Equal(kind.Kind + "List"))
	}
}

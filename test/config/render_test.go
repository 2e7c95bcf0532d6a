// Package config tests the manifests of config: they are rendered, accepted by the API
// server, and grant the manager the required permissions.
package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/appthrust/capt/internal/testenv"
)

const (
	namespace      = "capt-system"
	serviceAccount = "capt-controller-manager"
)

var env *testenv.Environment

func TestMain(m *testing.M) {
	os.Exit(testenv.Run(m, &env))
}

// render returns the objects of config/default.
func render(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	objects, err := testenv.Kustomize("config/default")
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return objects
}

// lookup returns the object of a kind and a name.
func lookup(t *testing.T, objects []*unstructured.Unstructured, kind, name string) *unstructured.Unstructured {
	t.Helper()
	for _, obj := range objects {
		if obj.GetKind() == kind && obj.GetName() == name {
			return obj
		}
	}
	t.Fatalf("no %s %s is rendered", kind, name)
	return nil
}

// find returns the object of a kind and a name as its own type.
func find[T any](t *testing.T, objects []*unstructured.Unstructured, kind, name string) *T {
	t.Helper()
	typed := new(T)
	obj := lookup(t, objects, kind, name)
	NewWithT(t).Expect(runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(obj.Object, typed, true)).To(Succeed())
	return typed
}

func manager(t *testing.T, objects []*unstructured.Unstructured) (*appsv1.Deployment, corev1.Container) {
	t.Helper()
	deployment := find[appsv1.Deployment](t, objects, "Deployment", "capt-controller-manager")
	NewWithT(t).Expect(deployment.Spec.Template.Spec.Containers).To(HaveLen(1))
	return deployment, deployment.Spec.Template.Spec.Containers[0]
}

func TestDefault_installsEveryKind(t *testing.T) {
	g := NewWithT(t)
	root, err := testenv.Root()
	g.Expect(err).NotTo(HaveOccurred())
	bases, err := filepath.Glob(filepath.Join(root, "config", "crd", "bases", "*.yaml"))
	g.Expect(err).NotTo(HaveOccurred())

	rendered := 0
	for _, obj := range render(t) {
		if obj.GetKind() == "CustomResourceDefinition" {
			rendered++
		}
	}

	g.Expect(rendered).To(Equal(len(bases)), "config/crd/kustomization.yaml lists every base")
}

func TestDefault_putsEverythingIntoOneNamespace(t *testing.T) {
	for _, obj := range render(t) {
		t.Run(obj.GetKind()+" "+obj.GetName(), func(t *testing.T) {
			g := NewWithT(t)
			g.Expect(obj.GetNamespace()).To(BeElementOf("", namespace))
			g.Expect(obj.GetLabels()).To(HaveKeyWithValue("cluster.x-k8s.io/provider", "infrastructure-capt"))
			switch obj.GetKind() {
			case "CustomResourceDefinition":
			case "Namespace":
				g.Expect(obj.GetName()).To(Equal(namespace))
			default:
				g.Expect(obj.GetName()).To(HavePrefix("capt-"))
			}
		})
	}
}

func TestDefault_probesAndLimitsTheManager(t *testing.T) {
	g := NewWithT(t)
	deployment, container := manager(t, render(t))

	g.Expect(deployment.Spec.Template.Spec.ServiceAccountName).To(Equal(serviceAccount))
	g.Expect(container.Image).To(HavePrefix("ghcr.io/appthrust/capt:"))
	g.Expect(container.Env).To(ContainElement(And(HaveField("Name", "RUNNER_IMAGE"), HaveField("Value", strings.Replace(container.Image, "/capt:", "/capt-runner:", 1)))), "the runner has the manager's version")
	g.Expect(container.Resources.Limits.Cpu().String()).To(Equal("500m"))
	g.Expect(container.Resources.Limits.Memory().String()).To(Equal("512Mi"))
	g.Expect(container.Resources.Requests.Cpu().String()).To(Equal("10m"))
	g.Expect(container.Resources.Requests.Memory().String()).To(Equal("64Mi"))
	for _, p := range []struct {
		probe         *corev1.Probe
		path          string
		delay, period int32
	}{
		{container.LivenessProbe, "/healthz", 15, 20},
		{container.ReadinessProbe, "/readyz", 5, 10},
	} {
		g.Expect(p.probe.HTTPGet.Path).To(Equal(p.path))
		g.Expect(p.probe.HTTPGet.Port.String()).To(Equal("healthz"))
		g.Expect(p.probe.InitialDelaySeconds).To(Equal(p.delay))
		g.Expect(p.probe.PeriodSeconds).To(Equal(p.period))
	}
}

func TestDefault_routesServicesToTheManager(t *testing.T) {
	objects := render(t)
	deployment, container := manager(t, objects)
	for name, port := range map[string]int32{"capt-webhook-service": 9443, "capt-controller-manager-metrics-service": 8443} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			service := find[corev1.Service](t, objects, "Service", name)
			pods := labels.Set(deployment.Spec.Template.Labels)

			g.Expect(labels.SelectorFromSet(service.Spec.Selector).Matches(pods)).To(BeTrue())
			i := slices.IndexFunc(container.Ports, func(p corev1.ContainerPort) bool { return p.Name == service.Spec.Ports[0].TargetPort.String() })
			g.Expect(i).To(BeNumerically(">=", 0))
			g.Expect(container.Ports[i].ContainerPort).To(Equal(port))
		})
	}
}

func TestDefault_securesWebhooksWithCertManager(t *testing.T) {
	g := NewWithT(t)
	objects := render(t)
	deployment, _ := manager(t, objects)
	certificate := lookup(t, objects, "Certificate", "capt-serving-cert")
	issuer := lookup(t, objects, "Issuer", "capt-ca-issuer")

	names, _, err := unstructured.NestedStringSlice(certificate.Object, "spec", "dnsNames")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(names).To(ConsistOf("capt-webhook-service.capt-system.svc", "capt-webhook-service.capt-system.svc.cluster.local",
		"capt-controller-manager-metrics-service.capt-system.svc", "capt-controller-manager-metrics-service.capt-system.svc.cluster.local"))
	ref, _, err := unstructured.NestedString(certificate.Object, "spec", "issuerRef", "name")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(ref).To(Equal(issuer.GetName()))
	secret, _, err := unstructured.NestedString(certificate.Object, "spec", "secretName")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(deployment.Spec.Template.Spec.Volumes).To(ContainElement(HaveField("Secret", HaveField("SecretName", secret))))

	validating := find[admissionv1.ValidatingWebhookConfiguration](t, objects, "ValidatingWebhookConfiguration", "capt-validating-webhook-configuration")
	mutating := find[admissionv1.MutatingWebhookConfiguration](t, objects, "MutatingWebhookConfiguration", "capt-mutating-webhook-configuration")
	for _, annotations := range []map[string]string{validating.Annotations, mutating.Annotations} {
		g.Expect(annotations).To(HaveKeyWithValue("cert-manager.io/inject-ca-from", certificate.GetNamespace()+"/"+certificate.GetName()))
	}
	for _, w := range validating.Webhooks {
		g.Expect(w.ClientConfig.Service).To(And(HaveField("Name", "capt-webhook-service"), HaveField("Namespace", namespace)))
	}
}

// Cluster API owns Clusters. ClusterResourceSets select Clusters by labels only, so CAPT
// labels each Cluster with its name. It writes nothing else of a Cluster.
func TestRole_writesOnlyMetadataOfClusters(t *testing.T) {
	g := NewWithT(t)
	text := testenv.ReadFile(t, "config/rbac/role.yaml")
	var role rbacv1.ClusterRole
	g.Expect(yaml.Unmarshal(text, &role)).To(Succeed())
	read := 0
	for _, rule := range role.Rules {
		for _, group := range rule.APIGroups {
			if group != "cluster.x-k8s.io" {
				continue
			}
			for _, resource := range rule.Resources {
				if resource == "*" || strings.HasPrefix(resource, "clusters") {
					read++
					g.Expect(resource).To(Equal("clusters"), "no subresource")
					g.Expect(rule.Verbs).To(ConsistOf("get", "list", "watch", "patch"))
				}
			}
		}
	}
	g.Expect(read).To(BeNumerically(">", 0))
}

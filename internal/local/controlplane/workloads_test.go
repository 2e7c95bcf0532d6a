package controlplane

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func deployment(namespace, name string, change ...func(*appsv1.Deployment)) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "manager", Image: "example.com/" + name}}},
			},
		},
	}
	for _, c := range change {
		c(d)
	}
	return d
}

func karpenter(d *appsv1.Deployment) {
	d.Labels = map[string]string{"app.kubernetes.io/name": "karpenter"}
}

func replicas(n int32) func(*appsv1.Deployment) {
	return func(d *appsv1.Deployment) { d.Spec.Replicas = new(n) }
}

func environ(variables ...corev1.EnvVar) func(*appsv1.Deployment) {
	return func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Env = variables }
}

func TestWorkloadPrograms_ofKnownDeployments(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		deployments []*appsv1.Deployment
		programs    []string
	}{
		"none":                    {},
		"flux":                    {[]*appsv1.Deployment{deployment("flux-system", "helm-controller"), deployment("flux-system", "source-controller")}, []string{"helm-controller", "source-controller"}},
		"another namespace":       {[]*appsv1.Deployment{deployment("default", "helm-controller")}, nil},
		"another name":            {[]*appsv1.Deployment{deployment("flux-system", "notification-controller")}, nil},
		"scaled to zero":          {[]*appsv1.Deployment{deployment("flux-system", "helm-controller", replicas(0))}, nil},
		"two replicas":            {[]*appsv1.Deployment{deployment("flux-system", "helm-controller", replicas(2))}, []string{"helm-controller"}},
		"karpenter, by its label": {[]*appsv1.Deployment{deployment("nodes", "k", karpenter)}, []string{"karpenter-kwok"}},
		"karpenter twice":         {[]*appsv1.Deployment{deployment("a", "k", karpenter, replicas(0)), deployment("b", "k", karpenter), deployment("c", "k", karpenter)}, []string{"karpenter-kwok"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			l := layout(t.TempDir())
			p, err := l.loadPorts(t.Context())
			g.Expect(err).NotTo(HaveOccurred())
			programs, err := l.workloadPrograms(test.deployments, p)
			g.Expect(err).NotTo(HaveOccurred())
			var names []string
			for _, program := range programs {
				names = append(names, program.Name)
				g.Expect(program.Env).To(ContainElement("KUBECONFIG=" + l.kubeconfig()))
			}
			g.Expect(names).To(Equal(test.programs))
		})
	}
}

func TestWorkloadPrograms_takeOnlyKnownVariables(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	l := layout(t.TempDir())
	p, err := l.loadPorts(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	programs, err := l.workloadPrograms([]*appsv1.Deployment{deployment("nodes", "k", karpenter, environ(
		corev1.EnvVar{Name: "BATCH_IDLE_DURATION", Value: "2s"},
		corev1.EnvVar{Name: "PATH", Value: "/elsewhere"},
		corev1.EnvVar{Name: "KUBECONFIG", Value: "/elsewhere"},
		corev1.EnvVar{Name: "LOG_LEVEL", ValueFrom: &corev1.EnvVarSource{}},
	))}, p)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(programs).To(HaveLen(1))
	g.Expect(programs[0].Env).To(ContainElements("BATCH_IDLE_DURATION=2s", "SYSTEM_NAMESPACE=nodes"))
	g.Expect(programs[0].Env).NotTo(ContainElement(HavePrefix("PATH=")))
	g.Expect(programs[0].Env).NotTo(ContainElement(HavePrefix("LOG_LEVEL=")))
	g.Expect(programs[0].Env).NotTo(ContainElement("KUBECONFIG=/elsewhere"))
}

// createKinds creates the kinds that a workload needs.
func createKinds(t *testing.T, c client.Client, program string) {
	t.Helper()
	for _, w := range workloads {
		if w.program != program {
			continue
		}
		for _, path := range w.needs {
			var group, version, plural string
			_, err := fmt.Sscanf(strings.NewReplacer("/", " ", "?", " ").Replace(path), " apis %s %s %s", &group, &version, &plural)
			if err != nil {
				t.Fatal(err)
			}
			kind := "K" + plural
			crd := &apiextensionsv1.CustomResourceDefinition{
				ObjectMeta: metav1.ObjectMeta{Name: plural + "." + group},
				Spec: apiextensionsv1.CustomResourceDefinitionSpec{
					Group: group, Scope: apiextensionsv1.ClusterScoped,
					Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: plural, Kind: kind},
					Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
						Name: version, Served: true, Storage: true,
						Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object"}},
					}},
				},
			}
			if err := client.IgnoreAlreadyExists(c.Create(t.Context(), crd)); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// standIns returns a directory with the parts, and with scripts in place of the
// workloads' programs. The scripts print their arguments.
func standIns(t *testing.T) string {
	t.Helper()
	bin := t.TempDir()
	for _, part := range []string{Etcd, APIServer} {
		if err := os.Symlink(filepath.Join(assets, part), filepath.Join(bin, part)); err != nil {
			t.Fatal(err)
		}
	}
	text := "#!/bin/sh\necho \"called with $RUNTIME_NAMESPACE$SYSTEM_NAMESPACE $*\"\nexec sleep 600\n"
	for _, w := range workloads {
		if err := os.WriteFile(filepath.Join(bin, w.program), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return bin
}

func TestWorkloads_runWhileTheirDeploymentsWantPods(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	cluster := newCluster(t)
	with := spec(func(s *Spec) { s.BinDir, s.With = standIns(t), []string{Workloads} })
	mustUp(t, cluster, with)
	known := runtime.NewScheme()
	g.Expect(corev1.AddToScheme(known)).To(Succeed())
	g.Expect(appsv1.AddToScheme(known)).To(Succeed())
	g.Expect(apiextensionsv1.AddToScheme(known)).To(Succeed())
	c := connectWith(t, cluster, known)
	g.Expect(c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "flux-system"}})).To(Succeed())
	source, helm := deployment("flux-system", "source-controller"), deployment("flux-system", "helm-controller")
	g.Expect(c.Create(t.Context(), source)).To(Succeed())
	g.Expect(c.Create(t.Context(), helm)).To(Succeed())

	running := func() map[string]PartStatus {
		status, err := cluster.Status(t.Context())
		g.Expect(err).NotTo(HaveOccurred())
		found := map[string]PartStatus{}
		for _, w := range status.Workloads {
			found[w.Name] = w
		}
		return found
	}
	g.Eventually(running).Should(HaveLen(2))
	g.Eventually(func() string { return running()["helm-controller"].Waiting }).Should(ContainSubstring("/helmreleases"), "its kinds do not exist yet")
	g.Expect(running()["helm-controller"].Running).To(BeFalse())
	createKinds(t, c, "source-controller")
	createKinds(t, c, "helm-controller")
	g.Eventually(func(g Gomega) {
		for _, w := range running() {
			g.Expect(w.Running).To(BeTrue(), w.Name)
			g.Expect(w.Restarts).To(BeZero(), w.Name)
		}
	}).Should(Succeed())
	g.Eventually(func() string { return read(t, cluster.Log("source-controller")) }).Should(MatchRegexp(`called with flux-system .*--storage-addr=127.0.0.1:\d+`))

	dead := running()["source-controller"]
	g.Expect(syscall.Kill(dead.PID, syscall.SIGKILL)).To(Succeed())
	g.Eventually(func(g Gomega) {
		now := running()["source-controller"]
		g.Expect(now.Running).To(BeTrue())
		g.Expect(now.PID).NotTo(Equal(dead.PID))
		g.Expect(now.Restarts).To(Equal(1))
	}).Should(Succeed(), "the program is restarted")

	// Neither a restart of the API server nor an irrelevant change of the Deployment
	// restarts a program. It is stopped if the Deployment has no replicas or is
	// deleted.
	before := running()
	g.Expect(syscall.Kill(part(t, cluster, APIServer).PID, syscall.SIGKILL)).To(Succeed())
	mustUp(t, cluster, with)
	g.Eventually(func() error {
		return c.Patch(t.Context(), source, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"replicas":3}}`)))
	}).Should(Succeed())
	g.Expect(c.Patch(t.Context(), helm, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"replicas":0}}`)))).To(Succeed())
	g.Eventually(running).Should(HaveLen(1))
	g.Expect(before["helm-controller"].alive()).To(BeFalse())
	g.Expect(running()["source-controller"]).To(Equal(before["source-controller"]))
	g.Expect(c.Delete(t.Context(), source)).To(Succeed())
	g.Eventually(running).Should(BeEmpty())

	t.Run("and stop with the supervisor", func(t *testing.T) {
		g := NewWithT(t)
		g.Expect(c.Patch(t.Context(), helm, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"replicas":1}}`)))).To(Succeed())
		g.Eventually(func() bool { return running()["helm-controller"].Running }).Should(BeTrue())
		orphan := running()["helm-controller"]
		status, err := cluster.Status(t.Context())
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(syscall.Kill(status.Supervisor.PID, syscall.SIGKILL)).To(Succeed())
		g.Eventually(orphan.alive).Should(BeFalse())
		mustUp(t, cluster, with)
		g.Eventually(func() bool { return running()["helm-controller"].Running }).Should(BeTrue())
		last := running()["helm-controller"]
		g.Expect(cluster.Stop(t.Context())).To(Succeed())
		g.Expect(last.alive()).To(BeFalse())
		g.Eventually(running).Should(BeEmpty())
	})
}

package captmachinetemplate_test

import (
	"os"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/controllers/captmachinetemplate"
	"github.com/appthrust/capt/internal/testenv"
)

var env *testenv.Environment

func TestMain(m *testing.M) { os.Exit(testenv.Run(m, &env)) }

func TestReconciler_keepsTheCapacityOfUnknownInstanceTypes(t *testing.T) {
	g := NewWithT(t)
	template := &infrav1.CAPTMachineTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace(t), Name: "gpu"}}
	template.Spec.Template.Spec = infrav1.CAPTMachineSpec{WorkspaceTemplateRef: infrav1.TemplateReference{Name: "node"}, InstanceType: "p5.48xlarge"}
	g.Expect(env.Client.Create(t.Context(), template)).To(Succeed())
	template.Status.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("192")}
	g.Expect(env.Client.Status().Update(t.Context(), template)).To(Succeed())
	manager, err := env.ManagerAccount()
	g.Expect(err).NotTo(HaveOccurred())
	_, err = (&captmachinetemplate.Reconciler{Client: manager.Client}).Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(template)})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(env.Client.Get(t.Context(), client.ObjectKeyFromObject(template), template)).To(Succeed())
	g.Expect(template.Status.Capacity.Cpu().Value()).To(BeEquivalentTo(192), "another tool wrote it")
}

func TestReconciler_reportsCapacityOfKnownInstanceTypes(t *testing.T) {
	manager, err := env.ManagerAccount()
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	namespace := env.Namespace(t)
	for name, c := range map[string]struct{ instanceType, filter, cpu, memory string }{
		"known":        {"m7g.xlarge", "", "4", "16Gi"},
		"unknown":      {"p5.48xlarge", "", "0", "0"},
		"without-type": {"", "", "0", "0"},
		"filtered":     {"m7g.xlarge", "other", "0", "0"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			template := &infrav1.CAPTMachineTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
			template.Spec.Template.Spec = infrav1.CAPTMachineSpec{WorkspaceTemplateRef: infrav1.TemplateReference{Name: "node"}, InstanceType: c.instanceType}
			g.Expect(env.Client.Create(t.Context(), template)).To(Succeed())
			r := &captmachinetemplate.Reconciler{Client: manager.Client, WatchFilter: c.filter}
			var version string
			for range 2 {
				g.Expect(r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(template)})).Error().NotTo(HaveOccurred())
				g.Expect(env.Client.Get(t.Context(), client.ObjectKeyFromObject(template), template)).To(Succeed())
				g.Expect(template.Status.Capacity.Cpu().String()).To(Equal(c.cpu))
				g.Expect(template.Status.Capacity.Memory().String()).To(Equal(c.memory))
				if version != "" {
					g.Expect(template.ResourceVersion).To(Equal(version), "nothing changed")
				}
				version = template.ResourceVersion
			}
		})
	}
}

package e2e

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/local/controlplane"
	"github.com/appthrust/capt/internal/local/environment"
)

// Every removal and failure is reported, and is repaired without a user,
// or with the one act that the message names.
func TestFaults_areToldOfAndMended(t *testing.T) {
	w := newHarness(t, "faults")
	w.install(flux, w.impatient)
	w.install(karpenter, w.impatient)
	w.install(nodePool, w.impatient)
	w.install(third, w.impatient)
	w.create("v1.36.0")
	w.comesUp()
	w.getsNodes()
	for _, fault := range []struct {
		name string
		run  func(*harness)
	}{
		{"the copied connection Secret is deleted and edited", (*harness).copyIsTouched},
		{"the connection Secret is deleted", (*harness).connectionIsDeleted},
		{"a Deployment of Flux is deleted", (*harness).fluxIsDeleted},
		{"the HelmRelease is deleted", (*harness).releaseIsDeleted},
		{"the kinds of Flux are deleted", (*harness).kindsAreDeleted},
		{"the chart does not exist", (*harness).chartIsMissing},
		{"the release is stalled", (*harness).releaseIsStalled},
		{"an output has the wrong name", (*harness).keyIsWrong},
		{"Cluster API is killed during an install", (*harness).clusterAPIDies},
		{"the manager is killed during a removal", (*harness).managerDiesRemoving},
		{"the manager is killed during an install", (*harness).managerDiesInstalling},
		{"the manager is killed before it prunes", (*harness).managerDiesPruning},
		{"an add-on is deleted", (*harness).addonsAreDeleted},
		{"the API server is down", (*harness).serverIsDown},
		{"Karpenter is removed while it has nodes", (*harness).karpenterGoes},
	} {
		passed := t.Run(fault.name, func(t *testing.T) {
			sub := *w
			sub.WithT, sub.t, sub.ctx = NewWithT(t), t, t.Context()
			sub.SetDefaultEventuallyTimeout(testTimeout)
			sub.SetDefaultEventuallyPollingInterval(look)
			began := time.Now()
			fault.run(&sub)
			sub.ready(flux, karpenter, nodePool)
			sub.say("== took %.1fs", time.Since(began).Seconds())
			w.uid = sub.uid
		})
		if !passed && t.Context().Err() != nil {
			return
		}
	}
}

// impatient has an add-on tried again sooner than by default.
func (w *harness) impatient(obj *unstructured.Unstructured) {
	set(w, obj, map[string]any{"minBackoff": "2s", "maxBackoff": "10s"}, "spec", "retry")
}

// object reads an object of the cluster, which may be gone.
func object[T client.Object](w *harness, namespace, name string, obj T) T {
	w.t.Helper()
	err := w.workload.Get(w.ctx, client.ObjectKey{Namespace: namespace, Name: name}, obj)
	if err != nil {
		w.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%v", err)
	}
	return obj
}

// returns waits until another object of the same name is there.
func (w *harness) returns(what string, before types.UID, uid func() types.UID) {
	w.t.Helper()
	began := time.Now()
	w.Eventually(uid, testTimeout, moment).ShouldNot(Or(BeEmpty(), Equal(before)), "%s returns", what)
	w.say("%s is back after %.1fs", what, time.Since(began).Seconds())
}

// survived reports whether Karpenter's Deployment is still the same. Its nodes and
// their pods are, for they do not belong to the release.
func (w *harness) survived(claims []string) {
	w.t.Helper()
	w.Expect(w.claimNames()).To(Equal(claims), "the nodes stay")
	if now := string(w.deployment().UID); now != w.uid {
		w.say("Karpenter's Deployment is a new one")
		w.uid = now
		return
	}
	w.say("Karpenter's Deployment is the same")
}

// claimNames are the names of Karpenter's nodes.
func (w *harness) claimNames() []string {
	w.t.Helper()
	var names []string
	for _, claim := range w.claims() {
		names = append(names, claim.Name)
	}
	w.Expect(names).NotTo(BeEmpty())
	return names
}

func (w *harness) copyIsTouched() {
	read := func() *corev1.Secret { return object(w, karpenter, "karpenter-connection", &corev1.Secret{}) }
	before := read()
	w.Expect(before.Data).To(HaveKey("karpenter_queue_name"))
	w.Expect(w.workload.Delete(w.ctx, before.DeepCopy())).To(Succeed())
	w.returns("The copied Secret", before.UID, func() types.UID { return read().UID })
	w.ready(karpenter)

	edited := read()
	edited.Data["karpenter_queue_name"] = []byte("edited")
	w.Expect(w.workload.Update(w.ctx, edited)).To(Succeed())
	began := time.Now()
	w.Eventually(func() map[string][]byte { return read().Data }, testTimeout, moment).Should(Equal(before.Data), "it is what it was")
	w.say("The edited Secret is repaired after %.1fs", time.Since(began).Seconds())
	w.ready(karpenter)
	w.Eventually(w.queue).Should(Equal(string(before.Data["karpenter_queue_name"])))
	w.Expect(string(w.deployment().UID)).To(Equal(w.uid))
}

func (w *harness) connectionIsDeleted() {
	name := w.name + "-eks-connection"
	before := get(w, name, &corev1.Secret{})
	w.Expect(w.client.Delete(w.ctx, before.DeepCopy())).To(Succeed())
	w.returns("The connection Secret", before.UID, func() types.UID {
		now := &corev1.Secret{}
		if err := w.client.Get(w.ctx, client.ObjectKeyFromObject(before), now); err != nil {
			return ""
		}
		return now.UID
	})
	w.Expect(get(w, name, &corev1.Secret{}).Data).To(Equal(before.Data))
	w.ready(karpenter)
	w.Expect(string(w.deployment().UID)).To(Equal(w.uid))
}

func (w *harness) fluxIsDeleted() {
	read := func() *appsv1.Deployment { return object(w, "flux-system", "helm-controller", &appsv1.Deployment{}) }
	before := read()
	w.Expect(w.workload.Delete(w.ctx, before.DeepCopy())).To(Succeed())
	w.returns("The Deployment of Flux", before.UID, func() types.UID { return read().UID })
	w.ready(flux, karpenter)
	w.Expect(string(w.deployment().UID)).To(Equal(w.uid))
}

func (w *harness) releaseIsDeleted() {
	before, claims := w.release(karpenter, karpenter), w.claimNames()
	w.Expect(w.workload.Delete(w.ctx, before.DeepCopy())).To(Succeed())
	w.returns("The HelmRelease", before.GetUID(), func() types.UID { return w.release(karpenter, karpenter).GetUID() })
	w.ready(karpenter)
	w.survived(claims)
}

func (w *harness) kindsAreDeleted() {
	names := []string{"helmreleases.helm.toolkit.fluxcd.io", "ocirepositories.source.toolkit.fluxcd.io"}
	kind := func(name string) *unstructured.Unstructured {
		crd := &unstructured.Unstructured{}
		crd.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
		return object(w, "", name, crd)
	}
	release, claims := w.release(karpenter, karpenter), w.claimNames()
	before := map[string]types.UID{}
	for _, name := range names {
		crd := kind(name)
		before[name] = crd.GetUID()
		w.Expect(w.workload.Delete(w.ctx, crd)).To(Succeed())
	}
	for _, name := range names {
		w.returns(name, before[name], func() types.UID { return kind(name).GetUID() })
	}
	w.ready(flux)
	w.returns("The HelmRelease", release.GetUID(), func() types.UID {
		hr := &unstructured.Unstructured{}
		hr.SetGroupVersionKind(helmReleases)
		if err := w.workload.Get(w.ctx, client.ObjectKey{Namespace: karpenter, Name: karpenter}, hr); err != nil {
			return ""
		}
		return hr.GetUID()
	})
	w.ready(karpenter)
	w.survived(claims)
}

func (w *harness) chartIsMissing() {
	w.addon(karpenter, func(a *addonsv1.CAPTAddon) { a.Spec.Helm.Chart.Version = "1.14.9" })
	w.waitAddon(karpenter, And(Not(HavePrefix(clusterv1.ReadyReason)), ContainSubstring("1.14.9"), ContainSubstring("MANIFEST_UNKNOWN")))
	w.say("%s", w.addonStatus(karpenter))
	w.addon(karpenter, func(a *addonsv1.CAPTAddon) { a.Spec.Helm.Chart.Version = "1.14.1" })
	w.ready(karpenter)
	w.Expect(string(w.deployment().UID)).To(Equal(w.uid))
}

// freeze has the cluster refuse what the test changes of Karpenter's Deployment.
func (w *harness) freeze() (thaw func()) {
	w.t.Helper()
	policy := &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "frozen"},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			FailurePolicy: new(admissionv1.Fail),
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{
				RuleWithOperations: admissionv1.RuleWithOperations{
					Operations: []admissionv1.OperationType{admissionv1.Update},
					Rule:       admissionv1.Rule{APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"deployments"}},
				},
			}}, NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: karpenter}}},
			Validations: []admissionv1.Validation{{Expression: "!object.spec.template.spec.containers[0].env.exists(e, e.name == 'LOG_LEVEL' && e.value == 'debug')", Message: "deployments are frozen over the holidays"}},
		},
	}
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "frozen"},
		Spec:       admissionv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: "frozen", ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny}},
	}
	w.Expect(w.workload.Create(w.ctx, policy)).To(Succeed())
	w.Expect(w.workload.Create(w.ctx, binding)).To(Succeed())
	try := func() error {
		d := w.deployment()
		d.Spec.Template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "LOG_LEVEL", Value: "debug"}}
		return w.workload.Update(w.ctx, d, client.DryRunAll)
	}
	w.Eventually(try).Should(MatchError(ContainSubstring("holidays")), "the policy works")
	return func() {
		w.Expect(w.workload.Delete(w.ctx, binding)).To(Succeed())
		w.Expect(w.workload.Delete(w.ctx, policy)).To(Succeed())
		w.Eventually(try).Should(Succeed(), "the policy is gone")
	}
}

func (w *harness) releaseIsStalled() {
	thaw := w.freeze()
	w.addon(karpenter, func(a *addonsv1.CAPTAddon) {
		a.Spec.Retry = &infrav1.RetryPolicy{Limit: new(int32(0))}
		a.Spec.Helm.Values = &infrav1.Value{Raw: []byte(`{"logLevel":"debug"}`)}
	})
	w.waitAddon(karpenter, And(HavePrefix(addonsv1.ReleaseStalledReason), ContainSubstring("holidays"), ContainSubstring(addonsv1.TriggerAnnotation)))
	w.say("%s", w.addonStatus(karpenter))
	thaw()
	w.trigger(karpenter, "after the holidays")
	w.ready(karpenter)
	w.Expect(string(w.deployment().UID)).To(Equal(w.uid))
	w.addon(karpenter, func(a *addonsv1.CAPTAddon) { a.Spec.Retry = nil })
}

func (w *harness) keyIsWrong() {
	rename := func(to string) {
		w.addon(karpenter, func(a *addonsv1.CAPTAddon) {
			for i := range a.Spec.Helm.ValuesFrom {
				if a.Spec.Helm.ValuesFrom[i].TargetPath == "settings.interruptionQueue" {
					a.Spec.Helm.ValuesFrom[i].ValuesKey = to
				}
			}
		})
	}
	rename("karpenter_queue_nmae")
	w.waitAddon(karpenter, And(HavePrefix(addonsv1.MissingKeyReason+" Add-on karpenter: helm.valuesFrom[2]"), HaveSuffix("did you mean karpenter_queue_name?")))
	w.say("%s", w.addonStatus(karpenter))
	rename("karpenter_queue_name")
	w.ready(karpenter)

	wrong := get(w, karpenter, &addonsv1.CAPTAddon{})
	wrong.Spec.Helm.ValuesFrom[2].TargetPath = "settings.interruptionQueue["
	err := w.client.Update(w.ctx, wrong)
	w.Expect(err).To(MatchError(ContainSubstring("targetPath")), "a path that cannot be read is refused at the door")
	w.say("%v", err)
	w.Expect(string(w.deployment().UID)).To(Equal(w.uid))
}

// labelled gives the cluster the third add-on's label, or takes it.
func (w *harness) labelled(with bool) {
	w.t.Helper()
	w.cluster(func(c *clusterv1.Cluster) {
		delete(c.Labels, "elbv2.k8s.aws/enabled")
		if with {
			c.Labels["elbv2.k8s.aws/enabled"] = "true"
		}
	})
}

func (w *harness) clusterAPIDies() {
	w.labelled(true)
	w.Eventually(func() []string { return w.rendered(third) }, testTimeout, moment).ShouldNot(BeEmpty(), "the install has begun")
	w.kill(environment.ClusterAPI)
	w.ready(third)
}

func (w *harness) managerDiesRemoving() {
	w.labelled(false)
	w.Eventually(func() string { return w.addonStatus(third) }, testTimeout, moment).Should(HavePrefix(addonsv1.RemovingReason), "the removal has begun")
	w.kill(environment.Manager)
	w.Eventually(func() string { return w.addonStatus(third) }).Should(Equal("absent"), "the removal continues")
	w.Expect(w.release("kube-system", third).GetName()).To(BeEmpty())
	w.Expect(object(w, "kube-system", third, &appsv1.Deployment{}).Name).To(BeEmpty())
	w.Eventually(func() []string { return w.rendered(third) }).Should(BeEmpty())
}

func (w *harness) managerDiesInstalling() {
	for _, moment := range []struct {
		name string
		come func() bool
	}{
		{"the content is rendered", func() bool { return len(w.rendered(third)) > 0 }},
		{"the HelmRelease is there", func() bool { return w.release("kube-system", third).GetName() != "" }},
		{"the Deployment is there", func() bool { return object(w, "kube-system", third, &appsv1.Deployment{}).Name != "" }},
	} {
		w.labelled(false)
		w.Eventually(func() string { return w.addonStatus(third) }).Should(Equal("absent"))
		w.labelled(true)
		w.Eventually(moment.come, testTimeout, look/5).Should(BeTrue(), "%s", moment.name)
		w.kill(environment.Manager)
		w.say("Killed when %s", moment.name)
		w.ready(third)
	}
}

// small is an add-on of ConfigMaps.
func small(name string, policy addonsv1.DeletionPolicy, maps ...string) *addonsv1.CAPTAddon {
	return &addonsv1.CAPTAddon{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: environment.Namespace},
		Spec: addonsv1.CAPTAddonSpec{
			ClusterSelector: metav1.LabelSelector{MatchLabels: map[string]string{"fluxcd.io/enabled": "true"}},
			Manifests:       []addonsv1.ManifestSource{{Name: "all", Inline: configMaps(maps...)}},
			DeletionPolicy:  policy,
		},
	}
}

func configMaps(names ...string) string {
	var text strings.Builder
	for _, name := range names {
		fmt.Fprintf(&text, "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s, namespace: default}\ndata: {cluster: \"${CLUSTER_NAME}\"}\n", name)
	}
	return text.String()
}

// managerDiesPruning drops an object while the new content is not ready, and
// kills the manager, which has nothing in memory of it then.
func (w *harness) managerDiesPruning() {
	const name = "pruned"
	w.Expect(w.client.Create(w.ctx, small(name, addonsv1.DeletionPolicyRemove, "kept", "dropped"))).To(Succeed())
	w.ready(name)
	missing := addonsv1.ReadinessCheck{APIVersion: "v1", Kind: "ConfigMap", Namespace: "default", Name: "late"}
	w.addon(name, func(a *addonsv1.CAPTAddon) {
		a.Spec.Manifests[0].Inline, a.Spec.Readiness = configMaps("kept"), []addonsv1.ReadinessCheck{missing}
	})
	w.waitAddon(name, HavePrefix(addonsv1.NotReadyReason))
	w.Expect(object(w, "default", "dropped", &corev1.ConfigMap{}).UID).NotTo(BeEmpty(), "it goes once the new content is ready")
	w.kill(environment.Manager)
	w.Expect(w.workload.Create(w.ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "late", Namespace: "default"}})).To(Succeed())
	w.Eventually(func() types.UID { return object(w, "default", "dropped", &corev1.ConfigMap{}).UID }).Should(BeEmpty(), "it is pruned")
	w.ready(name)
	w.Expect(object(w, "default", "kept", &corev1.ConfigMap{}).UID).NotTo(BeEmpty())
	w.Expect(w.client.Delete(w.ctx, get(w, name, &addonsv1.CAPTAddon{}))).To(Succeed())
}

func (w *harness) addonsAreDeleted() {
	stays, goes := small("stays", addonsv1.DeletionPolicyLeave, "stays"), small("goes", addonsv1.DeletionPolicyRemove, "goes")
	w.Expect(w.client.Create(w.ctx, stays)).To(Succeed())
	w.Expect(w.client.Create(w.ctx, goes)).To(Succeed())
	w.ready("stays", "goes")
	chart := get(w, third, &addonsv1.CAPTAddon{})
	for _, addon := range []*addonsv1.CAPTAddon{stays, goes, chart} {
		w.Expect(w.client.Delete(w.ctx, addon)).To(Succeed())
	}
	for _, addon := range []*addonsv1.CAPTAddon{stays, goes, chart} {
		w.Eventually(func() bool {
			return apierrors.IsNotFound(w.client.Get(w.ctx, client.ObjectKeyFromObject(addon), &addonsv1.CAPTAddon{}))
		}).Should(BeTrue(), "%s goes", addon.Name)
		w.Eventually(func() []string { return w.rendered(addon.Name) }).Should(BeEmpty(), "%s leaves nothing in the management cluster", addon.Name)
	}
	w.Expect(object(w, "default", "stays", &corev1.ConfigMap{}).Data).To(HaveKeyWithValue("cluster", w.name), "policy Leave")
	w.Expect(object(w, "default", "goes", &corev1.ConfigMap{}).Name).To(BeEmpty(), "policy Remove")
	w.Expect(object(w, "kube-system", third, &appsv1.Deployment{}).Name).To(BeEmpty(), "policy Remove of a release")
}

// serverIsDown stops the API server for longer than anybody waits, then ends it:
// the local cluster starts it again.
func (w *harness) serverIsDown() {
	server := w.process(controlplane.APIServer)
	w.Expect(syscall.Kill(server, syscall.SIGSTOP)).To(Succeed())
	began := time.Now()
	for _, addon := range []string{flux, karpenter} {
		w.waitAddon(addon, HavePrefix(addonsv1.WaitingForControlPlaneReason+" Workload cluster has been unreachable since "))
		w.say("After %.1fs %s: %s", time.Since(began).Seconds(), addon, w.addonStatus(addon))
	}
	// By then nodes and pods count as lost.
	w.waitAddon(flux, Equal(addonsv1.WaitingForControlPlaneReason+" Workload cluster is unreachable"))
	w.say("After %.1fs %s: %s", time.Since(began).Seconds(), flux, w.addonStatus(flux))
	w.Expect(syscall.Kill(server, syscall.SIGKILL)).To(Succeed())
	began = time.Now()
	w.ready(flux, karpenter, nodePool)
	w.say("Ready again %.1fs after the API server was ended", time.Since(began).Seconds())
	w.Expect(string(w.deployment().UID)).To(Equal(w.uid))
}

// karpenterGoes takes the label that Karpenter and its node pool are installed
// by, and gives it back.
func (w *harness) karpenterGoes() {
	w.Expect(w.claims()).NotTo(BeEmpty(), "there are nodes to go")
	w.cluster(func(c *clusterv1.Cluster) { delete(c.Labels, "karpenter.sh/enabled") })
	began := time.Now()
	for _, addon := range []string{nodePool, karpenter} {
		w.Eventually(func() string { return w.addonStatus(addon) }, testTimeout, moment).Should(Equal("absent"), "%s goes", addon)
		w.say("%s is gone after %.1fs", addon, time.Since(began).Seconds())
		w.Expect(w.claims()).To(BeEmpty(), "Karpenter ends its nodes before it goes itself")
	}
	w.Expect(w.release(karpenter, karpenter).GetName()).To(BeEmpty())
	w.Expect(object(w, karpenter, karpenter, &appsv1.Deployment{}).Name).To(BeEmpty())
	w.Eventually(func() string { return object(w, "", karpenter, &corev1.Namespace{}).Name }).Should(BeEmpty(), "its namespace goes")
	w.cluster(func(c *clusterv1.Cluster) { c.Labels["karpenter.sh/enabled"] = "true" })
	w.ready(karpenter, nodePool)
	w.Eventually(func() []metav1.PartialObjectMetadata { return w.claims() }).ShouldNot(BeEmpty(), "pods get nodes again")
}

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

// Every removal and failure is reported, and is repaired without a user, or with the
// one action that the message names.
func TestFaults_areReportedAndRepaired(t *testing.T) {
	h := newHarness(t, "faults")
	h.install(flux, h.withShortBackoff)
	h.install(karpenter, h.withShortBackoff)
	h.install(nodePool, h.withShortBackoff)
	h.install(third, h.withShortBackoff)
	h.create("v1.36.0")
	h.waitUntilReady()
	h.getsNodes()
	for _, fault := range []struct {
		name string
		run  func(*harness)
	}{
		{"the copied connection Secret is deleted and edited", (*harness).copyIsChanged},
		{"the connection Secret is deleted", (*harness).connectionIsDeleted},
		{"a Deployment of Flux is deleted", (*harness).fluxIsDeleted},
		{"the HelmRelease is deleted", (*harness).releaseIsDeleted},
		{"the kinds of Flux are deleted", (*harness).kindsAreDeleted},
		{"the chart does not exist", (*harness).chartIsMissing},
		{"the release is stalled", (*harness).releaseIsStalled},
		{"an output has the wrong name", (*harness).keyIsWrong},
		{"Cluster API is killed during an install", (*harness).clusterAPIKilled},
		{"the manager is killed during a removal", (*harness).managerKilledWhileRemoving},
		{"the manager is killed during an install", (*harness).managerKilledWhileInstalling},
		{"the manager is killed before it prunes", (*harness).managerKilledWhilePruning},
		{"an add-on is deleted", (*harness).addonsAreDeleted},
		{"the API server is down", (*harness).serverIsDown},
		{"Karpenter is removed while it has nodes", (*harness).removesKarpenter},
	} {
		passed := t.Run(fault.name, func(t *testing.T) {
			sub := *h
			sub.WithT, sub.t, sub.ctx = NewWithT(t), t, t.Context()
			sub.SetDefaultEventuallyTimeout(testTimeout)
			sub.SetDefaultEventuallyPollingInterval(pollInterval)
			began := time.Now()
			fault.run(&sub)
			sub.ready(flux, karpenter, nodePool)
			sub.logf("== took %.1fs", time.Since(began).Seconds())
			h.uid = sub.uid
		})
		if !passed && t.Context().Err() != nil {
			return
		}
	}
}

// withShortBackoff makes retries of an add-on faster than the default.
func (h *harness) withShortBackoff(obj *unstructured.Unstructured) {
	set(h, obj, map[string]any{"minBackoff": "2s", "maxBackoff": "10s"}, "spec", "retry")
}

// object returns an object of the cluster, or an empty one if it does not exist.
func object[T client.Object](h *harness, namespace, name string, obj T) T {
	h.t.Helper()
	err := h.workload.Get(h.ctx, client.ObjectKey{Namespace: namespace, Name: name}, obj)
	if err != nil {
		h.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%v", err)
	}
	return obj
}

// waitRecreated waits until another object with the same name exists.
func (h *harness) waitRecreated(what string, before types.UID, uid func() types.UID) {
	h.t.Helper()
	began := time.Now()
	h.Eventually(uid, testTimeout, measureInterval).ShouldNot(Or(BeEmpty(), Equal(before)), "%s is recreated", what)
	h.logf("%s is recreated after %.1fs", what, time.Since(began).Seconds())
}

// survived checks that Karpenter's nodes are the same, because they do not belong to
// the release, and logs whether its Deployment was replaced.
func (h *harness) survived(claims []string) {
	h.t.Helper()
	h.Expect(h.claimNames()).To(Equal(claims), "the nodes stay")
	if now := string(h.deployment().UID); now != h.uid {
		h.logf("Karpenter's Deployment is a new one")
		h.uid = now
		return
	}
	h.logf("Karpenter's Deployment is the same")
}

// claimNames returns the names of Karpenter's NodeClaims.
func (h *harness) claimNames() []string {
	h.t.Helper()
	var names []string
	for _, claim := range h.claims() {
		names = append(names, claim.Name)
	}
	h.Expect(names).NotTo(BeEmpty())
	return names
}

func (h *harness) copyIsChanged() {
	read := func() *corev1.Secret { return object(h, karpenter, "karpenter-connection", &corev1.Secret{}) }
	before := read()
	h.Expect(before.Data).To(HaveKey("karpenter_queue_name"))
	h.Expect(h.workload.Delete(h.ctx, before.DeepCopy())).To(Succeed())
	h.waitRecreated("The copied Secret", before.UID, func() types.UID { return read().UID })
	h.ready(karpenter)

	edited := read()
	edited.Data["karpenter_queue_name"] = []byte("edited")
	h.Expect(h.workload.Update(h.ctx, edited)).To(Succeed())
	began := time.Now()
	h.Eventually(func() map[string][]byte { return read().Data }, testTimeout, measureInterval).Should(Equal(before.Data), "it is restored")
	h.logf("The edited Secret is repaired after %.1fs", time.Since(began).Seconds())
	h.ready(karpenter)
	h.Eventually(h.queue).Should(Equal(string(before.Data["karpenter_queue_name"])))
	h.Expect(string(h.deployment().UID)).To(Equal(h.uid))
}

func (h *harness) connectionIsDeleted() {
	name := h.name + "-eks-connection"
	before := get(h, name, &corev1.Secret{})
	h.Expect(h.client.Delete(h.ctx, before.DeepCopy())).To(Succeed())
	h.waitRecreated("The connection Secret", before.UID, func() types.UID {
		now := &corev1.Secret{}
		if err := h.client.Get(h.ctx, client.ObjectKeyFromObject(before), now); err != nil {
			return ""
		}
		return now.UID
	})
	h.Expect(get(h, name, &corev1.Secret{}).Data).To(Equal(before.Data))
	h.ready(karpenter)
	h.Expect(string(h.deployment().UID)).To(Equal(h.uid))
}

func (h *harness) fluxIsDeleted() {
	read := func() *appsv1.Deployment { return object(h, "flux-system", "helm-controller", &appsv1.Deployment{}) }
	before := read()
	h.Expect(h.workload.Delete(h.ctx, before.DeepCopy())).To(Succeed())
	h.waitRecreated("The Deployment of Flux", before.UID, func() types.UID { return read().UID })
	h.ready(flux, karpenter)
	h.Expect(string(h.deployment().UID)).To(Equal(h.uid))
}

func (h *harness) releaseIsDeleted() {
	before, claims := h.release(karpenter, karpenter), h.claimNames()
	h.Expect(h.workload.Delete(h.ctx, before.DeepCopy())).To(Succeed())
	h.waitRecreated("The HelmRelease", before.GetUID(), func() types.UID { return h.release(karpenter, karpenter).GetUID() })
	h.ready(karpenter)
	h.survived(claims)
}

func (h *harness) kindsAreDeleted() {
	names := []string{"helmreleases.helm.toolkit.fluxcd.io", "ocirepositories.source.toolkit.fluxcd.io"}
	kind := func(name string) *unstructured.Unstructured {
		crd := &unstructured.Unstructured{}
		crd.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
		return object(h, "", name, crd)
	}
	release, claims := h.release(karpenter, karpenter), h.claimNames()
	before := map[string]types.UID{}
	for _, name := range names {
		crd := kind(name)
		before[name] = crd.GetUID()
		h.Expect(h.workload.Delete(h.ctx, crd)).To(Succeed())
	}
	for _, name := range names {
		h.waitRecreated(name, before[name], func() types.UID { return kind(name).GetUID() })
	}
	h.ready(flux)
	h.waitRecreated("The HelmRelease", release.GetUID(), func() types.UID {
		hr := &unstructured.Unstructured{}
		hr.SetGroupVersionKind(helmReleases)
		if err := h.workload.Get(h.ctx, client.ObjectKey{Namespace: karpenter, Name: karpenter}, hr); err != nil {
			return ""
		}
		return hr.GetUID()
	})
	h.ready(karpenter)
	h.survived(claims)
}

func (h *harness) chartIsMissing() {
	h.addon(karpenter, func(a *addonsv1.CAPTAddon) { a.Spec.Helm.Chart.Version = "1.14.9" })
	h.waitAddon(karpenter, And(Not(HavePrefix(clusterv1.ReadyReason)), ContainSubstring("1.14.9"), ContainSubstring("MANIFEST_UNKNOWN")))
	h.logf("%s", h.addonStatus(karpenter))
	h.addon(karpenter, func(a *addonsv1.CAPTAddon) { a.Spec.Helm.Chart.Version = "1.14.1" })
	h.ready(karpenter)
	h.Expect(string(h.deployment().UID)).To(Equal(h.uid))
}

// rejectUpdates makes the cluster reject updates of Karpenter's Deployment, until allow
// is called.
func (h *harness) rejectUpdates() (allow func()) {
	h.t.Helper()
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
	h.Expect(h.workload.Create(h.ctx, policy)).To(Succeed())
	h.Expect(h.workload.Create(h.ctx, binding)).To(Succeed())
	try := func() error {
		d := h.deployment()
		d.Spec.Template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "LOG_LEVEL", Value: "debug"}}
		return h.workload.Update(h.ctx, d, client.DryRunAll)
	}
	h.Eventually(try).Should(MatchError(ContainSubstring("holidays")), "the policy works")
	return func() {
		h.Expect(h.workload.Delete(h.ctx, binding)).To(Succeed())
		h.Expect(h.workload.Delete(h.ctx, policy)).To(Succeed())
		h.Eventually(try).Should(Succeed(), "the policy is deleted")
	}
}

func (h *harness) releaseIsStalled() {
	allow := h.rejectUpdates()
	h.addon(karpenter, func(a *addonsv1.CAPTAddon) {
		a.Spec.Retry = &infrav1.RetryPolicy{Limit: new(int32(0))}
		a.Spec.Helm.Values = &infrav1.Value{Raw: []byte(`{"logLevel":"debug"}`)}
	})
	h.waitAddon(karpenter, And(HavePrefix(addonsv1.ReleaseStalledReason), ContainSubstring("holidays"), ContainSubstring(addonsv1.TriggerAnnotation)))
	h.logf("%s", h.addonStatus(karpenter))
	allow()
	h.trigger(karpenter, "after the holidays")
	h.ready(karpenter)
	h.Expect(string(h.deployment().UID)).To(Equal(h.uid))
	h.addon(karpenter, func(a *addonsv1.CAPTAddon) { a.Spec.Retry = nil })
}

func (h *harness) keyIsWrong() {
	rename := func(to string) {
		h.addon(karpenter, func(a *addonsv1.CAPTAddon) {
			for i := range a.Spec.Helm.ValuesFrom {
				if a.Spec.Helm.ValuesFrom[i].TargetPath == "settings.interruptionQueue" {
					a.Spec.Helm.ValuesFrom[i].ValuesKey = to
				}
			}
		})
	}
	rename("karpenter_queue_nmae")
	h.waitAddon(karpenter, And(HavePrefix(addonsv1.MissingKeyReason+" Add-on karpenter: helm.valuesFrom[2]"), HaveSuffix("did you mean karpenter_queue_name?")))
	h.logf("%s", h.addonStatus(karpenter))
	rename("karpenter_queue_name")
	h.ready(karpenter)

	wrong := get(h, karpenter, &addonsv1.CAPTAddon{})
	wrong.Spec.Helm.ValuesFrom[2].TargetPath = "settings.interruptionQueue["
	err := h.client.Update(h.ctx, wrong)
	h.Expect(err).To(MatchError(ContainSubstring("targetPath")), "an invalid path is rejected at admission")
	h.logf("%v", err)
	h.Expect(string(h.deployment().UID)).To(Equal(h.uid))
}

// setLabel adds the label of the third add-on to the cluster, or removes it.
func (h *harness) setLabel(with bool) {
	h.t.Helper()
	h.cluster(func(c *clusterv1.Cluster) {
		delete(c.Labels, "elbv2.k8s.aws/enabled")
		if with {
			c.Labels["elbv2.k8s.aws/enabled"] = "true"
		}
	})
}

func (h *harness) clusterAPIKilled() {
	h.setLabel(true)
	h.Eventually(func() []string { return h.rendered(third) }, testTimeout, measureInterval).ShouldNot(BeEmpty(), "the install has begun")
	h.kill(environment.ClusterAPI)
	h.ready(third)
}

func (h *harness) managerKilledWhileRemoving() {
	h.setLabel(false)
	h.Eventually(func() string { return h.addonStatus(third) }, testTimeout, measureInterval).Should(HavePrefix(addonsv1.RemovingReason), "the removal has begun")
	h.kill(environment.Manager)
	h.Eventually(func() string { return h.addonStatus(third) }).Should(Equal("absent"), "the removal continues")
	h.Expect(h.release("kube-system", third).GetName()).To(BeEmpty())
	h.Expect(object(h, "kube-system", third, &appsv1.Deployment{}).Name).To(BeEmpty())
	h.Eventually(func() []string { return h.rendered(third) }).Should(BeEmpty())
}

func (h *harness) managerKilledWhileInstalling() {
	for _, stage := range []struct {
		name    string
		reached func() bool
	}{
		{"the content is rendered", func() bool { return len(h.rendered(third)) > 0 }},
		{"the HelmRelease exists", func() bool { return h.release("kube-system", third).GetName() != "" }},
		{"the Deployment exists", func() bool { return object(h, "kube-system", third, &appsv1.Deployment{}).Name != "" }},
	} {
		h.setLabel(false)
		h.Eventually(func() string { return h.addonStatus(third) }).Should(Equal("absent"))
		h.setLabel(true)
		h.Eventually(stage.reached, testTimeout, measureInterval).Should(BeTrue(), "%s", stage.name)
		h.kill(environment.Manager)
		h.logf("Killed when %s", stage.name)
		h.ready(third)
	}
}

// small returns an add-on of ConfigMaps.
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

// managerKilledWhilePruning drops an object while the new content is not ready, and
// kills the manager, whose successor must prune it without state in memory.
func (h *harness) managerKilledWhilePruning() {
	const name = "pruned"
	h.Expect(h.client.Create(h.ctx, small(name, addonsv1.DeletionPolicyRemove, "kept", "dropped"))).To(Succeed())
	h.ready(name)
	missing := addonsv1.ReadinessCheck{APIVersion: "v1", Kind: "ConfigMap", Namespace: "default", Name: "late"}
	h.addon(name, func(a *addonsv1.CAPTAddon) {
		a.Spec.Manifests[0].Inline, a.Spec.Readiness = configMaps("kept"), []addonsv1.ReadinessCheck{missing}
	})
	h.waitAddon(name, HavePrefix(addonsv1.NotReadyReason))
	h.Expect(object(h, "default", "dropped", &corev1.ConfigMap{}).UID).NotTo(BeEmpty(), "it is deleted once the new content is ready")
	h.kill(environment.Manager)
	h.Expect(h.workload.Create(h.ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "late", Namespace: "default"}})).To(Succeed())
	h.Eventually(func() types.UID { return object(h, "default", "dropped", &corev1.ConfigMap{}).UID }).Should(BeEmpty(), "it is pruned")
	h.ready(name)
	h.Expect(object(h, "default", "kept", &corev1.ConfigMap{}).UID).NotTo(BeEmpty())
	h.Expect(h.client.Delete(h.ctx, get(h, name, &addonsv1.CAPTAddon{}))).To(Succeed())
}

func (h *harness) addonsAreDeleted() {
	stays, goes := small("stays", addonsv1.DeletionPolicyLeave, "stays"), small("goes", addonsv1.DeletionPolicyRemove, "goes")
	h.Expect(h.client.Create(h.ctx, stays)).To(Succeed())
	h.Expect(h.client.Create(h.ctx, goes)).To(Succeed())
	h.ready("stays", "goes")
	chart := get(h, third, &addonsv1.CAPTAddon{})
	for _, addon := range []*addonsv1.CAPTAddon{stays, goes, chart} {
		h.Expect(h.client.Delete(h.ctx, addon)).To(Succeed())
	}
	for _, addon := range []*addonsv1.CAPTAddon{stays, goes, chart} {
		h.Eventually(func() bool {
			return apierrors.IsNotFound(h.client.Get(h.ctx, client.ObjectKeyFromObject(addon), &addonsv1.CAPTAddon{}))
		}).Should(BeTrue(), "%s is deleted", addon.Name)
		h.Eventually(func() []string { return h.rendered(addon.Name) }).Should(BeEmpty(), "%s leaves nothing in the management cluster", addon.Name)
	}
	h.Expect(object(h, "default", "stays", &corev1.ConfigMap{}).Data).To(HaveKeyWithValue("cluster", h.name), "policy Leave")
	h.Expect(object(h, "default", "goes", &corev1.ConfigMap{}).Name).To(BeEmpty(), "policy Remove")
	h.Expect(object(h, "kube-system", third, &appsv1.Deployment{}).Name).To(BeEmpty(), "policy Remove of a release")
}

// serverIsDown pauses the API server for longer than all timeouts, then kills it. The
// local cluster restarts it.
func (h *harness) serverIsDown() {
	server := h.process(controlplane.APIServer)
	h.Expect(syscall.Kill(server, syscall.SIGSTOP)).To(Succeed())
	began := time.Now()
	for _, addon := range []string{flux, karpenter} {
		h.waitAddon(addon, HavePrefix(addonsv1.WaitingForControlPlaneReason+" Workload cluster has been unreachable since "))
		h.logf("After %.1fs %s: %s", time.Since(began).Seconds(), addon, h.addonStatus(addon))
	}
	// By then nodes and pods are considered lost.
	h.waitAddon(flux, Equal(addonsv1.WaitingForControlPlaneReason+" Workload cluster is unreachable"))
	h.logf("After %.1fs %s: %s", time.Since(began).Seconds(), flux, h.addonStatus(flux))
	h.Expect(syscall.Kill(server, syscall.SIGKILL)).To(Succeed())
	began = time.Now()
	h.ready(flux, karpenter, nodePool)
	h.logf("Ready again %.1fs after the API server was killed", time.Since(began).Seconds())
	h.Expect(string(h.deployment().UID)).To(Equal(h.uid))
}

// removesKarpenter removes the label of Karpenter and its node pool, and restores it.
func (h *harness) removesKarpenter() {
	h.Expect(h.claims()).NotTo(BeEmpty(), "nodes to delete")
	h.cluster(func(c *clusterv1.Cluster) { delete(c.Labels, "karpenter.sh/enabled") })
	began := time.Now()
	for _, addon := range []string{nodePool, karpenter} {
		h.Eventually(func() string { return h.addonStatus(addon) }, testTimeout, measureInterval).Should(Equal("absent"), "%s is removed", addon)
		h.logf("%s is removed after %.1fs", addon, time.Since(began).Seconds())
		h.Expect(h.claims()).To(BeEmpty(), "Karpenter deletes its nodes before it is removed itself")
	}
	h.Expect(h.release(karpenter, karpenter).GetName()).To(BeEmpty())
	h.Expect(object(h, karpenter, karpenter, &appsv1.Deployment{}).Name).To(BeEmpty())
	h.Eventually(func() string { return object(h, "", karpenter, &corev1.Namespace{}).Name }).Should(BeEmpty(), "its namespace is deleted")
	h.cluster(func(c *clusterv1.Cluster) { c.Labels["karpenter.sh/enabled"] = "true" })
	h.ready(karpenter, nodePool)
	h.Eventually(func() []metav1.PartialObjectMetadata { return h.claims() }).ShouldNot(BeEmpty(), "pods get nodes again")
}

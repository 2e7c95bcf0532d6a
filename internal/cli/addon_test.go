package cli_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

var enabled = map[string]string{"karpenter.sh/enabled": "true"}

func karpenter() *addonsv1.CAPTAddon {
	return &addonsv1.CAPTAddon{
		ObjectMeta: metav1.ObjectMeta{Name: "karpenter"},
		Spec: addonsv1.CAPTAddonSpec{
			ClusterSelector: metav1.LabelSelector{MatchLabels: enabled},
			DependsOn:       []infrav1.LocalReference{{Name: "flux"}},
			Helm: &addonsv1.HelmRelease{
				Namespace: "karpenter", Chart: addonsv1.ChartSource{Repository: "oci://example.com", Name: "karpenter", Version: "1.14.1"},
			},
		},
	}
}

func TestAddon_listAndStatusShowEachCluster(t *testing.T) {
	w := newWorld(t)
	a := w.run("addon", "list")
	w.Expect(a.code).To(Equal(0))
	w.Expect(a.err).To(ContainSubstring("install one with captctl addon install"))

	addon := karpenter()
	w.create(addon)
	w.report(addon, func() {
		addon.Status.Matched, addon.Status.Ready = new(int32(2)), new(int32(1))
		addon.Status.Conditions = condition("Ready", "False", "SomeClustersNotReady", "b waits")
		addon.Status.Clusters = []addonsv1.ClusterAddonStatus{
			{Name: "a", Ready: new(true), Reason: "Ready", Since: metav1.Now()},
			{Name: "b", Ready: new(false), Reason: "WaitingForDependency", Message: "flux is not ready", Since: metav1.Now(), Attempts: 2},
		}
	})
	a = w.run("addon", "list")
	w.Expect(a.out).To(MatchRegexp(`(?m)^karpenter +1\.14\.1 +1/2 +karpenter\.sh/enabled=true +flux +SomeClustersNotReady +b waits$`))
	a = w.run("addon", "status", "karpenter", "--cluster", "b")
	w.Expect(a.code).To(Equal(0), a.err)
	w.Expect(a.out).To(MatchRegexp(`(?m)^b +WaitingForDependency +\ds +2x +flux is not ready$`))
	w.Expect(a.out).NotTo(MatchRegexp(`(?m)^a +Ready`))
	a = w.run("addon", "status", "karpenter", "-o", "json")
	var status struct {
		Ready    int
		Clusters []addonsv1.ClusterAddonStatus
	}
	w.Expect(json.Unmarshal([]byte(a.out), &status)).To(Succeed())
	w.Expect(status.Clusters).To(HaveLen(2))

	w.Expect(w.run("addon", "status", "karpentr").err).To(ContainSubstring(`did you mean "karpenter"?`))
	w.Expect(w.run("addon", "status", "karpenter", "--cluster", "c").err).To(ContainSubstring("its clusters have the labels karpenter.sh/enabled=true"))
}

func TestAddon_triggerWaitsUntilItIsReadyAgain(t *testing.T) {
	w := newWorld(t)
	addon := karpenter()
	w.create(addon)
	command := w.start("addon", "trigger", "karpenter")
	w.Eventually(func() string {
		w.reload(addon)
		return addon.Annotations[addonsv1.TriggerAnnotation]
	}, patience).ShouldNot(BeEmpty())
	w.Consistently(command.code, "300ms").ShouldNot(Receive(), "nobody has acted on it")
	first := addon.Annotations[addonsv1.TriggerAnnotation]
	applying := []addonsv1.ClusterAddonStatus{{Name: "a", Ready: new(true), Reason: "Ready"}, {Name: "b", Ready: new(false), Reason: "Applying", Message: "not yet"}}
	w.report(addon, func() { addon.Status.HandledTrigger, addon.Status.Clusters = first, applying })
	w.Eventually(command.err.String, patience).Should(ContainSubstring("b: Applying not yet"))
	w.Consistently(command.code, "300ms").ShouldNot(Receive(), "it is not ready again")
	w.report(addon, func() { addon.Status.Clusters[1].Ready, addon.Status.Clusters[1].Reason = new(true), "Ready" })
	w.Eventually(command.code, patience).Should(Receive(Equal(0)))

	command = w.start("addon", "trigger", "karpenter", "--cluster", "b")
	w.Eventually(command.out.String, patience).Should(ContainSubstring("Triggered"))
	w.report(addon, func() {
		addon.Status.HandledTrigger = addon.Annotations[addonsv1.TriggerAnnotation]
		addon.Status.Clusters[1].Ready, addon.Status.Clusters[1].Reason = new(false), "ReleaseStalled"
	})
	w.Eventually(command.code, patience).Should(Receive(Equal(1)))
	w.Expect(command.err.String()).To(ContainSubstring("karpenter fails in b: ReleaseStalled: not yet"))

	w.Expect(w.run("addon", "trigger", "karpenter", "--no-wait").code).To(Equal(0))
	w.reload(addon)
	w.Expect(addon.Annotations[addonsv1.TriggerAnnotation]).NotTo(Equal(first))
}

const addonFile = `
apiVersion: addons.cluster.x-k8s.io/v1beta1
kind: CAPTAddon
metadata:
  name: karpenter
spec:
  clusterSelector:
    matchLabels: {karpenter.sh/enabled: "true"}
  helm:
    namespace: karpenter
    chart: {repository: "oci://example.com", name: karpenter, version: 1.14.1}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: karpenter-values
data: {a: b}
`

func TestAddon_installAppliesFilesAndSaysForWhom(t *testing.T) {
	w := newWorld(t)
	dir := t.TempDir()
	w.Expect(os.WriteFile(filepath.Join(dir, "karpenter.yaml"), []byte(addonFile), 0o600)).To(Succeed())
	w.create(cluster("demo", enabled), cluster("other", nil))

	a := w.run("addon", "install", "karpenter", "--from", dir, "--dry-run")
	w.Expect(a.code).To(Equal(0), a.err)
	w.Expect(a.out).To(Equal("ConfigMap karpenter-values created (dry run)\nCAPTAddon karpenter created (dry run)\n  for demo\n"))
	w.Expect(env.Client.Get(w.ctx, client.ObjectKey{Namespace: w.namespace, Name: "karpenter-values"}, &corev1.ConfigMap{})).NotTo(Succeed())

	a = w.run("addon", "install", "karpenter", "--from", dir, "--chart-repository", "oci://127.0.0.1:5000/charts", "--insecure", "--version", "1.9.0")
	w.Expect(a.code).To(Equal(0), a.err)
	addon := &addonsv1.CAPTAddon{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "karpenter"}}
	w.reload(addon)
	w.Expect(addon.Spec.Helm.Chart).To(Equal(addonsv1.ChartSource{Repository: "oci://127.0.0.1:5000/charts", Name: "karpenter", Version: "1.9.0", Insecure: new(true)}))
	w.Expect(addon.ManagedFields[0].Manager).To(Equal("captctl"))

	a = w.run("addon", "install", filepath.Join(dir, "karpenter.yaml"))
	w.Expect(a.out).To(Equal("ConfigMap karpenter-values unchanged\nCAPTAddon karpenter changed\n  for demo\n"))
	a = w.run("addon", "install", filepath.Join(dir, "karpenter.yaml"), "-o", "json")
	w.Expect(a.out).To(ContainSubstring(`"result": "unchanged"`))

	w.Expect(w.run("addon", "install", "karpenter", "--from", dir, "--version", "latest").err).To(ContainSubstring("version must be one exact version such as 1.14.1, not a range"))
}

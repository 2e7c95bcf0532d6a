package cli_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/testenv"
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

func TestAddonStatus_showsEachCluster(t *testing.T) {
	h := newHarness(t)
	a := h.run("get", "addons")
	h.Expect(a.code).To(Equal(0))
	h.Expect(a.err).To(ContainSubstring("install one with captctl addon install"))

	addon := karpenter()
	h.create(addon)
	h.setStatus(addon, func() {
		addon.Status.Matched, addon.Status.Ready = new(int32(2)), new(int32(1))
		addon.Status.Conditions = condition("Ready", "False", "SomeClustersNotReady", "b is not ready")
		addon.Status.Clusters = []addonsv1.ClusterAddonStatus{
			{Name: "a", Ready: new(true), Reason: "Ready", Since: metav1.Now()},
			{Name: "b", Ready: new(false), Reason: "WaitingForDependency", Message: "flux is not ready", Since: metav1.Now(), Attempts: 2},
		}
	})
	a = h.run("get", "addons")
	h.Expect(a.out).To(MatchRegexp(`(?m)^karpenter +1\.14\.1 +1/2 +SomeClustersNotReady +b is not ready$`))
	h.Expect(h.run("get", "addons", "-o", "wide").out).To(MatchRegexp(`karpenter\.sh/enabled=true +flux +b is not ready\n`))
	a = h.run("addon", "status", "karpenter", "--cluster", "b")
	h.Expect(a.code).To(Equal(0), a.err)
	h.Expect(a.out).To(MatchRegexp(`(?m)^b +WaitingForDependency +\d+s +2x +flux is not ready$`))
	h.Expect(a.out).NotTo(MatchRegexp(`(?m)^a +Ready`))
	a = h.run("addon", "status", "karpenter", "-o", "json")
	var status struct {
		Ready    int
		Clusters []addonsv1.ClusterAddonStatus
	}
	h.Expect(json.Unmarshal([]byte(a.out), &status)).To(Succeed())
	h.Expect(status.Clusters).To(HaveLen(2))

	h.Expect(h.run("addon", "status", "karpentr").err).To(ContainSubstring(`did you mean "karpenter"?`))
	h.Expect(h.run("addon", "status", "karpenter", "--cluster", "c").err).To(ContainSubstring("it selects clusters with the labels karpenter.sh/enabled=true"))
}

func TestAddonList_showsAllNamespaces(t *testing.T) {
	h := newHarness(t)
	other := env.Namespace(t)
	h.create(karpenter())
	elsewhere := karpenter()
	elsewhere.Namespace = other
	h.Expect(env.Client.Create(h.ctx, elsewhere)).To(Succeed())
	a := h.run("get", "addons", "-A")
	h.Expect(a.code).To(Equal(0), a.err)
	h.Expect(a.out).To(HavePrefix("NAMESPACE "))
	for _, namespace := range []string{h.namespace, other} {
		h.Expect(a.out).To(MatchRegexp(`(?m)^` + namespace + ` +karpenter +1\.14\.1 `))
	}
	h.Expect(h.run("get", "addons").out).NotTo(ContainSubstring("NAMESPACE"))

	var summaries []struct{ Namespace string }
	h.Expect(json.Unmarshal([]byte(h.run("get", "addons", "--all-namespaces", "-o", "json").out), &summaries)).To(Succeed())
	h.Expect(summaries).To(ContainElements(HaveField("Namespace", h.namespace), HaveField("Namespace", other)))
}

func TestAddonTrigger_waitsUntilReady(t *testing.T) {
	h := newHarness(t)
	addon := karpenter()
	h.create(addon)
	command := h.start("addon", "trigger", "karpenter")
	h.Eventually(func() string {
		h.reload(addon)
		return addon.Annotations[addonsv1.TriggerAnnotation]
	}).ShouldNot(BeEmpty())
	first := addon.Annotations[addonsv1.TriggerAnnotation]
	applying := []addonsv1.ClusterAddonStatus{{Name: "a", Ready: new(true), Reason: "Ready"}, {Name: "b", Ready: new(false), Reason: "Applying", Message: "not yet"}}
	h.setStatus(addon, func() { addon.Status.HandledTrigger, addon.Status.Clusters = first, applying })
	h.Eventually(command.err.String).Should(ContainSubstring("b: Applying not yet"))
	h.setStatus(addon, func() { addon.Status.Clusters[1].Message = "nearly" })
	h.Eventually(command.err.String).Should(ContainSubstring("b: Applying nearly"), "it waits until the add-on is ready")
	h.Expect(command.code).NotTo(Receive())
	h.setStatus(addon, func() { addon.Status.Clusters[1].Ready, addon.Status.Clusters[1].Reason = new(true), "Ready" })
	h.Eventually(command.code).Should(Receive(Equal(0)))

	command = h.start("addon", "trigger", "karpenter", "--cluster", "b")
	h.Eventually(command.out.String).Should(ContainSubstring("Triggered"))
	h.setStatus(addon, func() {
		addon.Status.HandledTrigger = addon.Annotations[addonsv1.TriggerAnnotation]
		addon.Status.Clusters[1].Ready, addon.Status.Clusters[1].Reason = new(false), "ReleaseStalled"
	})
	h.Eventually(command.code).Should(Receive(Equal(1)))
	h.Expect(command.err.String()).To(ContainSubstring("karpenter failed in cluster b: ReleaseStalled: nearly"))

	h.Expect(h.run("addon", "trigger", "karpenter", "--wait=false").code).To(Equal(0))
	h.reload(addon)
	h.Expect(addon.Annotations[addonsv1.TriggerAnnotation]).NotTo(Equal(first))
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

func TestAddonInstall_appliesFilesAndListsClusters(t *testing.T) {
	h := newHarness(t)
	dir := t.TempDir()
	h.Expect(os.WriteFile(filepath.Join(dir, "karpenter.yaml"), []byte(addonFile), 0o600)).To(Succeed())
	h.create(cluster("demo", enabled), cluster("other", nil))

	a := h.run("addon", "install", "karpenter", "--from", dir, "--dry-run")
	h.Expect(a.code).To(Equal(0), a.err)
	h.Expect(a.out).To(Equal("ConfigMap karpenter-values created (dry run)\nCAPTAddon karpenter created (dry run)\n  clusters: demo\n"))
	h.Expect(env.Client.Get(h.ctx, client.ObjectKey{Namespace: h.namespace, Name: "karpenter-values"}, &corev1.ConfigMap{})).NotTo(Succeed())

	a = h.run("addon", "install", "karpenter", "--from", dir, "--chart-repository", "oci://127.0.0.1:5000/charts", "--insecure", "--version", "1.9.0")
	h.Expect(a.code).To(Equal(0), a.err)
	addon := &addonsv1.CAPTAddon{ObjectMeta: metav1.ObjectMeta{Namespace: h.namespace, Name: "karpenter"}}
	h.reload(addon)
	h.Expect(addon.Spec.Helm.Chart).To(Equal(addonsv1.ChartSource{Repository: "oci://127.0.0.1:5000/charts", Name: "karpenter", Version: "1.9.0", Insecure: new(true)}))
	h.Expect(addon.ManagedFields[0].Manager).To(Equal("captctl"))

	a = h.run("addon", "install", filepath.Join(dir, "karpenter.yaml"))
	h.Expect(a.out).To(Equal("ConfigMap karpenter-values unchanged\nCAPTAddon karpenter changed\n  clusters: demo\n"))
	a = h.run("addon", "install", filepath.Join(dir, "karpenter.yaml"), "-o", "json")
	h.Expect(a.out).To(ContainSubstring(`"result": "unchanged"`))

	h.Expect(h.run("addon", "install", "karpenter", "--from", dir, "--version", "latest").err).To(ContainSubstring("version must be one exact version such as 1.14.1, not a range"))
}

// installCommand matches the commands of the documentation that install built-in add-ons.
// Those with a variable of the shell or a file of the reader are not matched.
var installCommand = regexp.MustCompile(`(?m)^(?:bin/)?captctl (addon install(?: [a-z][a-z-]*| --dry-run)+)(?: +#.*)?$`)

// The commands run one after the other on a real API server, which validates the add-ons.
func TestAddonInstall_documentedCommands(t *testing.T) {
	h := newHarness(t)
	root, err := testenv.Root()
	h.Expect(err).NotTo(HaveOccurred())
	pages, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	h.Expect(err).NotTo(HaveOccurred())
	var found []string
	for _, page := range pages {
		text, err := os.ReadFile(page)
		h.Expect(err).NotTo(HaveOccurred())
		for _, match := range installCommand.FindAllStringSubmatch(string(text), -1) {
			found = append(found, filepath.Base(page))
			args := strings.Fields(match[1])
			a := h.run(append(args, "--from", filepath.Join(root, "addons"))...)
			h.Expect(a.code).To(Equal(0), "%s: captctl %s: %s", page, match[1], a.err)
			if slices.Contains(args, "--dry-run") {
				continue
			}
			for _, name := range args[2:] {
				h.Expect(env.Client.Get(h.ctx, client.ObjectKey{Namespace: h.namespace, Name: name}, &addonsv1.CAPTAddon{})).To(Succeed(), "%s: %s", page, name)
			}
		}
	}
	h.Expect(found).To(ContainElements("addons.md", "aws.md", "clusters.md", "install.md", "kind.md", "operations.md"), "the commands of these pages are found")
}

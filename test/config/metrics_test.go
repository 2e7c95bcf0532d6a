package config

import (
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// metricsFile has every metric of CAPT, and those of libraries that alerts and the dashboard
// use. dev/bin/alerts compares their queries with it.
const metricsFile = "testdata/metrics.yaml"

// family is a metric with the names of its labels.
type family struct {
	Type   string   `json:"type"`
	Labels []string `json:"labels,omitempty"`
}

// scrape returns the metrics that have a series.
func scrape(client *http.Client, url, token string) (map[string]family, error) {
	req, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	scraped, err := parser.TextToMetricFamilies(resp.Body)
	if err != nil {
		return nil, err
	}
	families := map[string]family{}
	for name, metric := range scraped {
		labels := map[string]bool{}
		for _, series := range metric.Metric {
			for _, label := range series.Label {
				labels[label.GetName()] = true
			}
		}
		families[name] = family{Type: strings.ToLower(metric.GetType().String()), Labels: slices.Sorted(maps.Keys(labels))}
	}
	return families, nil
}

// createEverySeries creates objects so that every metric of CAPT has a series. Paused objects
// keep the status that is written here.
func createEverySeries(t *testing.T) {
	t.Helper()
	g := NewWithT(t)
	own := env.Namespace(t)
	named := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: own, Name: name} }
	workspace := func(meta metav1.ObjectMeta, template string) *infrav1.WorkspaceTemplateApply {
		return &infrav1.WorkspaceTemplateApply{ObjectMeta: meta, Spec: infrav1.WorkspaceTemplateApplySpec{TemplateRef: infrav1.TemplateReference{Name: template}}}
	}
	good, bad := template(own, `resource "terraform_data" "this" {}`), template(own, "resource \"terraform_data\" \"this\" {\n  lifecycle {\n    precondition {\n      condition     = timestamp() == \"\"\n      error_message = \"It always fails.\"\n    }\n  }\n}\n")
	good.Name, bad.Name = "good", "bad"
	good.Spec.Template.Spec.ProviderConfigRef, bad.Spec.Template.Spec.ProviderConfigRef = nil, nil
	good.Spec.Template.Spec.Drift = &infrav1.DriftPolicy{Action: infrav1.DriftReport, Interval: &metav1.Duration{Duration: 10 * time.Second}}
	paused := named("paused")
	paused.Annotations, paused.Finalizers = map[string]string{clusterv1.PausedAnnotation: ""}, []string{"example.com/keep"}
	unchecked := workspace(named("unchecked"), "good")
	unchecked.Annotations = paused.Annotations
	running, controlPlane := workspace(paused, "good"), &controlplanev1.CAPTControlPlane{ObjectMeta: paused}
	controlPlane.Spec = controlplanev1.CAPTControlPlaneSpec{Version: "1.33", WorkspaceTemplateRef: infrav1.TemplateReference{Name: "good"}}
	cluster := &clusterv1.Cluster{ObjectMeta: named("observed")}
	cluster.Labels = map[string]string{"observed": "true"}
	cluster.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "CAPTCluster", Name: "observed"}
	addon := &addonsv1.CAPTAddon{ObjectMeta: named("empty"), Spec: addonsv1.CAPTAddonSpec{
		ClusterSelector: metav1.LabelSelector{MatchLabels: cluster.Labels}, Manifests: []addonsv1.ManifestSource{{Name: "nothing", ConfigMapRef: &infrav1.LocalReference{Name: "nothing"}}},
	}}
	rule := infrav1.PolicyRule{Name: "warn", Action: infrav1.PolicyWarn, Expression: `"create" in resource.actions`, Message: "Something is created."}
	for _, obj := range []client.Object{
		&infrav1.WorkspacePolicy{ObjectMeta: named("observed"), Spec: infrav1.WorkspacePolicySpec{Rules: []infrav1.PolicyRule{rule}}},
		&corev1.ConfigMap{ObjectMeta: named("nothing"), Data: map[string]string{"nothing.yaml": "# No objects."}},
		good, bad, workspace(named("good"), "good"), workspace(named("bad"), "bad"), unchecked, running, controlPlane, cluster, addon,
	} {
		g.Expect(env.Client.Create(t.Context(), obj)).To(Succeed(), "%T", obj)
	}
	now := metav1.NewTime(time.Now().Truncate(time.Second))
	for _, change := range []struct {
		obj  client.Object
		edit func()
	}{
		{running, func() {
			running.Status.Run = &infrav1.RunStatus{ID: "paused-r1", Operation: "PlanAndApply", StartedAt: now}
		}},
		{unchecked, func() {
			unchecked.Status.Drift = &infrav1.DriftStatus{FailedAt: now, Failure: "It failed.", Failures: 2}
			unchecked.Status.Conditions = []metav1.Condition{{Type: infrav1.StateSavedCondition, Status: metav1.ConditionFalse, Reason: infrav1.StateNotMergedReason, LastTransitionTime: now}}
		}},
		{controlPlane, func() {
			controlPlane.Status.Version = "v1.33.1"
			controlPlane.Status.Kubeconfig = &controlplanev1.KubeconfigStatus{SecretName: "paused-kubeconfig", ExpiresAt: now}
		}},
		{cluster, func() { cluster.Status.Initialization.ControlPlaneInitialized = new(true) }},
	} {
		before := change.obj.DeepCopyObject().(client.Object)
		change.edit()
		g.Expect(env.Client.Status().Patch(t.Context(), change.obj, client.MergeFrom(before))).To(Succeed(), "%T", change.obj)
	}
	g.Expect(env.Client.Delete(t.Context(), running)).To(Succeed())
}

// checkFamilies compares the metrics that the manager serves with metricsFile.
func checkFamilies(t *testing.T, m *installed, client *http.Client, token string) {
	g := NewWithT(t)
	text, err := os.ReadFile(metricsFile)
	g.Expect(err).NotTo(HaveOccurred())
	var want map[string]family
	g.Expect(yaml.UnmarshalStrict(text, &want)).To(Succeed())
	createEverySeries(t)

	have := func() (map[string]family, error) {
		all, err := scrape(client, "https://"+m.diagnostics+"/metrics", token)
		maps.DeleteFunc(all, func(name string, _ family) bool {
			_, wanted := want[name]
			return !wanted && !strings.HasPrefix(name, "capt_")
		})
		return all, err
	}
	if os.Getenv("CAPT_UPDATE") != "" {
		g.Eventually(func() (int, error) { all, err := have(); return len(all), err }, testTimeout, time.Second).Should(BeNumerically(">=", len(want)))
		all, err := have()
		g.Expect(err).NotTo(HaveOccurred())
		text, err := yaml.Marshal(all)
		g.Expect(err).NotTo(HaveOccurred())
		comment := "# The metrics that a running manager served, with the labels of their series. Written by\n# CAPT_UPDATE=1 go test ./test/config -run TestDefault_grants; names without capt_ are added by hand.\n"
		g.Expect(os.WriteFile(metricsFile, append([]byte(comment), text...), 0o644)).To(Succeed())
		return
	}
	g.Eventually(have, testTimeout, 200*time.Millisecond).Should(Equal(want), "%s is not current: run CAPT_UPDATE=1 go test ./test/config -run TestDefault_grants", metricsFile)
}

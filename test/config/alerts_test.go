package config

import (
	"maps"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"

	"github.com/appthrust/capt/internal/testenv"
)

// alertRules are the fields of a PrometheusRule that the tests use.
type alertRules struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Spec       struct {
		Groups []struct {
			Name  string      `json:"name"`
			Rules []alertRule `json:"rules"`
		} `json:"groups"`
	} `json:"spec"`
}

type alertRule struct {
	Alert       string            `json:"alert"`
	Expr        string            `json:"expr"`
	Annotations map[string]string `json:"annotations"`
	Labels      map[string]string `json:"labels"`
}

// alertFiles have the alerts of the manager, and those of the other providers that clusterctl
// installs. dev/bin/alerts tests their queries.
var alertFiles = []string{"config/prometheus/alerts.yaml", "config/providers/prometheus/alerts.yaml"}

func readAlerts(t *testing.T, file string) []alertRule {
	t.Helper()
	g := NewWithT(t)
	text := testenv.ReadFile(t, file)
	var rules alertRules
	g.Expect(yaml.Unmarshal(text, &rules)).To(Succeed())
	g.Expect(rules.APIVersion).To(Equal("monitoring.coreos.com/v1"))
	g.Expect(rules.Kind).To(Equal("PrometheusRule"))
	var all []alertRule
	for _, group := range rules.Spec.Groups {
		all = append(all, group.Rules...)
	}
	g.Expect(all).NotTo(BeEmpty())
	return all
}

// The Prometheus operator adds the labels of the manager's pod, among them its namespace, and
// renames labels of the same names that metrics have.
func TestServiceMonitor_keepsTheLabelsOfMetrics(t *testing.T) {
	g := NewWithT(t)
	text := testenv.ReadFile(t, "config/prometheus/monitor.yaml")
	var monitor struct {
		Spec struct {
			Endpoints []struct {
				HonorLabels bool `json:"honorLabels"`
			} `json:"endpoints"`
		} `json:"spec"`
	}
	g.Expect(yaml.Unmarshal(text, &monitor)).To(Succeed())
	g.Expect(monitor.Spec.Endpoints).NotTo(BeEmpty())
	for _, endpoint := range monitor.Spec.Endpoints {
		g.Expect(endpoint.HonorLabels).To(BeTrue())
	}
}

// Every alert leads to a section of the runbooks, and every section belongs to an alert.
func TestAlerts_linkToTheirRunbook(t *testing.T) {
	g := NewWithT(t)
	text := testenv.ReadFile(t, "docs/runbooks.md")
	var sections []string
	alerts := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		if title, is := strings.CutPrefix(line, "## "); is {
			sections = append(sections, strings.TrimSpace(title))
		}
	}
	for _, file := range alertFiles {
		for _, rule := range readAlerts(t, file) {
			alerts[rule.Alert] = true
			g.Expect(rule.Annotations["runbook_url"]).To(Equal("https://appthrust.github.io/capt/runbooks/#"+strings.ToLower(rule.Alert)), file)
		}
	}
	g.Expect(sections).To(ConsistOf(slices.Collect(maps.Keys(alerts))))
}

func TestAlerts_haveSummaryDescriptionAndCommand(t *testing.T) {
	seen := map[string]bool{}
	for _, file := range alertFiles {
		for _, rule := range readAlerts(t, file) {
			name := strings.TrimSuffix(rule.Alert+"-"+rule.Labels["provider"], "-")
			t.Run(name, func(t *testing.T) {
				g := NewWithT(t)
				g.Expect(seen).NotTo(HaveKey(name), "its name and provider are not unique")
				seen[name] = true
				g.Expect(rule.Alert).To(HavePrefix("CAPT"))
				g.Expect(rule.Labels["severity"]).To(BeElementOf("info", "warning", "critical"))
				for _, name := range []string{"summary", "description"} {
					g.Expect(strings.TrimSpace(rule.Annotations[name])).NotTo(BeEmpty(), name)
				}
				g.Expect(rule.Annotations["command"]).To(MatchRegexp(`^(captctl|kubectl) `))
			})
		}
	}
}

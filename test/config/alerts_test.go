package config

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
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

var (
	metricName = regexp.MustCompile(`\bcapt_[a-z_]+\b`)
	registered = regexp.MustCompile(`\bName: "(capt_[a-z_]+)"`)
	// ofHistogram matches the suffixes of a histogram's series.
	ofHistogram = regexp.MustCompile(`_(bucket|count|sum)$`)
)

// metricsOf returns the names of the metrics that the code registers.
func metricsOf(t *testing.T, root string) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	err := filepath.WalkDir(filepath.Join(root, "internal"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Name() != "metrics.go" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, match := range registered.FindAllStringSubmatch(string(text), -1) {
			names[match[1]] = true
		}
		return nil
	})
	g := NewWithT(t)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(names).NotTo(BeEmpty())
	return names
}

func readAlerts(t *testing.T, root string) []alertRule {
	t.Helper()
	g := NewWithT(t)
	text, err := os.ReadFile(filepath.Join(root, "config", "prometheus", "alerts.yaml"))
	g.Expect(err).NotTo(HaveOccurred())
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

func TestAlerts_nameMetricsThatExist(t *testing.T) {
	root, err := testenv.Root()
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	known := metricsOf(t, root)
	used := map[string]bool{}
	for _, rule := range readAlerts(t, root) {
		t.Run(rule.Alert, func(t *testing.T) {
			g := NewWithT(t)
			names := metricName.FindAllString(rule.Expr, -1)
			g.Expect(names).NotTo(BeEmpty())
			for _, name := range names {
				if !known[name] {
					name = ofHistogram.ReplaceAllString(name, "")
				}
				g.Expect(known).To(HaveKey(name), "no metrics.go registers it")
				used[name] = true
			}
		})
	}
	for name := range known {
		NewWithT(t).Expect(used).To(HaveKey(name), "no alert uses the metric: add an alert, or remove the metric")
	}
}

func TestAlerts_haveSummaryDescriptionAndCommand(t *testing.T) {
	root, err := testenv.Root()
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	seen := map[string]bool{}
	for _, rule := range readAlerts(t, root) {
		t.Run(rule.Alert, func(t *testing.T) {
			g := NewWithT(t)
			g.Expect(seen).NotTo(HaveKey(rule.Alert), "its name is not unique")
			seen[rule.Alert] = true
			g.Expect(rule.Alert).To(HavePrefix("CAPT"))
			g.Expect(rule.Labels["severity"]).To(BeElementOf("info", "warning", "critical"))
			for _, name := range []string{"summary", "description"} {
				g.Expect(strings.TrimSpace(rule.Annotations[name])).NotTo(BeEmpty(), name)
			}
			g.Expect(rule.Annotations["command"]).To(MatchRegexp(`^(captctl|kubectl) `))
		})
	}
}

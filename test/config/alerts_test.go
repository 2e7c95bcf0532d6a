package config

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
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

var (
	// metricName matches the names of series, which are not followed by a bracket, and
	// are not labels.
	metricName = regexp.MustCompile(`\b(?:capt|controller_runtime|workqueue|process)_[a-z_]+\b|\bup\b`)
	// byClause and selector match the labels in a query.
	byClause   = regexp.MustCompile(`\b(?:by|without|on|ignoring) *\(([a-z_, ]*)\)`)
	selector   = regexp.MustCompile(`\{([^}]*)\}`)
	labelNames = regexp.MustCompile(`([a-z_]+) *(?:=|!=|=~|!~) *"`)
	registered = regexp.MustCompile(`\bName: "(capt_[a-z_]+)"`)
	labelsOf   = regexp.MustCompile(`\}, \[\]string\{([^}]*)\}\)`)
	// ofHistogram matches the suffixes of a histogram's series.
	ofHistogram = regexp.MustCompile(`_(bucket|count|sum)$`)
)

// foreign are the metrics of libraries and of Prometheus with their labels, which the
// manager serves too.
var foreign = map[string][]string{
	"up": nil, "controller_runtime_reconcile_errors_total": {"controller"}, "controller_runtime_reconcile_total": {"controller", "result"},
	"workqueue_depth": {"name", "controller", "priority"}, "process_resident_memory_bytes": nil,
}

// scraped are the labels that Prometheus adds to each series. The namespace is that of the
// manager if the metric has none.
var scraped = []string{"job", "namespace", "pod", "le"}

// shown are the metrics that only the dashboard uses.
var shown = []string{"capt_run_duration_seconds", "capt_run_queue_seconds", "capt_runs_in_flight", "capt_runs_queued"}

// metricsOf returns the metrics that the code registers, with their labels.
func metricsOf(t *testing.T, root string) map[string][]string {
	t.Helper()
	names := map[string][]string{}
	err := filepath.WalkDir(filepath.Join(root, "internal"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Name() != "metrics.go" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for definition := range strings.SplitSeq(string(text), "prometheus.New") {
			match := registered.FindStringSubmatch(definition)
			if match == nil {
				continue
			}
			names[match[1]] = nil
			if labels := labelsOf.FindStringSubmatch(definition); labels != nil {
				for label := range strings.SplitSeq(labels[1], ",") {
					names[match[1]] = append(names[match[1]], strings.Trim(label, `" `))
				}
			}
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

// checkQuery checks that a query uses metrics and labels that exist, and returns the
// names of its metrics.
func checkQuery(g *WithT, known map[string][]string, query string) []string {
	var used []string
	labels := map[string]bool{}
	for _, clause := range byClause.FindAllStringSubmatch(query, -1) {
		for label := range strings.SplitSeq(clause[1], ",") {
			labels[strings.TrimSpace(label)] = true
		}
	}
	for _, braces := range selector.FindAllStringSubmatch(query, -1) {
		for _, label := range labelNames.FindAllStringSubmatch(braces[1], -1) {
			labels[label[1]] = true
		}
	}
	allowed := slices.Clone(scraped)
	bare := selector.ReplaceAllString(byClause.ReplaceAllString(query, ""), "")
	for _, name := range metricName.FindAllString(bare, -1) {
		if _, found := known[name]; !found {
			name = ofHistogram.ReplaceAllString(name, "")
		}
		g.Expect(known).To(HaveKey(name), "no metrics.go registers it: %s", query)
		used, allowed = append(used, name), append(allowed, known[name]...)
	}
	g.Expect(used).NotTo(BeEmpty(), query)
	for label := range labels {
		g.Expect(allowed).To(ContainElement(label), "no metric of the query has the label: %s", query)
	}
	return used
}

func allMetrics(t *testing.T, root string) map[string][]string {
	t.Helper()
	known := metricsOf(t, root)
	maps.Copy(known, foreign)
	return known
}

func TestAlerts_nameMetricsThatExist(t *testing.T) {
	root, err := testenv.Root()
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	known, used := allMetrics(t, root), map[string]bool{}
	for _, rule := range readAlerts(t, root) {
		t.Run(rule.Alert, func(t *testing.T) {
			for _, name := range checkQuery(NewWithT(t), known, rule.Expr) {
				used[name] = true
			}
		})
	}
	for name := range metricsOf(t, root) {
		NewWithT(t).Expect(used[name]).NotTo(Equal(slices.Contains(shown, name)), "an alert uses %s, or it is one of shown", name)
	}
}

// The dashboard shows every metric of CAPT, and no query has a name or label that does
// not exist.
func TestDashboard_queriesRealMetrics(t *testing.T) {
	g := NewWithT(t)
	root, err := testenv.Root()
	g.Expect(err).NotTo(HaveOccurred())
	text, err := os.ReadFile(filepath.Join(root, "config", "prometheus", "dashboard.json"))
	g.Expect(err).NotTo(HaveOccurred())
	var dashboard struct {
		Panels []struct {
			ID      int
			Title   string
			Targets []struct{ Expr, LegendFormat string }
		}
	}
	g.Expect(yaml.Unmarshal(text, &dashboard)).To(Succeed())
	g.Expect(dashboard.Panels).NotTo(BeEmpty())
	known, used, ids := allMetrics(t, root), map[string]bool{}, map[int]bool{}
	for _, panel := range dashboard.Panels {
		g.Expect(panel.Title).NotTo(BeEmpty())
		g.Expect(ids).NotTo(HaveKey(panel.ID))
		ids[panel.ID] = true
		g.Expect(panel.Targets).NotTo(BeEmpty(), panel.Title)
		for _, target := range panel.Targets {
			for _, name := range checkQuery(g, known, target.Expr) {
				used[name] = true
			}
		}
	}
	for name := range metricsOf(t, root) {
		g.Expect(used).To(HaveKey(name), "no panel shows the metric")
	}
}

// The Prometheus operator adds the labels of the manager's pod, among them its namespace, and
// renames labels of the same names that metrics have.
func TestServiceMonitor_keepsTheLabelsOfMetrics(t *testing.T) {
	g := NewWithT(t)
	root, err := testenv.Root()
	g.Expect(err).NotTo(HaveOccurred())
	text, err := os.ReadFile(filepath.Join(root, "config", "prometheus", "monitor.yaml"))
	g.Expect(err).NotTo(HaveOccurred())
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

func TestCheckQuery_findsMistakes(t *testing.T) {
	known := map[string][]string{"capt_a_total": {"class"}, "capt_b_seconds": nil}
	for query, valid := range map[string]bool{
		`sum by (class) (increase(capt_a_total{class!="x", job="j"}[5m]))`:       true,
		`histogram_quantile(0.9, sum by (le) (rate(capt_b_seconds_bucket[5m])))`: true,
		`sum by (klass) (capt_a_total)`:                                          false,
		`capt_a_total{klass="x"}`:                                                false,
		`capt_c_total`:                                                           false,
		`sum by (class) (capt_b_seconds_count)`:                                  false,
		`1 > 0`:                                                                  false,
	} {
		failed := false
		g := NewWithT(t)
		g = g.ConfigureWithFailHandler(func(string, ...int) { failed = true })
		checkQuery(g, known, query)
		NewWithT(t).Expect(failed).To(Equal(!valid), query)
	}
}

// Every alert leads to a section of the runbooks, and every section belongs to an alert.
func TestAlerts_linkToTheirRunbook(t *testing.T) {
	g := NewWithT(t)
	root, err := testenv.Root()
	g.Expect(err).NotTo(HaveOccurred())
	text, err := os.ReadFile(filepath.Join(root, "docs", "runbooks.md"))
	g.Expect(err).NotTo(HaveOccurred())
	var sections, alerts []string
	for line := range strings.Lines(string(text)) {
		if title, is := strings.CutPrefix(line, "## "); is {
			sections = append(sections, strings.TrimSpace(title))
		}
	}
	for _, rule := range readAlerts(t, root) {
		alerts = append(alerts, rule.Alert)
		g.Expect(rule.Annotations["runbook_url"]).To(Equal("https://appthrust.github.io/capt/runbooks/#" + strings.ToLower(rule.Alert)))
	}
	g.Expect(sections).To(ConsistOf(alerts))
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

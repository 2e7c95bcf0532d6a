package alerts

import (
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
)

const (
	alertsFile         = "../../../config/prometheus/alerts.yaml"
	providerAlertsFile = "../../../config/providers/prometheus/alerts.yaml"
	dashboardFile      = "../../../config/prometheus/dashboard.json"
	// metricsFile is compared with a running manager by test/config.
	metricsFile = "../../../test/config/testdata/metrics.yaml"
)

var (
	// shown are the metrics that only the dashboard uses.
	shown = map[string]bool{"capt_addon_clusters": true, "capt_run_duration_seconds": true, "capt_run_queue_seconds": true, "capt_runs_in_flight": true, "capt_runs_queued": true}
	// legendLabel and alertLabel match the labels in texts.
	legendLabel = regexp.MustCompile(`\{\{ *([a-z_]+) *\}\}`)
	alertLabel  = regexp.MustCompile(`\$labels\.([a-z_]+)`)
)

func known(t *testing.T) families {
	t.Helper()
	all, err := readFamilies(metricsFile)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// Texts name only labels that the result of the query has.
func checkTexts(t *testing.T, q *query, pattern *regexp.Regexp, texts ...string) {
	t.Helper()
	for _, text := range texts {
		for _, match := range pattern.FindAllStringSubmatch(text, -1) {
			if !q.labels[match[1]] {
				t.Errorf("the query returns no label %s: %s", match[1], text)
			}
		}
	}
}

func TestAlerts_queryServedMetrics(t *testing.T) {
	all, used := known(t), map[string]bool{}
	for _, source := range []string{alertsFile, providerAlertsFile} {
		file, err := writeRules(source, t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		groups, errs := rulefmt.ParseFile(file, false, model.UTF8Validation, parser.NewParser(parser.Options{}), promslog.NewNopLogger())
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		for _, group := range groups.Groups {
			for _, rule := range group.Rules {
				q, err := all.check(rule.Expr)
				if err != nil {
					t.Errorf("%s: %v", rule.Alert, err)
					continue
				}
				for name := range q.metrics {
					used[name] = true
				}
				for _, text := range rule.Annotations {
					checkTexts(t, q, alertLabel, text)
				}
			}
		}
	}
	for name := range all {
		if strings.HasPrefix(name, "capt_") && used[name] == shown[name] {
			t.Errorf("an alert uses %s, or it is one of shown", name)
		}
	}
}

// The dashboard shows every metric.
func TestDashboard_queriesServedMetrics(t *testing.T) {
	panels, err := readPanels(dashboardFile)
	if err != nil {
		t.Fatal(err)
	}
	all, used, ids := known(t), map[string]bool{}, map[int]bool{}
	for _, panel := range panels {
		if panel.Title == "" || ids[panel.ID] || len(panel.Targets) == 0 {
			t.Errorf("panel %d %q has no title, no query or the number of another", panel.ID, panel.Title)
		}
		ids[panel.ID] = true
		for _, target := range panel.Targets {
			q, err := all.check(target.Expr)
			if err != nil {
				t.Errorf("%s: %v", panel.Title, err)
				continue
			}
			for name := range q.metrics {
				used[name] = true
			}
			checkTexts(t, q, legendLabel, target.LegendFormat)
		}
	}
	for name := range all {
		if strings.HasPrefix(name, "capt_") && !used[name] {
			t.Errorf("no panel shows %s", name)
		}
	}
}

func TestCheck_findsMistakes(t *testing.T) {
	all := families{"capt_a_total": {Type: "counter", Labels: []string{"class"}}, "capt_b_seconds": {Type: "histogram"}}
	for text, valid := range map[string]bool{
		`sum by (class) (increase(capt_a_total{class!="x", job="j"}[5m]))`:       true,
		`histogram_quantile(0.9, sum by (le) (rate(capt_b_seconds_bucket[5m])))`: true,
		`sum without (class) (capt_a_total) / on (job) sum by (job) (up)`:        true,
		`absent(up{job="x"} == 1)`:                     true,
		`sum by (klass) (capt_a_total)`:                false,
		`max by (class) (sum by (job) (capt_a_total))`: false,
		`capt_a_total{klass="x"}`:                      false,
		`capt_a_total / on (klass) capt_a_total`:       false,
		`capt_c_total`:                                 false,
		`capt_b_seconds`:                               false,
		`sum by (le) (capt_b_seconds_count)`:           false,
		`sum by (class) (capt_b_seconds_count)`:        false,
		`sum(capt_a_total`:                             false,
		`vector(1) > 0`:                                false,
	} {
		if _, err := all.check(text); (err == nil) != valid {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// Package alerts tests the alerts of config/prometheus with Prometheus itself. It is a
// module of its own, because nothing else needs Prometheus.
package alerts

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/rules"
	"sigs.k8s.io/yaml"
)

// step is the time between two evaluations of the rules, and between two values of a
// series.
const step = time.Minute

// writeRules writes the rules of a PrometheusRule as a file that Prometheus reads.
func writeRules(path, dir string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("reading the alerts: %w", err)
	}
	var object struct {
		Spec map[string]any `json:"spec"`
	}
	if err := yaml.Unmarshal(text, &object); err != nil {
		return "", fmt.Errorf("reading %s: %w", path, err)
	}
	if text, err = yaml.Marshal(object.Spec); err != nil {
		return "", fmt.Errorf("encoding the rules: %w", err)
	}
	file := filepath.Join(dir, "rules.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return "", fmt.Errorf("writing the rules: %w", err)
	}
	return file, nil
}

// alertNames returns the names of the alerts in a file of rules.
func alertNames(file string) ([]string, error) {
	groups, errs := rulefmt.ParseFile(file, false, model.UTF8Validation, parser.NewParser(parser.Options{}), promslog.NewNopLogger())
	if len(errs) > 0 {
		return nil, fmt.Errorf("reading the rules: %w", errs[0])
	}
	var names []string
	for _, group := range groups.Groups {
		for _, rule := range group.Rules {
			names = append(names, rule.Alert)
		}
	}
	return names, nil
}

// firing returns the alerts that fire after some time, in the form
// `Name{label="value"}: summary`. Each line of series is a series in the notation of
// Prometheus' tests, with one value per minute.
func firing(file, series string, after time.Duration) ([]string, error) {
	lines := strings.Split(strings.TrimSpace(series), "\n")
	loader, err := promqltest.NewLazyLoader("load 1m\n  "+strings.Join(lines, "\n  "), promqltest.LazyLoaderOpts{EnableAtModifier: true, EnableNegativeOffset: true})
	if err != nil {
		return nil, fmt.Errorf("reading the series: %w", err)
	}
	defer func() { _ = loader.Close() }()
	manager := rules.NewManager(&rules.ManagerOptions{
		QueryFunc: rules.EngineQueryFunc(loader.QueryEngine(), loader.Storage()), Appendable: loader.Storage(),
		Context: context.Background(), NotifyFunc: func(context.Context, string, ...*rules.Alert) {},
		Logger: promslog.NewNopLogger(), Parser: parser.NewParser(parser.Options{}),
	})
	groups, errs := manager.LoadGroups(step, labels.EmptyLabels(), "", nil, false, file)
	if len(errs) > 0 {
		return nil, fmt.Errorf("loading the rules: %w", errs[0])
	}
	var found []string
	for at := time.Duration(0); at <= after; at += step {
		now := time.Unix(0, 0).UTC().Add(at)
		loader.WithSamplesTill(now, func(failed error) { err = failed })
		if err != nil {
			return nil, fmt.Errorf("loading samples: %w", err)
		}
		found = nil
		for _, group := range groups {
			group.Eval(loader.Context(), now)
			for _, rule := range group.AlertingRules() {
				if err := rule.LastError(); err != nil {
					return nil, fmt.Errorf("evaluating %s: %w", rule.Name(), err)
				}
				for _, alert := range rule.ActiveAlerts() {
					if alert.State == rules.StateFiring {
						found = append(found, describe(rule.Name(), alert))
					}
				}
			}
		}
	}
	return found, nil
}

// describe returns an alert with the labels that its rule does not set.
func describe(name string, alert *rules.Alert) string {
	own := labels.NewBuilder(alert.Labels).Del(labels.AlertName, "severity").Labels()
	return fmt.Sprintf("%s%s: %s", name, own, alert.Annotations.Get("summary"))
}

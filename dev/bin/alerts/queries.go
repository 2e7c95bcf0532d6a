package alerts

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/promql/parser"
	"sigs.k8s.io/yaml"
)

// families are metrics, as test/config has scraped them from a running manager.
type families map[string]struct {
	Type   string   `json:"type"`
	Labels []string `json:"labels"`
}

// target are the labels that Prometheus adds to each series that it scrapes.
var target = []string{"job", "namespace", "pod", "instance"}

// readFamilies returns the metrics of a manager.
func readFamilies(path string) (families, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the metrics: %w", err)
	}
	var all families
	if err := yaml.UnmarshalStrict(text, &all); err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	return all, nil
}

// series returns the metric of a series and the labels of the series.
func (f families) series(name string) (metric string, labels []string, err error) {
	labels = slices.Clone(target)
	if name == "up" {
		return name, labels, nil
	}
	if m, found := f[name]; found && m.Type != "histogram" {
		return name, append(labels, m.Labels...), nil
	}
	for _, suffix := range []string{"_bucket", "_count", "_sum"} {
		metric, is := strings.CutSuffix(name, suffix)
		if m, found := f[metric]; is && found && m.Type == "histogram" {
			if suffix == "_bucket" {
				labels = append(labels, "le")
			}
			return metric, append(labels, m.Labels...), nil
		}
	}
	return "", nil, fmt.Errorf("no manager serves the series %s", name)
}

// query is what a query uses and returns.
type query struct {
	metrics map[string]bool
	// labels are those that its result may have.
	labels map[string]bool
}

// check parses a query, and returns an error if it uses a series or a label that does not
// exist.
func (f families) check(text string) (*query, error) {
	expression, err := parser.NewParser(parser.Options{}).ParseExpr(text)
	if err != nil {
		return nil, fmt.Errorf("parsing %s: %w", text, err)
	}
	q := &query{metrics: map[string]bool{}}
	if q.labels, err = f.labelsOf(q, expression); err != nil {
		return nil, fmt.Errorf("%s: %w", text, err)
	}
	if len(q.metrics) == 0 {
		return nil, errors.New(text + ": it uses no series")
	}
	return q, nil
}

// labelsOf returns the labels that the result of an expression may have.
func (f families) labelsOf(q *query, node parser.Node) (map[string]bool, error) {
	labels := map[string]bool{}
	if selector, is := node.(*parser.VectorSelector); is {
		metric, known, err := f.series(selector.Name)
		if err != nil {
			return nil, err
		}
		q.metrics[metric] = true
		for _, label := range known {
			labels[label] = true
		}
		for _, matcher := range selector.LabelMatchers {
			if matcher.Name != "__name__" && !labels[matcher.Name] {
				return nil, fmt.Errorf("%s has no label %s", selector.Name, matcher.Name)
			}
		}
		return labels, nil
	}
	for child := range parser.ChildrenIter(node) {
		have, err := f.labelsOf(q, child)
		if err != nil {
			return nil, err
		}
		maps.Copy(labels, have)
	}
	switch node := node.(type) {
	case *parser.AggregateExpr:
		return group(labels, node.Grouping, node.Without)
	case *parser.BinaryExpr:
		if node.VectorMatching != nil {
			if _, err := group(labels, node.VectorMatching.MatchingLabels, false); err != nil {
				return nil, err
			}
		}
	}
	return labels, nil
}

// group returns the labels that remain, and an error if a label of the clause does not exist.
func group(labels map[string]bool, clause []string, without bool) (map[string]bool, error) {
	left := map[string]bool{}
	if without {
		left = maps.Clone(labels)
	}
	for _, label := range clause {
		if !labels[label] {
			return nil, fmt.Errorf("no series of the query has the label %s", label)
		}
		if without {
			delete(left, label)
		} else {
			left[label] = true
		}
	}
	return left, nil
}

// panel is a panel of the dashboard.
type panel struct {
	ID      int
	Title   string
	Targets []struct{ Expr, LegendFormat string }
}

// readPanels returns the panels of a dashboard.
func readPanels(path string) ([]panel, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the dashboard: %w", err)
	}
	var dashboard struct{ Panels []panel }
	if err := json.Unmarshal(text, &dashboard); err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	return dashboard.Panels, nil
}

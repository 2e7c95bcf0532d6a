package main

import (
	"strconv"
	"strings"
)

// sample is one line of metrics in Prometheus' text form.
type sample struct {
	name   string
	labels map[string]string
	value  float64
}

// parseMetrics reads metrics whose labels hold neither quotes nor commas, which
// is true of all that are read here; other lines are skipped.
func parseMetrics(text string) []sample {
	var samples []sample
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		i := strings.LastIndexByte(line, ' ')
		if i < 0 || strings.HasPrefix(line, "#") {
			continue
		}
		value, err := strconv.ParseFloat(line[i+1:], 64)
		if err != nil {
			continue
		}
		s := sample{name: line[:i], labels: map[string]string{}, value: value}
		if name, labels, found := strings.Cut(line[:i], "{"); found {
			s.name = name
			for pair := range strings.SplitSeq(strings.TrimSuffix(labels, "}"), ",") {
				key, quoted, _ := strings.Cut(pair, "=")
				s.labels[key] = strings.Trim(quoted, `"`)
			}
		}
		samples = append(samples, s)
	}
	return samples
}

package chart

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/appthrust/capt/internal/kubernetes/manifest"
)

const (
	// maxIndex limits the size of index.yaml by default. Those of public repositories
	// have up to some ten MiB, of which only the lines of one chart are kept.
	maxIndex = 64 << 20
	// maxEntries limits the size of the lines of one chart, and of an index that is not
	// written in lines.
	maxEntries = 2 << 20
	// maxLine limits the size of a line.
	maxLine = 1 << 20
	// maxNames limits how many charts of an index are remembered, to suggest one.
	maxNames = 1000
)

// entry is one version of a chart in the index.yaml of a Helm repository.
type entry struct {
	Version string   `json:"version"`
	URLs    []string `json:"urls"`
	Digest  string   `json:"digest"`
}

// readIndex returns the entries of a chart. It reads the index line by line, because
// parsing a large one needs many times its size of memory.
func (f Fetcher) readIndex(from io.Reader, name string) ([]entry, error) {
	limited := &io.LimitedReader{R: from, N: f.MaxIndex + 1}
	buffered := bufio.NewReader(limited)
	if start, _ := buffered.Peek(1); len(start) == 1 && start[0] == '{' {
		return parseIndex(buffered, name)
	}
	found := indexLines{name: name}
	lines := bufio.NewScanner(buffered)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		if err := found.add(lines.Text()); err != nil {
			return nil, err
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if limited.N == 0 {
		return nil, tooLarge(f.MaxIndex)
	}
	if found.flow {
		return nil, errors.New("the entries are not written in lines, as Helm writes them")
	}
	if !found.found {
		return nil, missing("chart "+name, name, found.names)
	}
	var parsed map[string][]entry
	if err := unmarshal(found.text.Bytes(), &parsed, &manifest.Budget{}); err != nil {
		return nil, err
	}
	return parsed[name], nil
}

// parseIndex returns the entries of a chart in an index in JSON.
func parseIndex(from io.Reader, name string) ([]entry, error) {
	text, err := readLimited(from, maxEntries)
	if err != nil {
		return nil, err
	}
	var index struct {
		Entries map[string][]entry `json:"entries"`
	}
	if err := unmarshal(text, &index, &manifest.Budget{}); err != nil {
		return nil, err
	}
	entries, known := index.Entries[name]
	if !known {
		return nil, missing("chart "+name, name, slices.Sorted(maps.Keys(index.Entries)))
	}
	return entries, nil
}

// indexLines collects the lines of one chart.
type indexLines struct {
	name string
	// inEntries reports whether the line is below "entries:", and indent is the
	// indentation of the names of the charts there, -1 before the first one.
	inEntries bool
	indent    int
	// current reports whether the line is one of the chart, and found whether any was.
	current, found bool
	// flow reports whether the entries are in one line.
	flow  bool
	names []string
	text  bytes.Buffer
}

func (l *indexLines) add(line string) error {
	content := strings.TrimLeft(line, " ")
	if content == "" || content[0] == '#' {
		return nil
	}
	indent := len(line) - len(content)
	if indent == 0 && content[0] != '-' {
		value, isEntries := strings.CutPrefix(content, "entries:")
		value = strings.TrimSpace(value)
		l.inEntries, l.indent, l.current = isEntries, -1, false
		l.flow = l.flow || isEntries && value != "" && value != "{}"
		return nil
	}
	if !l.inEntries {
		return nil
	}
	if l.indent < 0 {
		l.indent = indent
	}
	if indent == l.indent && content[0] != '-' {
		name := strings.Trim(strings.TrimSuffix(strings.TrimSpace(content), ":"), `"'`)
		if len(l.names) < maxNames {
			l.names = append(l.names, name)
		}
		l.current = name == l.name
		l.found = l.found || l.current
	}
	if !l.current {
		return nil
	}
	if l.text.Len()+len(line) > maxEntries {
		return fmt.Errorf("the versions of chart %s are %w", l.name, tooLarge(maxEntries))
	}
	l.text.WriteString(line)
	l.text.WriteByte('\n')
	return nil
}

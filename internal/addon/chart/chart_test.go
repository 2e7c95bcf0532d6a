package chart_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/addon/chart"
)

// tree are the files of a chart by their path inside the chart.
type tree map[string]string

const (
	anchorChart  = "apiVersion: v2\nname: anchor\nversion: 1.2.3\n"
	anchorValues = `
replicas: 2
settings:
  clusterName: ""
  clusterEndpoint: ""
  featureGates: {spotToSpot: false}
serviceAccount:
  create: true
  annotations: {}
affinity:
nodeSelector: {kubernetes.io/os: linux}
resources: {limits: {cpu: 1}}
tolerations:
- key: CriticalAddonsOnly
  operator: Exists
extraVolumes: []
`
)

func anchor() tree { return tree{"Chart.yaml": anchorChart, "values.yaml": anchorValues} }

// with returns the chart with more files.
func (t tree) with(name, text string) tree {
	t = maps.Clone(t)
	t[name] = text
	return t
}

// archive packs the chart as Helm does, in a directory of its name.
func (t tree) archive() []byte {
	var packed bytes.Buffer
	zipped := gzip.NewWriter(&packed)
	w := tar.NewWriter(zipped)
	for _, name := range slices.Sorted(maps.Keys(t)) {
		header := &tar.Header{Name: "anchor/" + name, Mode: 0o644, Size: int64(len(t[name])), Typeflag: tar.TypeReg}
		if err := w.WriteHeader(header); err != nil {
			panic(err)
		}
		if _, err := w.Write([]byte(t[name])); err != nil {
			panic(err)
		}
	}
	if err := w.Close(); err != nil {
		panic(err)
	}
	if err := zipped.Close(); err != nil {
		panic(err)
	}
	return packed.Bytes()
}

// directory writes the chart to a directory.
func (t tree) directory(tb testing.TB) string {
	tb.Helper()
	root := tb.TempDir()
	for name, text := range t {
		write(tb, filepath.Join(root, name), []byte(text))
	}
	return root
}

func (t tree) load(tb testing.TB) *chart.Chart {
	tb.Helper()
	c, err := chart.Load(t.directory(tb))
	NewWithT(tb).Expect(err).NotTo(HaveOccurred())
	return c
}

func write(tb testing.TB, path string, data []byte) {
	tb.Helper()
	g := NewWithT(tb)
	g.Expect(os.MkdirAll(filepath.Dir(path), 0o755)).To(Succeed())
	g.Expect(os.WriteFile(path, data, 0o600)).To(Succeed())
}

func TestLoad_supportsDirectoriesAndArchives(t *testing.T) {
	g := NewWithT(t)
	source := anchor().
		with("values.schema.json", `{"type":"object"}`).
		with("templates/values.yaml", "not: read").
		with("charts/sub/Chart.yaml", "name: sub\nversion: 0.1.0\n").
		with("charts/sub/values.yaml", "port: 80\n").
		with("charts/packed-1.0.0.tgz", string(tree{"Chart.yaml": "name: packed\n", "values.yaml": "size: 1\n"}.archive()))

	fromDirectory := source.load(t)
	packed := filepath.Join(t.TempDir(), "anchor-1.2.3.tgz")
	write(t, packed, source.archive())
	fromArchive, err := chart.Load(packed)

	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(fromArchive).To(Equal(fromDirectory))
	g.Expect(fromArchive.Name).To(Equal("anchor"))
	g.Expect(fromArchive.Version).To(Equal("1.2.3"))
	g.Expect(fromArchive.Values).To(HaveKeyWithValue("replicas", BeNumerically("==", 2)))
	g.Expect(fromArchive.Values).NotTo(HaveKey("not"))
	g.Expect(fromArchive.Schema).To(HaveKeyWithValue("type", "object"))
	g.Expect(fromArchive.Dependencies["sub"].Values).To(HaveKey("port"))
	g.Expect(fromArchive.Dependencies["packed"].Values).To(HaveKey("size"))
}

func TestLoad_reportsInvalidCharts(t *testing.T) {
	tests := map[string]struct {
		source tree
		want   string
	}{
		"no Chart.yaml":    {tree{"values.yaml": "a: 1"}, "no Chart.yaml found: give the directory or the .tgz of a chart"},
		"no name":          {tree{"Chart.yaml": "version: 1.0.0"}, "Chart.yaml has no name"},
		"broken values":    {anchor().with("values.yaml", "a: ["), "reading values.yaml of chart anchor"},
		"broken schema":    {anchor().with("values.schema.json", "{"), "reading values.schema.json of chart anchor"},
		"a file too large": {anchor().with("values.yaml", "a: "+string(make([]byte, 5<<20))), "more than 4 MiB"},
		"broken inside":    {anchor().with("charts/x-1.tgz", "no archive"), "reading charts/x-1.tgz: not a .tgz archive"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			_, err := chart.Load(test.source.directory(t))
			g.Expect(err).To(MatchError(ContainSubstring(test.want)))

			packed := filepath.Join(t.TempDir(), "a.tgz")
			write(t, packed, test.source.archive())
			_, err = chart.Load(packed)
			g.Expect(err).To(MatchError(ContainSubstring(test.want)))
		})
	}
}

func TestLoad_refusesAliasesThatExpand(t *testing.T) {
	bomb := "a: &a " + strings.Repeat("x", 100<<10) + "\nb: [" + strings.Repeat("*a, ", 1000) + "]\n"
	_, err := chart.Load(anchor().with("values.yaml", bomb).directory(t))
	NewWithT(t).Expect(err).To(MatchError(ContainSubstring("the YAML would need more than 10 MiB")))
}

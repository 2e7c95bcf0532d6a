package chart

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"strings"
	"testing"

	"github.com/appthrust/capt/internal/addon/targetpath"
)

// The manager reads the charts that add-ons name.
func FuzzChartArchive(f *testing.F) {
	f.Add("name: a\nversion: 1.0.0\n", "a: {b: 1}\n", `{"type":"object","properties":{"a":{"$ref":"#/definitions/a"}},"definitions":{"a":{"$ref":"#/definitions/a"}}}`, "a.b")
	f.Add("name: a\ndependencies: [{name: b, alias: c}]\n", "a: &a [*a]\n", "{}", "c.d[0]")
	f.Add("", "", "[", "")
	f.Fuzz(func(t *testing.T, definition, values, schema, path string) {
		c, err := unpack(bytes.NewReader(pack(map[string]string{"Chart.yaml": definition, "values.yaml": values, "values.schema.json": schema})))
		if err != nil {
			return
		}
		if segments, err := targetpath.Parse(path); err == nil {
			_ = c.CheckPath(segments)
		}
	})
}

// A server sends any bytes as an archive.
func FuzzUnpackChart(f *testing.F) {
	f.Add(pack(map[string]string{"Chart.yaml": "name: a\n"}))
	f.Add([]byte{0x1f, 0x8b})
	f.Fuzz(func(t *testing.T, data []byte) { _, _ = unpack(bytes.NewReader(data)) })
}

func FuzzChartIndex(f *testing.F) {
	for _, seed := range []string{"", "entries:\n  a:\n  - version: 1\n    urls: [x]\n", `{"entries":{"a":[{"version":"1"}]}}`, "entries: {a: []}\n", "entries:\n- a\n"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		entries, err := Fetcher{MaxIndex: 1 << 20}.readIndex(strings.NewReader(text), "a")
		if err == nil {
			_, _ = findVersion(entries, "1")
		}
	})
}

func pack(files map[string]string) []byte {
	var packed bytes.Buffer
	zipped := gzip.NewWriter(&packed)
	w := tar.NewWriter(zipped)
	for name, text := range files {
		_ = w.WriteHeader(&tar.Header{Name: "a/" + name, Mode: 0o644, Size: int64(len(text)), Typeflag: tar.TypeReg})
		_, _ = w.Write([]byte(text))
	}
	_ = w.Close()
	_ = zipped.Close()
	return packed.Bytes()
}

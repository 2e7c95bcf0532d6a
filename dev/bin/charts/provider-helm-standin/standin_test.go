package main

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/types"
)

func words(values ...string) []types.String {
	var all []types.String
	for _, v := range values {
		all = append(all, types.StringValue(v))
	}
	return all
}

func TestValues_laterTakePrecedence(t *testing.T) {
	m := model{
		Values: words("a: 1\nb: {c: x, d: w}\n", "b: {c: z}\n"),
		Set: []assignment{
			{Name: types.StringValue("a"), Value: types.StringValue("2"), Type: types.StringValue("auto")},
			{Name: types.StringValue("s"), Value: types.StringValue("2"), Type: types.StringValue("string")},
			{Name: types.StringValue("l"), Value: types.StringValue("x,y={z}"), Type: types.StringValue("literal")},
			{Name: types.StringValue(`n.e\.f/g`), Value: types.StringValue("h")},
		},
	}
	got, err := m.values()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"a": int64(2), "s": "2", "l": "x,y={z}", "b": map[string]any{"c": "z", "d": "w"},
		"n": map[string]any{"e.f/g": "h"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %#v, want %#v", got, want)
	}
}

func TestValues_namesInvalidEntry(t *testing.T) {
	for want, m := range map[string]model{
		"values[1]": {Values: words("a: 1", "- b")},
		"set a[b]":  {Set: []assignment{{Name: types.StringValue("a[b]"), Value: types.StringValue("x")}}},
	} {
		if _, err := m.values(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want something about %s", err, want)
		}
	}
}

func TestLoopback_usesPlainHTTP(t *testing.T) {
	for name, want := range map[string]bool{
		"oci://127.0.0.1:5000/charts/a": true, "oci://localhost/a": true, "oci://[::1]:5000/a": true,
		"oci://public.ecr.aws/karpenter/karpenter": false, "https://127.0.0.1/a": false, "./chart": false,
	} {
		if got := loopback(name); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestClientConfig_takesAHostOrAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "kubeconfig")
	const kubeconfig = "{current-context: one, clusters: [{name: one, cluster: {server: 'https://one.example'}}], users: [{name: me, user: {token: mine}}], contexts: [{name: one, context: {cluster: one, user: me}}]}"
	if err := os.WriteFile(file, []byte(kubeconfig), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, c := range map[string]connection{
		"https://one.example mine": {ConfigPath: types.StringValue(file)},
		"https://two.example t":    {Host: types.StringValue("https://two.example"), Token: types.StringValue("t")},
	} {
		config, err := c.clientConfig("ns")
		if err != nil {
			t.Fatal(err)
		}
		rest, err := config.ClientConfig()
		if err != nil {
			t.Fatal(err)
		}
		if got := rest.Host + " " + rest.BearerToken; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if namespace, _, err := config.Namespace(); err != nil || namespace != "ns" {
			t.Errorf("namespace %s, %v", namespace, err)
		}
	}
	if _, err := (&connection{}).clientConfig("ns"); err == nil || !strings.Contains(err.Error(), "set kubernetes.config_path") {
		t.Errorf("got %v", err)
	}
}

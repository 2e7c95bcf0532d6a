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
		Values: words("a: 1\nb: {c: x, d: y}\n", "b: {c: z}\n"),
		Set: []assignment{
			{Name: types.StringValue("a"), Value: types.StringValue("2"), Type: types.StringValue("auto")},
			{Name: types.StringValue("s"), Value: types.StringValue("2"), Type: types.StringValue("string")},
			{Name: types.StringValue("l"), Value: types.StringValue("x,y={z}"), Type: types.StringValue("literal")},
			{Name: types.StringValue(`n.e\.f/g`), Value: types.StringValue("h")},
		},
		SetList:      []listAssignment{{Name: types.StringValue("list"), Value: words("p", "q")}},
		SetSensitive: []assignment{{Name: types.StringValue("b.d"), Value: types.StringValue("secret")}},
	}
	got, err := m.values()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"a": int64(2), "s": "2", "l": "x,y={z}", "b": map[string]any{"c": "z", "d": "secret"},
		"n": map[string]any{"e.f/g": "h"}, "list": []any{"p", "q"},
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

func TestRefuseUnused_namesUnsupportedArguments(t *testing.T) {
	if err := (&model{}).refuseUnused(); err != nil {
		t.Errorf("refused a plain release: %v", err)
	}
	err := (&model{Verify: types.BoolValue(true)}).refuseUnused()
	if err == nil || !strings.Contains(err.Error(), "verify") {
		t.Errorf("got %v", err)
	}
}

const kubeconfig = `apiVersion: v1
kind: Config
current-context: one
clusters:
- {name: one, cluster: {server: "https://one.example"}}
- {name: two, cluster: {server: "https://two.example"}}
users:
- {name: me, user: {token: mine}}
contexts:
- {name: one, context: {cluster: one, user: me}}
- {name: two, context: {cluster: two, user: me}}
`

func TestClientConfig_mergesFilesAndSettings(t *testing.T) {
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, []byte(kubeconfig), 0o600); err != nil {
		t.Fatal(err)
	}
	path := types.StringValue(file)
	tests := map[string]struct {
		connection  connection
		host, token string
	}{
		"file":    {connection{ConfigPath: path}, "https://one.example", "mine"},
		"context": {connection{ConfigPath: path, ConfigContext: types.StringValue("two")}, "https://two.example", "mine"},
		"token":   {connection{ConfigPath: path, Token: types.StringValue("other")}, "https://one.example", "other"},
		"host":    {connection{Host: types.StringValue("https://three.example"), Token: types.StringValue("t")}, "https://three.example", "t"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Setenv("KUBE_CONFIG_PATH", "")
			config, err := (&settings{Kubernetes: &tt.connection}).clientConfig("ns")
			if err != nil {
				t.Fatal(err)
			}
			rest, err := config.ClientConfig()
			if err != nil {
				t.Fatal(err)
			}
			if rest.Host != tt.host || rest.BearerToken != tt.token {
				t.Errorf("got %s with %s", rest.Host, rest.BearerToken)
			}
			if namespace, _, err := config.Namespace(); err != nil || namespace != "ns" {
				t.Errorf("namespace %s, %v", namespace, err)
			}
		})
	}
}

func TestClientConfig_reportsMissingCluster(t *testing.T) {
	t.Setenv("KUBE_CONFIG_PATH", "")
	_, err := (&settings{}).clientConfig("ns")
	if err == nil || !strings.Contains(err.Error(), "set kubernetes.config_path") {
		t.Errorf("got %v", err)
	}
}

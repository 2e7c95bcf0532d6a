package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	ociregistry "github.com/google/go-containerregistry/pkg/registry"
	chartcommon "helm.sh/helm/v4/pkg/chart/common"
	commonutil "helm.sh/helm/v4/pkg/chart/common/util"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	helmregistry "helm.sh/helm/v4/pkg/registry"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

const captChart = "../../../charts/capt"

type manifest map[string]any

func (m manifest) id() string {
	metadata, _ := m["metadata"].(map[string]any)
	return fmt.Sprint(m["kind"], " ", metadata["name"])
}

func parse(t *testing.T, text string) map[string]manifest {
	t.Helper()
	objects := map[string]manifest{}
	for document := range strings.SplitSeq("\n"+text, "\n---\n") {
		var m manifest
		if err := yaml.Unmarshal([]byte(document), &m); err != nil {
			t.Fatalf("%v:\n%s", err, document)
		}
		if len(m) > 0 {
			objects[m.id()] = m
		}
	}
	return objects
}

func renderCAPT(t *testing.T, values map[string]any) (map[string]manifest, error) {
	t.Helper()
	c, err := loadOwn(captChart, "0.1.0")
	if err != nil {
		t.Fatal(err)
	}
	text, err := renderOwn(c, "capt-system", values)
	return parse(t, text), err
}

// renderOwn returns the objects of a chart of this repository, sorted by the names of
// their templates.
func renderOwn(c *chart.Chart, namespace string, values map[string]any) (string, error) {
	all, err := commonutil.ToRenderValues(c, values, chartcommon.ReleaseOptions{Name: c.Name(), Namespace: namespace, Revision: 1, IsInstall: true}, chartcommon.DefaultCapabilities)
	if err != nil {
		return "", fmt.Errorf("checking the values: %w", err)
	}
	rendered, err := engine.Render(c, all)
	if err != nil {
		return "", fmt.Errorf("rendering the chart: %w", err)
	}
	var names []string
	for name := range rendered {
		if strings.HasSuffix(name, ".yaml") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var text strings.Builder
	for _, name := range names {
		fmt.Fprintf(&text, "---\n%s\n", strings.TrimSpace(rendered[name]))
	}
	return text.String(), nil
}

func container(t *testing.T, objects map[string]manifest) map[string]any {
	t.Helper()
	deployment, found := objects["Deployment capt-controller-manager"]
	if !found {
		t.Fatal("no Deployment is rendered")
	}
	pod := deployment["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)
	return pod["containers"].([]any)[0].(map[string]any)
}

func argsOf(t *testing.T, objects map[string]manifest) []string {
	t.Helper()
	var args []string
	for _, arg := range container(t, objects)["args"].([]any) {
		args = append(args, fmt.Sprint(arg))
	}
	slices.Sort(args)
	return args
}

func TestCAPT_lints(t *testing.T) {
	if err := lintOwn(captChart); err != nil {
		t.Error(err)
	}
}

// kustomization returns the objects of a directory below config.
func kustomization(t *testing.T, name string) map[string]manifest {
	t.Helper()
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), "../../../config/"+name)
	if err != nil {
		t.Fatal(err)
	}
	text, err := resources.AsYaml()
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, string(text))
}

// The alerts and the dashboard have templates of their own, which Helm must not expand.
func TestCAPT_equalsConfigPrometheus(t *testing.T) {
	without, err := renderCAPT(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	have, err := renderCAPT(t, map[string]any{"monitoring": map[string]any{"enabled": true, "labels": map[string]any{"release": "prometheus"}}})
	if err != nil {
		t.Fatal(err)
	}
	for id, w := range kustomization(t, "prometheus") {
		if without[id] != nil {
			t.Errorf("%s is rendered without monitoring.enabled", id)
		}
		h := have[id]
		if h == nil {
			t.Errorf("the chart has no %s", id)
			continue
		}
		labels := h["metadata"].(map[string]any)["labels"].(map[string]any)
		if w["kind"] != "ConfigMap" && labels["release"] != "prometheus" {
			t.Errorf("%s has no label release", id)
		}
		delete(labels, "release")
		if !reflect.DeepEqual(map[string]any(h), map[string]any(w)) {
			hText, _ := yaml.Marshal(h)
			wText, _ := yaml.Marshal(w)
			t.Errorf("%s differs:\n--- chart\n%s\n--- config/prometheus\n%s", id, hText, wText)
		}
	}
}

// A Prometheus that may not read files takes its token from a Secret.
func TestCAPT_readsMetricsWithATokenOfASecret(t *testing.T) {
	credentials := map[string]any{"name": "capt-metrics-token", "key": "token"}
	objects, err := renderCAPT(t, map[string]any{"monitoring": map[string]any{"enabled": true, "authorization": map[string]any{"credentials": credentials}}})
	if err != nil {
		t.Fatal(err)
	}
	endpoint := at(objects["ServiceMonitor capt-controller-manager"], "spec", "endpoints").([]any)[0].(map[string]any)
	if have := at(endpoint, "authorization", "credentials"); !reflect.DeepEqual(have, any(credentials)) {
		t.Errorf("the credentials are %v", have)
	}
	if at(endpoint, "bearerTokenFile") != nil || at(endpoint, "honorLabels") != true || at(endpoint, "tlsConfig", "serverName") == nil {
		t.Errorf("the endpoint is %v", endpoint)
	}
	if _, err := renderCAPT(t, map[string]any{"monitoring": map[string]any{"enabled": true, "authorization": map[string]any{"credentials": map[string]any{"name": "x"}}}}); err == nil {
		t.Error("credentials without a key are accepted")
	}
}

// at returns the value at a path of a manifest, or nil.
func at(object map[string]any, path ...string) any {
	for _, key := range path[:len(path)-1] {
		object, _ = object[key].(map[string]any)
	}
	return object[path[len(path)-1]]
}

// Prometheus reads each manager at its own Service, and verifies its certificate.
func TestServiceMonitors_matchTheManagers(t *testing.T) {
	monitors := kustomization(t, "providers/prometheus")
	for dir, prefix := range map[string]string{
		"default": "capt", "providers/infrastructure": "capt", "providers/control-plane": "capt-control-plane", "providers/bootstrap": "capt-bootstrap", "providers/addon": "capt-addon",
	} {
		t.Run(dir, func(t *testing.T) {
			objects, namespace := kustomization(t, dir), prefix+"-system"
			monitor, service := monitors["ServiceMonitor "+prefix+"-controller-manager"], objects["Service "+prefix+"-controller-manager-metrics-service"]
			if monitor == nil || service == nil || at(monitor, "metadata", "namespace") != namespace || at(service, "metadata", "namespace") != namespace {
				t.Fatalf("the ServiceMonitor or the Service of %s is missing in %s", prefix, namespace)
			}
			for key, value := range at(monitor, "spec", "selector", "matchLabels").(map[string]any) {
				if at(service, "metadata", "labels", key) != value {
					t.Errorf("the Service has no label %s: %s", key, value)
				}
			}
			endpoint := at(monitor, "spec", "endpoints").([]any)[0].(map[string]any)
			certificate := objects["Certificate "+prefix+"-serving-cert"]
			if name := at(endpoint, "tlsConfig", "serverName"); !slices.Contains(at(certificate, "spec", "dnsNames").([]any), name) {
				t.Errorf("the certificate is not for %s", name)
			}
			if name := at(endpoint, "tlsConfig", "ca", "secret", "name"); name != at(certificate, "spec", "secretName") {
				t.Errorf("the certificate is not in the Secret %s", name)
			}
			if at(endpoint, "honorLabels") != true {
				t.Error("the labels of metrics are replaced")
			}
		})
	}
}

// The chart must not drift from config/default and config/namespaced, which the other tests
// install.
func TestCAPT_equalsConfig(t *testing.T) {
	for dir, flags := range map[string]map[string]any{"default": {}, "namespaced": {"namespace": "capt-workspaces"}} {
		t.Run(dir, func(t *testing.T) {
			want := kustomization(t, dir)
			// Helm creates the namespace.
			delete(want, "Namespace capt-system")
			have, err := renderCAPT(t, map[string]any{"crds": map[string]any{"keep": false}, "flags": flags})
			if err != nil {
				t.Fatal(err)
			}
			compare(t, have, want)
		})
	}
}

// A manager of one namespace may read policies of the cluster only if it has to.
func TestCAPT_readsClusterPoliciesIfAsked(t *testing.T) {
	const role, binding = "ClusterRole capt-manager-cluster-policies", "ClusterRoleBinding capt-manager-cluster-policies"
	for _, test := range []struct {
		flags   map[string]any
		granted bool
		args    []string
	}{
		{flags: map[string]any{}},
		{flags: map[string]any{"namespace": "team-a"}, args: []string{"--cluster-policies=false"}},
		{flags: map[string]any{"namespace": "team-a", "cluster-policies": false}, args: []string{"--cluster-policies=false"}},
		{flags: map[string]any{"namespace": "team-a", "cluster-policies": true}, granted: true, args: []string{"--cluster-policies=true"}},
		{flags: map[string]any{"cluster-policies": true}, args: []string{"--cluster-policies=true"}},
	} {
		objects, err := renderCAPT(t, map[string]any{"flags": test.flags})
		if err != nil {
			t.Fatal(err)
		}
		if (objects[role] != nil) != test.granted || (objects[binding] != nil) != test.granted {
			t.Errorf("%v: the chart has %v and %v", test.flags, objects[role], objects[binding])
		}
		args := slices.DeleteFunc(argsOf(t, objects), func(arg string) bool { return !strings.HasPrefix(arg, "--cluster-policies") })
		if !slices.Equal(args, test.args) {
			t.Errorf("%v: got %v, want %v", test.flags, args, test.args)
		}
	}
}

// Users of Kubernetes' roles get more only if an administrator asks for it.
func TestCAPT_aggregatesRolesIfAsked(t *testing.T) {
	for _, test := range []struct {
		aggregate  map[string]any
		view, edit string
	}{
		{map[string]any{}, "true", "false"},
		{map[string]any{"edit": true}, "true", "true"},
		{map[string]any{"view": false}, "false", "false"},
	} {
		objects, err := renderCAPT(t, map[string]any{"rbac": map[string]any{"aggregate": test.aggregate}})
		if err != nil {
			t.Fatal(err)
		}
		const label = "rbac.authorization.k8s.io/aggregate-to-"
		want := map[string]string{"ClusterRole capt-viewer " + label + "view": test.view, "ClusterRole capt-editor " + label + "edit": test.edit}
		have := map[string]string{}
		for id, object := range objects {
			labels, _ := at(object, "metadata", "labels").(map[string]any)
			for name, value := range labels {
				if strings.HasPrefix(name, label) {
					have[id+" "+name] = fmt.Sprint(value)
				}
			}
		}
		if !reflect.DeepEqual(have, want) {
			t.Errorf("%v: got %v, want %v", test.aggregate, have, want)
		}
	}
}

func compare(t *testing.T, have, want map[string]manifest) {
	t.Helper()
	for id := range have {
		if want[id] == nil {
			t.Errorf("config has no %s", id)
		}
	}
	for id, w := range want {
		h := have[id]
		if h == nil {
			t.Errorf("the chart has no %s", id)
			continue
		}
		if strings.HasPrefix(id, "Deployment ") {
			_, tag, _ := strings.Cut(fmt.Sprint(container(t, want)["image"]), ":")
			normalize(t, h, ":v0.1.0")
			normalize(t, w, ":"+tag)
		}
		if !reflect.DeepEqual(map[string]any(h), map[string]any(w)) {
			hText, _ := yaml.Marshal(h)
			wText, _ := yaml.Marshal(w)
			t.Errorf("%s differs:\n--- chart\n%s\n--- config\n%s", id, hText, wText)
		}
	}
}

// normalize removes what a chart and a kustomization express differently: the tag of
// the image, and the order of the arguments.
func normalize(t *testing.T, deployment manifest, tag string) {
	t.Helper()
	text, err := json.Marshal(deployment)
	if err != nil {
		t.Fatal(err)
	}
	text = bytes.ReplaceAll(text, []byte(tag+"\""), []byte(":TAG\""))
	clear(deployment)
	if err := json.Unmarshal(text, &deployment); err != nil {
		t.Fatal(err)
	}
	c := container(t, map[string]manifest{"Deployment capt-controller-manager": deployment})
	delete(c, "imagePullPolicy")
	args := c["args"].([]any)
	slices.SortFunc(args, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
}

// Every flag of the schema, which a test of test/config compares with the manager,
// arrives as an argument.
func TestCAPT_setsEveryFlag(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(captChart, "values.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	var schema struct {
		Properties struct {
			Flags struct {
				Properties map[string]struct{ Type string }
			}
		}
	}
	if err := json.Unmarshal(text, &schema); err != nil {
		t.Fatal(err)
	}
	flags, want := map[string]any{}, []string{"--executor=job", "--runner-image=$(RUNNER_IMAGE)"}
	for name, property := range schema.Properties.Flags.Properties {
		value, text := any("x"), "x"
		switch property.Type {
		case "boolean":
			value, text = true, "true"
		case "integer", "number":
			value, text = float64(1234567), "1234567"
		case "array":
			value, text = []any{"a", "b"}, "a,b"
		}
		switch name {
		case "health-addr", "diagnostics-address":
			value, text = ":1234", ":1234"
		}
		flags[name] = value
		want = append(want, "--"+name+"="+text)
	}
	if len(flags) < 20 {
		t.Fatalf("the schema has only %d flags", len(flags))
	}
	objects, err := renderCAPT(t, map[string]any{"flags": flags})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(want)
	if have := argsOf(t, objects); !slices.Equal(have, want) {
		t.Errorf("got  %v\nwant %v", have, want)
	}
}

func TestCAPT_enforcesApprovalUnlessAsked(t *testing.T) {
	for want, values := range map[string]map[string]any{"Deny": nil, "Warn Audit": {"approval": map[string]any{"enforce": false}}} {
		objects, err := renderCAPT(t, values)
		if err != nil {
			t.Fatal(err)
		}
		for id, object := range objects {
			if object["kind"] != "ValidatingAdmissionPolicyBinding" {
				continue
			}
			want := want
			if id != "ValidatingAdmissionPolicyBinding capt-approval" {
				want = "Deny"
			}
			if have := strings.Trim(fmt.Sprint(at(object, "spec", "validationActions")), "[]"); have != want {
				t.Errorf("%s with %v: the actions are %s", id, values, have)
			}
		}
	}
}

func TestCAPT_rejectsUnknownValues(t *testing.T) {
	for _, values := range []map[string]any{
		{"replica": 3},
		{"flags": map[string]any{"max-run": 3}},
		{"flags": map[string]any{"max-runs": "many"}},
		{"flags": map[string]any{"executor": "process"}},
		{"image": map[string]any{"digest": "latest"}},
	} {
		if _, err := renderCAPT(t, values); err == nil {
			t.Errorf("%v is accepted", values)
		}
	}
}

// Values that the schema accepts, and with which nothing would work.
func TestCAPT_rejectsFlagsThatDoNotWork(t *testing.T) {
	for want, flags := range map[string]map[string]any{
		"the manager must serve them":        {"webhook-port": 0},
		"write :PORT, for example :9440":     {"health-addr": "0"},
		"write :PORT, for example :8443":     {"diagnostics-address": "localhost:"},
		"two managers would change the same": {"leader-elect": false},
	} {
		if _, err := renderCAPT(t, map[string]any{"flags": flags}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: got %v, want %s", flags, err, want)
		}
	}
	if _, err := renderCAPT(t, map[string]any{"replicas": 1, "flags": map[string]any{"leader-elect": false}}); err != nil {
		t.Errorf("one manager needs no election: %v", err)
	}
	if _, err := renderCAPT(t, map[string]any{"flags": map[string]any{"v": 1}}); err != nil {
		t.Errorf("the log level is a number: %v", err)
	}
}

func TestCAPT_takesOptions(t *testing.T) {
	digest := "sha256:" + strings.Repeat("0", 64)
	objects, err := renderCAPT(t, map[string]any{
		"image": map[string]any{"repository": "registry.example.com/capt", "digest": digest}, "replicas": 3, "priorityClassName": "system-cluster-critical",
		"podDisruptionBudget": map[string]any{"enabled": false}, "crds": map[string]any{"enabled": false}, "certManager": map[string]any{"enabled": false},
		"webhook": map[string]any{"caBundle": "Zm9v"}, "serviceAccount": map[string]any{"annotations": map[string]any{"a": "b"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for id := range objects {
		if strings.HasPrefix(id, "CustomResourceDefinition") || strings.HasPrefix(id, "Certificate") || strings.HasPrefix(id, "PodDisruptionBudget") {
			t.Errorf("%s is rendered", id)
		}
	}
	text, err := yaml.Marshal(objects)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"image: registry.example.com/capt@" + digest, "priorityClassName: system-cluster-critical", "caBundle: Zm9v", "replicas: 3", "a: b"} {
		if !bytes.Contains(text, []byte(want)) {
			t.Errorf("%s is missing", want)
		}
	}
}

// A release pins its images as install.yaml does. A tag of a user has its own content, and a
// mirror the same.
func TestPackOwn_pinsTheImagesOfTheRelease(t *testing.T) {
	dir, commit := t.TempDir(), strings.Repeat("c", 40)
	digest := func(digit string) string { return "sha256:" + strings.Repeat(digit, 64) }
	record, err := json.Marshal(map[string]any{"version": "v0.1.0", "commit": commit, "images": map[string]string{
		"ghcr.io/appthrust/capt:v0.1.0": digest("1"), "ghcr.io/appthrust/capt-runner:v0.1.0": digest("2"), "ghcr.io/appthrust/capt-ui:v0.1.0": digest("3"),
	}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "release.json")
	if err := os.WriteFile(file, record, 0o600); err != nil {
		t.Fatal(err)
	}
	ui := map[string]any{"enabled": true, "origin": "https://capt.example.com"}
	for _, test := range []struct {
		commit, version string
		values          map[string]any
		want            []string
	}{
		{commit, "0.1.0", map[string]any{"ui": ui}, []string{"ghcr.io/appthrust/capt:v0.1.0@" + digest("1"), "ghcr.io/appthrust/capt-runner:v0.1.0@" + digest("2"), "ghcr.io/appthrust/capt-ui:v0.1.0@" + digest("3")}},
		{commit, "0.1.0", map[string]any{"image": map[string]any{"repository": "mirror/capt"}, "runnerImage": map[string]any{"tag": "mine"}}, []string{"mirror/capt:v0.1.0@" + digest("1"), "ghcr.io/appthrust/capt-runner:mine"}},
		{"other", "0.1.0", nil, []string{"ghcr.io/appthrust/capt:v0.1.0", "ghcr.io/appthrust/capt-runner:v0.1.0"}},
		{commit, "0.2.0", nil, []string{"ghcr.io/appthrust/capt:v0.2.0", "ghcr.io/appthrust/capt-runner:v0.2.0"}},
	} {
		if err := run(t.Context(), []string{"package", "--chart", captChart, "--version", test.version, "--out", dir, "--images", file, "--commit", test.commit}); err != nil {
			t.Fatal(err)
		}
		c, err := loader.LoadFile(filepath.Join(dir, "capt-"+test.version+".tgz"))
		if err != nil {
			t.Fatal(err)
		}
		text, err := renderOwn(c, "capt-system", test.values)
		if err != nil {
			t.Fatal(err)
		}
		objects := parse(t, text)
		have := []string{fmt.Sprint(container(t, objects)["image"]), fmt.Sprint(container(t, objects)["env"].([]any)[0].(map[string]any)["value"])}
		if page := objects["Deployment capt-ui"]; page != nil {
			have = append(have, fmt.Sprint(at(page, "spec", "template", "spec", "containers").([]any)[0].(map[string]any)["image"]))
		}
		if !slices.Equal(have, test.want) {
			t.Errorf("%+v: got %v", test, have)
		}
	}
}

func TestPackOwn_isReproducible(t *testing.T) {
	var packages [][]byte
	for range 2 {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "capt-0.0.9.tgz"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := packOwn(captChart, "0.1.0", dir, built{}); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(dir, "capt-0.0.9.tgz")); err == nil {
			t.Error("the package of another version is left")
		}
		text, err := os.ReadFile(filepath.Join(dir, "capt-0.1.0.tgz"))
		if err != nil {
			t.Fatal(err)
		}
		packages = append(packages, text)
	}
	if !bytes.Equal(packages[0], packages[1]) {
		t.Error("two packages differ")
	}
}

func TestPushOwn_canBePulled(t *testing.T) {
	server := httptest.NewServer(ociregistry.New(ociregistry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	dir := t.TempDir()
	if err := packOwn(captChart, "0.1.0", dir, built{}); err != nil {
		t.Fatal(err)
	}
	args := []string{"push", "--package", filepath.Join(dir, "capt-0.1.0.tgz"), "--registry", host + "/appthrust", "--plain-http", "--digest-file", filepath.Join(dir, "digest")}
	// A release can be repeated.
	var digests []string
	for range 2 {
		if err := run(t.Context(), args); err != nil {
			t.Fatal(err)
		}
		digest, err := os.ReadFile(filepath.Join(dir, "digest"))
		if err != nil {
			t.Fatal(err)
		}
		digests = append(digests, string(digest))
	}
	if digests[0] != digests[1] || !strings.HasPrefix(digests[0], host+"/appthrust/charts/capt:0.1.0@sha256:") {
		t.Errorf("the digests are %q", digests)
	}
	client, err := helmregistry.NewClient(helmregistry.ClientOptPlainHTTP(), helmregistry.ClientOptWriter(io.Discard))
	if err != nil {
		t.Fatal(err)
	}
	pulled, err := client.Pull(host + "/appthrust/charts/capt:0.1.0")
	if err != nil {
		t.Fatal(err)
	}
	if meta := pulled.Chart.Meta; meta.Name != "capt" || meta.AppVersion != "v0.1.0" {
		t.Errorf("pulled %s %s", meta.Name, meta.AppVersion)
	}
	// Another chart of the same version.
	changed, err := loadOwn(captChart, "0.1.0")
	if err != nil {
		t.Fatal(err)
	}
	changed.Metadata.Description = "changed"
	if _, err := save(changed, dir); err != nil {
		t.Fatal(err)
	}
	if err := run(t.Context(), args); err == nil || !strings.Contains(err.Error(), "exists with other content: release another version") {
		t.Errorf("a released chart was replaced: %v", err)
	}
}

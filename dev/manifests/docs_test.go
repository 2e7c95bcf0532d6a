package main

import (
	"maps"
	"os"
	"regexp"
	"strings"
	"testing"
)

var (
	block     = regexp.MustCompile("(?ms)^```(sh|yaml)\n(.*?)^```")
	asset     = regexp.MustCompile(`(?:https://github\.com/appthrust/capt/releases/(?:download/v[^/ ]+|latest)|dist)/([a-z.-]+\.yaml)`)
	makeCall  = regexp.MustCompile(`(?m)^make ([a-z-]+)`)
	chartFlag = regexp.MustCompile(`--set ([a-zA-Z]+)`)
)

// docs/install.md names only files that a release has, targets of the Makefile and
// values of the chart.
func TestInstallPage_namesWhatExists(t *testing.T) {
	page := readFile(t, "../../docs/install.md")
	makefile, values := readFile(t, "../../Makefile"), readFile(t, "../../charts/capt/values.yaml")
	files := built(t, first)
	blocks := block.FindAllStringSubmatch(page, -1)
	if len(blocks) < 10 {
		t.Fatalf("found only %d blocks", len(blocks))
	}
	named := map[string]bool{}
	for _, match := range asset.FindAllStringSubmatch(page, -1) {
		named[match[1]] = true
		if len(files[match[1]]) == 0 {
			t.Errorf("a release has no %s", match[1])
		}
	}
	for _, p := range providers {
		if !named[p.name+"-components.yaml"] {
			t.Errorf("the page does not install the %s provider", p.name)
		}
	}
	for _, b := range blocks {
		for _, call := range makeCall.FindAllStringSubmatch(b[2], -1) {
			if !strings.Contains(makefile, "\n"+call[1]+":") {
				t.Errorf("the Makefile has no target %s", call[1])
			}
		}
	}
	for _, flag := range chartFlag.FindAllStringSubmatch(page, -1) {
		if !strings.Contains(values, "\n"+flag[1]+":") {
			t.Errorf("the chart has no value %s", flag[1])
		}
	}
	// The variables of the page are those of the components.
	for _, variable := range regexp.MustCompile(`\$\{(CAPT_[A-Z_]+):=`).FindAllStringSubmatch(string(files["infrastructure-components.yaml"]), -1) {
		if !strings.Contains(page, "`"+variable[1]+"`") {
			t.Errorf("the page does not explain %s", variable[1])
		}
	}
}

// What install.yaml and clusterctl create in no namespace, docs/install.md deletes by its label.
// clusterctl deletes everything but roles and CRDs by itself, as test/clusterctl shows.
func TestInstallPage_uninstallsEveryKind(t *testing.T) {
	page := readFile(t, "../../docs/install.md")
	deleted := regexp.MustCompile(`(?m)^kubectl delete ([a-z,]+) -l '?(cluster\.x-k8s\.io/provider[^'\n]+)`)
	kept := map[string]bool{"CustomResourceDefinition": true, "Namespace": true}
	remaining := func(file, label string) map[string]bool {
		kinds := map[string]bool{}
		for _, o := range parse(t, built(t, first)[file]) {
			if o.Metadata.Namespace == "" && !kept[o.Kind] {
				kinds[strings.ToLower(o.Kind)+"s"] = true
				if have := o.Metadata.Labels["cluster.x-k8s.io/provider"]; have != label {
					t.Errorf("%s: %s %s has the label %q", file, o.Kind, o.Metadata.Name, have)
				}
			}
		}
		return kinds
	}
	commands := deleted.FindAllStringSubmatch(page, -1)
	if len(commands) != 3 || commands[2][1] != "crds" {
		t.Fatalf("the page deletes %q", commands)
	}
	// The plural of a policy has no "ys".
	have := map[string]bool{}
	for kind := range strings.SplitSeq(commands[1][1], ",") {
		have[strings.Replace(kind, "policies", "policys", 1)] = true
	}
	if want := remaining("install.yaml", "infrastructure-capt"); len(want) < 6 || !maps.Equal(have, want) || commands[1][2] != "cluster.x-k8s.io/provider=infrastructure-capt" {
		t.Errorf("the page deletes %v of install.yaml, want %v", have, want)
	}
	for _, p := range providers {
		if label := p.name + "-capt"; len(remaining(p.name+"-components.yaml", label)) == 0 || !strings.Contains(commands[0][2], label) {
			t.Errorf("the page does not delete what clusterctl leaves of %s", label)
		}
	}
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

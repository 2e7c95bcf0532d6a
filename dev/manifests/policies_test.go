package main

import (
	"bytes"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// admission has the fields of policies and bindings that the tests use.
type admission struct {
	Kind     string
	Metadata struct{ Name string }
	Spec     struct {
		FailurePolicy     string
		PolicyName        string
		ValidationActions []string
		MatchResources    map[string]any
	}
}

// admissions returns the policies and what their bindings do, by name.
func admissions(t *testing.T, text []byte) (policies, bindings map[string]admission) {
	t.Helper()
	policies, bindings = map[string]admission{}, map[string]admission{}
	for document := range bytes.SplitSeq(text, []byte("\n---\n")) {
		var a admission
		if err := yaml.Unmarshal(document, &a); err != nil {
			t.Fatal(err)
		}
		switch a.Kind {
		case "ValidatingAdmissionPolicy":
			policies[a.Metadata.Name] = a
		case "ValidatingAdmissionPolicyBinding":
			bindings[a.Spec.PolicyName] = a
		}
	}
	return policies, bindings
}

// Every policy refuses what violates it, in all namespaces.
func TestComponents_enforceEveryPolicy(t *testing.T) {
	for _, file := range []string{"install.yaml", "infrastructure-components.yaml"} {
		policies, bindings := admissions(t, built(t, first)[file])
		if len(policies) < 9 || len(bindings) != len(policies) {
			t.Errorf("%s has %d policies and %d bindings", file, len(policies), len(bindings))
		}
		for name, policy := range policies {
			expected := "Fail"
			if name == "capt-namespaces" {
				// CRDs that are missing must not keep the namespaces of others.
				expected = "Ignore"
			}
			if policy.Spec.FailurePolicy != expected {
				t.Errorf("%s: the failure policy of %s is %q", file, name, policy.Spec.FailurePolicy)
			}
			binding := bindings[name].Spec
			if !reflect.DeepEqual(binding.ValidationActions, []string{"Deny"}) || binding.MatchResources != nil {
				t.Errorf("%s: the binding of %s is %+v", file, name, binding)
			}
		}
	}
}

// The kustomization of docs/security.md changes install.yaml as it says.
func TestSecurityPage_switchesEnforcementOff(t *testing.T) {
	found := regexp.MustCompile("(?s)```yaml\n(resources: \\[install.yaml\\]\n.*?)```").FindAllStringSubmatch(readFile(t, "../../docs/security.md"), -1)
	if len(found) != 1 {
		t.Fatalf("found %d kustomizations", len(found))
	}
	files := filesys.MakeFsInMemory()
	for name, text := range map[string][]byte{"install.yaml": built(t, first)["install.yaml"], "kustomization.yaml": []byte(found[0][1])} {
		if err := files.WriteFile("/out/"+name, text); err != nil {
			t.Fatal(err)
		}
	}
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(files, "/out")
	if err != nil {
		t.Fatal(err)
	}
	text, err := resources.AsYaml()
	if err != nil {
		t.Fatal(err)
	}
	_, bindings := admissions(t, text)
	for name, binding := range bindings {
		want := "Deny"
		if name == "capt-approval" {
			want = "Warn Audit"
		}
		if have := strings.Join(binding.Spec.ValidationActions, " "); have != want {
			t.Errorf("the actions of %s are %s", name, have)
		}
	}
}

package main

import (
	"bytes"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/appthrust/capt/dev/revision"
)

// object has the fields of an object that the tests use.
type object struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name, Namespace string
		Labels          map[string]string
	} `json:"metadata"`
	Spec struct {
		Group    string
		Template struct {
			Spec struct {
				Containers []struct {
					Name, Image string
					Args        []string
				}
			}
		}
	} `json:"spec"`
	Rules    []struct{ APIGroups, Resources, Verbs []string }
	Webhooks []webhook
}

var (
	first  = sync.OnceValues((&release{version: "0.1.0", root: "../.."}).files)
	second = sync.OnceValues((&release{version: "0.1.7-rc.1", root: "../.."}).files)
)

// built returns the files of a release of this tree.
func built(t *testing.T, build func() (map[string][]byte, error)) map[string][]byte {
	t.Helper()
	files, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func parse(t *testing.T, text []byte) []object {
	t.Helper()
	var objects []object
	for document := range bytes.SplitSeq(text, []byte("\n---\n")) {
		var o object
		if err := yaml.Unmarshal(document, &o); err != nil {
			t.Fatal(err)
		}
		objects = append(objects, o)
	}
	return objects
}

func TestBuild_writesEveryFile(t *testing.T) {
	files := built(t, first)
	for _, name := range []string{
		"install.yaml", "infrastructure-components.yaml", "control-plane-components.yaml", "bootstrap-components.yaml", "addon-components.yaml",
		"metadata.yaml", "cluster-template.yaml", "cluster-template-local.yaml", "clusterclass-eks.yaml", "clusterclass-local.yaml", "workspace-templates.yaml",
	} {
		if len(files[name]) == 0 {
			t.Errorf("%s is missing or empty", name)
		}
	}
}

func TestBuild_isReproducible(t *testing.T) {
	files := built(t, first)
	if !maps.EqualFunc(files, built(t, (&release{version: "0.1.0", root: "../.."}).files), bytes.Equal) {
		t.Error("two builds differ")
	}
	dir := t.TempDir()
	stale := filepath.Join(dir, "stale.yaml")
	other := filepath.Join(dir, "capt-0.1.0.tgz")
	for _, path := range []string{stale, other} {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if err := replace(dir, files); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(stale); err == nil {
		t.Error("a manifest of an earlier build is left")
	}
	if _, err := os.Stat(other); err != nil {
		t.Error("a file of another tool was removed")
	}
}

func TestBuild_usesImagesOfTheVersion(t *testing.T) {
	for name, text := range built(t, second) {
		for _, match := range regexp.MustCompile(`ghcr\.io/appthrust/[a-z-]+:(\S+)`).FindAllSubmatch(text, -1) {
			if string(match[1]) != "v0.1.7-rc.1" && !strings.HasPrefix(name, "workspace-templates") {
				t.Errorf("%s contains %s", name, match[0])
			}
		}
	}
}

func TestProviders_haveOnlyTheirOwnKinds(t *testing.T) {
	files := built(t, first)
	names := map[string]string{}
	for _, p := range providers {
		t.Run(p.name, func(t *testing.T) {
			crds, namespaces, hooks := 0, 0, 0
			for _, o := range parse(t, files[p.name+"-components.yaml"]) {
				id := o.Kind + " " + o.Metadata.Name
				if other, found := names[id]; found {
					t.Errorf("%s is in the components of %s, too", id, other)
				}
				names[id] = p.name
				if o.Metadata.Labels["cluster.x-k8s.io/provider"] != p.name+"-capt" {
					t.Errorf("%s has the labels %v", id, o.Metadata.Labels)
				}
				switch o.Kind {
				case "Namespace":
					namespaces++
				case "CustomResourceDefinition":
					crds++
					if o.Spec.Group != p.group {
						t.Errorf("%s belongs to another provider", id)
					}
				case "Deployment":
					checkManager(t, p, o)
				}
				for _, w := range o.Webhooks {
					hooks++
					if !slices.Equal(w.groups(), []string{p.group}) {
						t.Errorf("webhook %s belongs to another provider", w["name"])
					}
				}
			}
			if crds == 0 || namespaces != 1 || hooks == 0 {
				t.Errorf("found %d CRDs, %d namespaces, %d webhooks", crds, namespaces, hooks)
			}
		})
	}
}

func checkManager(t *testing.T, p provider, o object) {
	t.Helper()
	containers := o.Spec.Template.Spec.Containers
	if len(containers) != 1 || containers[0].Name != "manager" {
		t.Fatalf("clusterctl requires a container with the name manager, found %v", containers)
	}
	args := strings.Join(containers[0].Args, " ")
	if !slices.Contains(containers[0].Args, "--providers="+p.name) {
		t.Errorf("the manager has the arguments %s", args)
	}
	// The other managers never call AWS.
	if slices.Contains(containers[0].Args, "--aws-own-identity=${CAPT_AWS_OWN_IDENTITY:=false}") != strings.Contains("infrastructure control-plane", p.name) {
		t.Errorf("a manager that calls AWS can use its own identity: %s", args)
	}
	if strings.Contains(args, "--runner-image") != (p.name == "infrastructure") {
		t.Errorf("only the infrastructure provider runs Terraform: %s", args)
	}
}

// Only the infrastructure provider creates Jobs and roles for them, and only providers that
// create workspaces may give them an owner. The policies know each manager by secrets/capt.
func TestProviders_haveOnlyTheirOwnPermissions(t *testing.T) {
	files := built(t, first)
	for _, p := range providers {
		resources := map[string]bool{}
		for _, o := range parse(t, files[p.name+"-components.yaml"]) {
			if o.Kind != "ClusterRole" {
				continue
			}
			for _, rule := range o.Rules {
				for _, resource := range rule.Resources {
					resources[resource] = true
				}
			}
		}
		for providers, expected := range map[string][]string{
			"infrastructure":                               {"jobs", "roles", "rolebindings", "serviceaccounts", "leases", "networkpolicies"},
			"infrastructure control-plane":                 {"workspacetemplateapplies", "workspaceapprovals"},
			"infrastructure addon":                         {"configmaps"},
			"infrastructure control-plane addon":           {"captreferencegrants", "namespaces"},
			"infrastructure control-plane bootstrap addon": {"secrets", "secrets/capt"},
		} {
			for _, resource := range expected {
				if want := slices.Contains(strings.Fields(providers), p.name); resources[resource] != want {
					t.Errorf("%s provider: permission for %s is %t", p.name, resource, resources[resource])
				}
			}
		}
	}
}

// kubectl creates objects in the order of the file, and refuses those of a namespace
// that does not exist yet.
func TestInstaller_createsTheNamespaceFirst(t *testing.T) {
	created := map[string]bool{}
	for _, o := range parse(t, built(t, first)["install.yaml"]) {
		switch namespace := o.Metadata.Namespace; {
		case o.Kind == "Namespace":
			created[o.Metadata.Name] = true
		case namespace != "" && !created[namespace]:
			t.Errorf("%s %s comes before its namespace", o.Kind, o.Metadata.Name)
		}
	}
	if len(created) == 0 {
		t.Error("there is no Namespace")
	}
}

// clusterctl asks for the value of every variable without a default, and expands
// placeholders of CAPT that are not escaped.
func TestComponents_haveOnlyVariablesOfCAPT(t *testing.T) {
	placeholders := regexp.MustCompile(`(\$*)\$\{([^}]*)\}`)
	for name, text := range built(t, first) {
		if !strings.HasSuffix(name, "-components.yaml") {
			continue
		}
		for _, match := range placeholders.FindAllStringSubmatch(string(text), -1) {
			escaped, known := match[1] == "$", regexp.MustCompile(`^CAPT_[A-Z_]+:=\w+$`).MatchString(match[2])
			if escaped == known {
				t.Errorf("%s contains %s: escape it in CRDs, or give the variable a default", name, match[0])
			}
		}
	}
	if text := built(t, first)["install.yaml"]; !bytes.Contains(text, []byte("default: ${WORKSPACE_NAME}-eks-connection")) || bytes.Contains(text, []byte("$${")) {
		t.Error("kubectl expands nothing, so install.yaml must not be escaped")
	}
}

func TestBuild_refusesUnknownSeries(t *testing.T) {
	_, err := (&release{version: "7.0.0", root: "../.."}).files()
	if err == nil || !strings.Contains(err.Error(), "metadata.yaml has no releaseSeries for 7.0.0") {
		t.Errorf("got %v", err)
	}
}

func TestBuild_refusesUncommittedChanges(t *testing.T) {
	root := t.TempDir()
	for _, args := range [][]string{{"init", "-q"}, {"-c", "user.name=x", "-c", "user.email=x@y", "commit", "-q", "--allow-empty", "-m", "x"}} {
		cmd := exec.Command("git", args...)
		cmd.Dir = root
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	if err := os.WriteFile(filepath.Join(root, "new"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(root, "dist")
	err := (&release{version: "0.1.0", root: root, out: out}).build(t.Context())
	if err == nil || !strings.Contains(err.Error(), "not committed (new)") {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(out); err == nil {
		t.Error("files were written")
	}
	err = (&release{version: "0.1.0", root: root, out: out, uncommitted: true}).build(t.Context())
	if err == nil || strings.Contains(err.Error(), "not committed") {
		t.Errorf("the tree has no files to render: %v", err)
	}
}

func TestBuild_pinsTheImagesOfTheSameCommit(t *testing.T) {
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "internal/version"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "internal/version/VERSION"), []byte("v0.2.0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", "internal"}, {"-c", "user.name=x", "-c", "user.email=x@y", "commit", "-q", "-m", "x"}} {
		if out, err := exec.Command("git", append([]string{"-C", root}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	source, err := revision.ReadSource(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	const image, digest = "ghcr.io/appthrust/capt", "sha256:00"
	text := "image: " + image + ":v0.2.0\n- --runner-image=" + image + "-runner:v0.2.0\nother: " + image + ":v0.2.0-rc.1\n"
	pinned := "image: " + image + ":v0.2.0@" + digest + "\n- --runner-image=" + image + "-runner:v0.2.0@" + digest + "\nother: " + image + ":v0.2.0-rc.1\n"
	for name, test := range map[string]struct{ version, commit, want string }{
		"the same commit":       {"0.2.0", source.Commit, pinned},
		"another commit":        {"0.2.0", "0123", text},
		"a development version": {"0.2.0-dev", source.Commit, text},
	} {
		t.Run(name, func(t *testing.T) {
			out := t.TempDir()
			if err := os.Mkdir(filepath.Join(out, "images"), 0o755); err != nil {
				t.Fatal(err)
			}
			record := revision.Record{Version: "v" + test.version, Commit: test.commit, Images: map[string]string{image + ":v0.2.0": digest, image + "-runner:v0.2.0": digest}}
			if err := record.Write(filepath.Join(out, "images", revision.RecordFile)); err != nil {
				t.Fatal(err)
			}
			files := map[string][]byte{"install.yaml": []byte(text), "metadata.yaml": []byte(text)}
			if err := (&release{version: test.version, root: root, out: out}).pinImages(t.Context(), files); err != nil {
				t.Fatal(err)
			}
			if got := string(files["install.yaml"]); got != test.want {
				t.Errorf("got\n%s", got)
			}
			if string(files["metadata.yaml"]) != text {
				t.Error("another file was changed")
			}
		})
	}
}

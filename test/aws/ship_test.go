package aws

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/kubernetes/manifest"
	"github.com/appthrust/capt/internal/testenv"
)

// ship creates the templates of this tree and the cluster, as a user does: captctl
// generate, captctl validate, kubectl apply.
// The texts of examples that a user replaces are replaced.
func (m *management) ship(s shipped, replace map[string]string) {
	m.t.Helper()
	captctl, err := testenv.Built("captctl")
	m.Expect(err).NotTo(HaveOccurred())
	top, err := testenv.Root()
	m.Expect(err).NotTo(HaveOccurred())
	templates, err := filepath.Glob(filepath.Join(top, "templates", "*.yaml"))
	m.Expect(err).NotTo(HaveOccurred())
	m.Expect(templates).NotTo(BeEmpty())
	templates = append(templates, filepath.Join(top, "clusterclasses", "eks.yaml"))

	var files []string
	config := filepath.Join(top, "examples", "provider-config-aws.yaml")
	for _, name := range s.examples {
		text, err := os.ReadFile(filepath.Join(top, "examples", name+".yaml"))
		m.Expect(err).NotTo(HaveOccurred())
		for _, old := range slices.Sorted(maps.Keys(replace)) {
			text = bytes.ReplaceAll(text, []byte(old), []byte(replace[old]))
		}
		text = bytes.ReplaceAll(text, []byte("namespace: "+s.cluster+"\n"), []byte("namespace: "+m.namespace+"\n"))
		if bytes.Contains(text, []byte("kind: WorkspaceProviderConfig\n")) {
			config = ""
		}
		file := filepath.Join(m.t.TempDir(), name+".yaml")
		m.Expect(os.WriteFile(file, text, 0o600)).To(Succeed())
		files = append(files, file)
	}
	if s.flavor != "" {
		files = append(files, m.generate(captctl, s))
	}
	args := append([]string{"validate", "--strict", "--namespace", m.namespace}, templates...)
	if config != "" {
		args = append(args, config)
	}
	out, err := exec.CommandContext(m.t.Context(), captctl, append(args, files...)...).CombinedOutput()
	m.Expect(err).NotTo(HaveOccurred(), string(out))

	for _, path := range append(templates, files...) {
		text, err := os.ReadFile(path)
		m.Expect(err).NotTo(HaveOccurred())
		objects, err := manifest.Parse(text)
		m.Expect(err).NotTo(HaveOccurred())
		for _, obj := range objects {
			if obj.GetKind() == "WorkspaceProviderConfig" {
				m.configureProvider(obj)
				continue
			}
			m.create(obj)
		}
	}
}

// generate writes the cluster of a flavor to a file.
func (m *management) generate(captctl string, s shipped) string {
	m.t.Helper()
	args := []string{"generate", "cluster", s.cluster, "--flavor", s.flavor, "--namespace", m.namespace, "--set", "AWS_REGION=" + s.region}
	for _, assignment := range s.set {
		args = append(args, "--set", assignment)
	}
	var problems bytes.Buffer
	cmd := exec.CommandContext(m.t.Context(), captctl, args...)
	cmd.Stderr = &problems
	generated, err := cmd.Output()
	m.Expect(err).NotTo(HaveOccurred(), problems.String())
	text := string(generated)
	if len(s.variables) > 0 {
		variables, err := json.Marshal(rawValues(s.variables))
		m.Expect(err).NotTo(HaveOccurred())
		changed := strings.Replace(text, "  controlPlaneConfig:\n", "  variables: "+string(variables)+"\n  controlPlaneConfig:\n", 1)
		m.Expect(changed).NotTo(Equal(text))
		text = changed
	}
	file := filepath.Join(m.t.TempDir(), "cluster.yaml")
	m.Expect(os.WriteFile(file, []byte(text), 0o600)).To(Succeed())
	return file
}

func rawValues(from map[string]string) map[string]json.RawMessage {
	out := map[string]json.RawMessage{}
	for name, value := range from {
		out[name] = json.RawMessage(value)
	}
	return out
}

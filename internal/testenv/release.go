package testenv

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
)

// CertManagerVersion is the version of cert-manager whose CRDs tests install.
const CertManagerVersion = "v1.18.2"

// chartLine matches the lines of a Helm chart that are not YAML.
var chartLine = regexp.MustCompile(`(?m)^.*\{\{.*\}\}.*\n`)

// CertManagerCRDs returns the CRDs of cert-manager, which come from its Go module, without
// the lines of its chart.
func CertManagerCRDs() ([]byte, error) {
	cmd := exec.Command("go", "mod", "download", "-json", "github.com/cert-manager/cert-manager@"+CertManagerVersion)
	// Outside of a module, the version of no other module counts.
	cmd.Dir = os.TempDir()
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("downloading cert-manager: %w: %s", err, out)
	}
	var module struct{ Dir string }
	if err := json.Unmarshal(out, &module); err != nil {
		return nil, fmt.Errorf("downloading cert-manager: %w", err)
	}
	files, err := filepath.Glob(filepath.Join(module.Dir, "deploy", "crds", "*.yaml"))
	if err != nil || len(files) == 0 {
		return nil, errors.Join(err, errors.New("cert-manager has no CRDs"))
	}
	var documents [][]byte
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("reading a CRD of cert-manager: %w", err)
		}
		text = chartLine.ReplaceAll(text, nil)
		documents = append(documents, bytes.ReplaceAll(text, []byte("  labels:\nspec:"), []byte("spec:")))
	}
	return bytes.Join(documents, []byte("---\n")), nil
}

// BuildRelease writes the manifests of a version, without v, of this tree to a directory.
func BuildRelease(version, out string) error {
	root, err := Root()
	if err != nil {
		return err
	}
	cmd := exec.Command("go", "run", "./manifests", "build", "-uncommitted", "-version", version, "-out", out)
	cmd.Dir = filepath.Join(root, "dev")
	return runCommand(cmd)
}

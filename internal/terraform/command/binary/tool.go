// Package binary finds OpenTofu and Terraform, and the processes that run them.
package binary

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"

	"github.com/appthrust/capt/internal/terraform"
)

// Env is the environment variable with the path of the binary.
const Env = "CAPT_TERRAFORM_BINARY"

// Tool is a binary of OpenTofu or Terraform.
type Tool struct {
	// Path is the absolute path of the binary.
	Path string
}

// Find returns the binary at path, else that of Env, else tofu or terraform
// in PATH.
func Find(path string) (*Tool, error) {
	candidates := []string{"tofu", "terraform"}
	if path = cmp.Or(path, os.Getenv(Env)); path != "" {
		candidates = []string{path}
	}
	var errs []error
	for _, candidate := range candidates {
		found, err := exec.LookPath(candidate)
		if err == nil {
			if found, err = filepath.Abs(found); err == nil {
				return &Tool{Path: found}, nil
			}
		}
		errs = append(errs, err)
	}
	return nil, fmt.Errorf("finding OpenTofu or Terraform: %w", errors.Join(errs...))
}

var versionLine = regexp.MustCompile(`(OpenTofu|Terraform) v(\S+)`)

// Version runs the binary and returns its product and version.
func (t *Tool) Version(ctx context.Context) (terraform.Tool, error) {
	cmd := exec.CommandContext(ctx, t.Path, "version")
	// An empty configuration prevents a warning about a missing one.
	cmd.Env = append(os.Environ(), "TF_CLI_CONFIG_FILE="+os.DevNull, "CHECKPOINT_DISABLE=1", "TF_CLI_ARGS=", "TF_LOG=")
	out, err := cmd.Output()
	if err != nil {
		return terraform.Tool{}, fmt.Errorf("getting the version of %s: %w", t.Path, err)
	}
	match := versionLine.FindStringSubmatch(string(out))
	if match == nil {
		return terraform.Tool{}, fmt.Errorf("getting the version of %s: it is neither OpenTofu nor Terraform", t.Path)
	}
	return terraform.Tool{Product: match[1], Version: match[2]}, nil
}

// Fingerprint identifies the binary without running it.
func (t *Tool) Fingerprint() (string, error) {
	info, err := os.Stat(t.Path)
	if err != nil {
		return "", fmt.Errorf("reading the binary's attributes: %w", err)
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d %d", t.Path, info.Size(), info.ModTime().UnixNano()))
	return hex.EncodeToString(sum[:8]), nil
}

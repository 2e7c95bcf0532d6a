// Package command drives OpenTofu or Terraform: it prepares working
// directories, runs the binary in them and reads what it says.
package command

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// BinaryEnv names the environment variable that may hold the binary's path.
const BinaryEnv = "CAPT_TERRAFORM_BINARY"

// Product is which tool a binary is.
type Product string

// The tools that the engine can drive.
const (
	OpenTofu  Product = "OpenTofu"
	Terraform Product = "Terraform"
)

// Version is what a binary says it is.
type Version struct {
	Product Product
	// Number is the version without a leading v, such as 1.12.6.
	Number string
}

// Tool is a binary of OpenTofu or Terraform.
type Tool struct {
	// Path is absolute.
	Path string
}

// Find returns the binary: the given path, else the one the environment names,
// else tofu or terraform from PATH.
func Find(path string) (*Tool, error) {
	candidates := []string{path}
	if path == "" {
		candidates = []string{os.Getenv(BinaryEnv), "tofu", "terraform"}
	}
	var errs []error
	for _, candidate := range candidates {
		if candidate == "" {
			continue
		}
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

// Version asks the binary what it is.
func (t *Tool) Version(ctx context.Context) (Version, error) {
	cmd := exec.CommandContext(ctx, t.Path, "version")
	// An empty configuration keeps a missing one from being warned about.
	cmd.Env = append(os.Environ(), "TF_CLI_CONFIG_FILE="+os.DevNull, "CHECKPOINT_DISABLE=1", "TF_CLI_ARGS=", "TF_LOG=")
	out, err := cmd.Output()
	if err != nil {
		return Version{}, fmt.Errorf("asking %s for its version: %w", t.Path, err)
	}
	match := versionLine.FindStringSubmatch(string(out))
	if match == nil {
		return Version{}, fmt.Errorf("asking %s for its version: it is neither OpenTofu nor Terraform", t.Path)
	}
	return Version{Product: Product(match[1]), Number: strings.TrimSpace(match[2])}, nil
}

// fingerprint identifies the binary without running it.
func (t *Tool) fingerprint() (string, error) {
	info, err := os.Stat(t.Path)
	if err != nil {
		return "", fmt.Errorf("looking at the binary: %w", err)
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d %d", t.Path, info.Size(), info.ModTime().UnixNano()))
	return hex.EncodeToString(sum[:8]), nil
}

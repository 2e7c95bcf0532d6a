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
	"strings"

	"github.com/appthrust/capt/internal/terraform"
)

// Env is the environment variable with the path of the binary.
const Env = "CAPT_TERRAFORM_BINARY"

// Product is the product that a binary belongs to.
type Product string

// The supported products.
const (
	OpenTofu  Product = terraform.ProductOpenTofu
	Terraform Product = terraform.ProductTerraform
)

// Name returns the name of the program under which users know the product.
func (p Product) Name() string {
	if p == Terraform {
		return "terraform"
	}
	return "tofu"
}

// Version is the product and version of a binary.
type Version struct {
	Product Product
	// Number is the version without a leading v, such as 1.12.6.
	Number string
}

// String returns the version for messages, such as OpenTofu 1.12.6.
func (v Version) String() string { return string(v.Product) + " " + v.Number }

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
func (t *Tool) Version(ctx context.Context) (Version, error) {
	cmd := exec.CommandContext(ctx, t.Path, "version")
	// An empty configuration prevents a warning about a missing one.
	cmd.Env = append(os.Environ(), "TF_CLI_CONFIG_FILE="+os.DevNull, "CHECKPOINT_DISABLE=1", "TF_CLI_ARGS=", "TF_LOG=")
	out, err := cmd.Output()
	if err != nil {
		return Version{}, fmt.Errorf("getting the version of %s: %w", t.Path, err)
	}
	match := versionLine.FindStringSubmatch(string(out))
	if match == nil {
		return Version{}, fmt.Errorf("getting the version of %s: it is neither OpenTofu nor Terraform", t.Path)
	}
	return Version{Product: Product(match[1]), Number: strings.TrimSpace(match[2])}, nil
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

package controlplane

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"

	"github.com/appthrust/capt/internal/kubernetes/kubeversion"
)

// versionRange is the range of versions that an API server program can emulate.
type versionRange struct{ lowest, highest kubeversion.Minor }

func (r versionRange) contains(v kubeversion.Minor) bool {
	return !v.Less(r.lowest) && !r.highest.Less(v)
}

// emulatedVersions matches the help of the flag --emulated-version.
var emulatedVersions = regexp.MustCompile(`kube=(\d+\.\d+)\.\.(\d+\.\d+)\(default:(\d+\.\d+)\)`)

// Latest returns the highest version that the API server program can emulate. The
// program is searched for as described at Spec.BinDir.
func Latest(ctx context.Context, binDir string) (kubeversion.Minor, error) {
	program, err := findProgram(APIServer, binDir)
	if err != nil {
		return kubeversion.Minor{}, err
	}
	supported, err := supportedVersions(ctx, program)
	return supported.highest, err
}

// supportedVersions runs the API server program to find the versions it can emulate.
func supportedVersions(ctx context.Context, program string) (versionRange, error) {
	help, err := exec.CommandContext(ctx, program, "--help").Output()
	if err != nil {
		return versionRange{}, fmt.Errorf("running %s --help: %w", program, err)
	}
	return parseVersions(string(help), program)
}

func parseVersions(help, program string) (versionRange, error) {
	found := emulatedVersions.FindStringSubmatch(help)
	if found == nil {
		return versionRange{}, fmt.Errorf("%s does not support --emulated-version: use Kubernetes 1.34 or later", program)
	}
	lowest, err := kubeversion.Parse(found[1])
	if err != nil {
		return versionRange{}, err
	}
	highest, err := kubeversion.Parse(found[2])
	return versionRange{lowest: lowest, highest: highest}, err
}

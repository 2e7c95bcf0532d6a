package controlplane

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
)

// Version is a minor version of Kubernetes.
type Version struct{ Major, Minor int }

// String returns the version as it is written in flags.
func (v Version) String() string { return fmt.Sprintf("%d.%d", v.Major, v.Minor) }

var versionForm = regexp.MustCompile(`^v?(\d{1,3})\.(\d{1,4})(\.\d{1,6})?([-+][-+.0-9A-Za-z]+)?$`)

// ParseVersion reads "1.36", "v1.36" or "v1.36.4"; the patch does not count.
func ParseVersion(text string) (Version, error) {
	found := versionForm.FindStringSubmatch(text)
	if found == nil {
		return Version{}, fmt.Errorf("%q is not a version of Kubernetes: write it like 1.36", text)
	}
	major, _ := strconv.Atoi(found[1])
	minor, _ := strconv.Atoi(found[2])
	return Version{Major: major, Minor: minor}, nil
}

// versionRange is what one API server program can be.
type versionRange struct{ lowest, highest Version }

func (r versionRange) contains(v Version) bool {
	return v.Major == r.lowest.Major && v.Minor >= r.lowest.Minor && v.Minor <= r.highest.Minor
}

// emulations matches what the program says of --emulated-version.
var emulations = regexp.MustCompile(`kube=(\d+\.\d+)\.\.(\d+\.\d+)\(default:(\d+\.\d+)\)`)

// Latest is the highest version that the API server's program can be; it is
// looked for as Spec.BinDir is.
func Latest(ctx context.Context, binDir string) (Version, error) {
	program, err := findProgram(APIServer, binDir)
	if err != nil {
		return Version{}, err
	}
	possible, err := versionsOf(ctx, program)
	return possible.highest, err
}

// versionsOf asks the API server's program which versions it can be.
func versionsOf(ctx context.Context, program string) (versionRange, error) {
	help, err := exec.CommandContext(ctx, program, "--help").Output()
	if err != nil {
		return versionRange{}, fmt.Errorf("asking %s for its versions: %w", program, err)
	}
	return parseVersions(string(help), program)
}

func parseVersions(help, program string) (versionRange, error) {
	found := emulations.FindStringSubmatch(help)
	if found == nil {
		return versionRange{}, fmt.Errorf("%s does not say which versions it can be: use one of Kubernetes 1.34 or later", program)
	}
	lowest, err := ParseVersion(found[1])
	if err != nil {
		return versionRange{}, err
	}
	highest, err := ParseVersion(found[2])
	return versionRange{lowest: lowest, highest: highest}, err
}

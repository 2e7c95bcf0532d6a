// Package version has the version of CAPT. All programs of a release have the same.
package version

import (
	_ "embed"
	"fmt"
	"runtime"
	"strings"
)

//go:embed VERSION
var file string

// Commit is the commit of a release. The build sets it with -ldflags.
var Commit string

// Date is the date of the commit of a release. The build sets it with -ldflags.
var Date string

// Info describes a build of CAPT.
type Info struct {
	// Version is the version of the release, or of the next one with the suffix -dev.
	Version string `json:"version"`
	// Commit and Date are those of the last commit. They are empty in a build that is
	// not a release.
	Commit   string `json:"commit,omitempty"`
	Date     string `json:"date,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// Get returns the description of this build.
func Get() Info {
	return Info{Version: Version(), Commit: Commit, Date: Date, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
}

// Version returns the version of this build.
func Version() string { return strings.TrimSpace(file) }

// String returns the description in one line.
func (i Info) String() string {
	details := []string{i.Go, i.Platform}
	if i.Commit != "" {
		details = append([]string{"commit " + i.Commit, i.Date}, details...)
	}
	return fmt.Sprintf("%s (%s)", i.Version, strings.Join(details, ", "))
}

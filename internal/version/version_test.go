package version_test

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/version"
)

func TestGet(t *testing.T) {
	g := NewWithT(t)
	info := version.Get()
	g.Expect(info.Version).To(MatchRegexp(`^v\d+\.\d+\.\d+(-[0-9a-z.]+)?$`))
	g.Expect(info.Go).To(HavePrefix("go"))
	g.Expect(info.Platform).To(ContainSubstring("/"))
}

func TestInfo_string(t *testing.T) {
	info := version.Info{Version: "v1.2.3", Go: "go1", Platform: "linux/amd64"}
	g := NewWithT(t)
	g.Expect(info.String()).To(Equal("v1.2.3 (go1, linux/amd64)"))
	info.Commit, info.Date = "abc", "2026-01-02"
	g.Expect(info.String()).To(Equal("v1.2.3 (commit abc, 2026-01-02, go1, linux/amd64)"))
}

package clusterctl

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/testenv"
)

// command is a command of clusterctl in the documentation.
type command struct {
	// env are the variables before the command.
	env  []string
	args []string
}

// of returns the command with versions of CAPT's providers.
func (c command) of(version string) command {
	versioned := slices.Clone(c.args)
	for i, arg := range versioned {
		if arg == "capt" {
			versioned[i] += ":" + version
		}
	}
	return command{env: c.env, args: versioned}
}

// with returns the command with another value in place of one.
func (c command) with(old, value string) command {
	replaced := slices.Clone(c.args)
	for i, arg := range replaced {
		if arg == old {
			replaced[i] = value
		}
	}
	return command{env: c.env, args: replaced}
}

// documented are the commands of docs/install.md and docs/upgrading.md.
type documented struct {
	// initCore installs Cluster API alone, and init CAPT too.
	initCore, init, upgradePlan, upgrade, move, delete command
	// deleteRoles is the command that deletes what clusterctl leaves.
	deleteRoles string
}

var shellBlock = regexp.MustCompile("(?ms)^```sh\n(.*?)^```$")

// readCommands reads all commands of clusterctl in the blocks of the pages.
func readCommands(t *testing.T) *documented {
	t.Helper()
	g := NewWithT(t)
	root, err := testenv.Root()
	g.Expect(err).NotTo(HaveOccurred())
	read := func(page string) []command {
		text, err := os.ReadFile(filepath.Join(root, "docs", page))
		g.Expect(err).NotTo(HaveOccurred())
		var found []command
		for _, block := range shellBlock.FindAllStringSubmatch(string(text), -1) {
			for line := range strings.Lines(block[1]) {
				words := strings.Fields(line)
				if program := slices.Index(words, "clusterctl"); program >= 0 {
					found = append(found, command{env: words[:program], args: words[program+1:]})
				}
			}
		}
		return found
	}
	install, upgrading := read("install.md"), read("upgrading.md")
	g.Expect(install).To(HaveLen(6), "this test runs every command of install.md")
	g.Expect(upgrading).To(Equal(install[2:4]), "this test runs every command of upgrading.md")
	page, err := os.ReadFile(filepath.Join(root, "docs", "install.md"))
	g.Expect(err).NotTo(HaveOccurred())
	deleteRoles := regexp.MustCompile("(?m)^clusterctl delete .*\n(kubectl delete .*)$").FindSubmatch(page)
	g.Expect(deleteRoles).NotTo(BeNil(), "install.md deletes the roles")
	return &documented{deleteRoles: string(deleteRoles[1]), initCore: install[0], init: install[1], upgradePlan: install[2], upgrade: install[3], move: install[4], delete: install[5]}
}

// run runs a command of the documentation and returns its output.
func (s *server) run(c command) string {
	s.t.Helper()
	s.settings = c.env
	defer func() { s.settings = nil }()
	return s.clusterctl(c.args...)
}

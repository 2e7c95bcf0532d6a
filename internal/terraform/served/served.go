// Package served lets the plans of a run share one process of each provider. Otherwise OpenTofu
// starts each provider up to three times per command, which takes most of the time of a command
// with large providers.
//
// Start is the only entrance: without it, OpenTofu starts all providers itself. An apply does not
// use them: it must survive this process, which they do not, and its providers must not have been
// configured before.
package served

import (
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/appthrust/capt/internal/host/sandbox"
	"github.com/appthrust/capt/internal/terraform"
)

// Env is the environment variable, of a module or of this process, that turns everything off. Its
// value is then off.
const (
	Env = "CAPT_SERVE_PROVIDERS"
	off = "off"
)

// reattachEnv is the environment variable with the providers that OpenTofu uses without starting
// them.
const reattachEnv = "TF_REATTACH_PROVIDERS"

// dataDir is OpenTofu's data directory in a root module.
const dataDir = ".terraform"

// Module is an initialised module, and how OpenTofu plans it.
type Module struct {
	// Dir is the working directory, Root that of the root module, and RunDir that for files of the
	// run. A module can replace everything in them.
	Dir, Root, RunDir string
	// LockFile returns the content of the dependency lock file.
	LockFile func() ([]byte, error)
	// Env is the environment of a plan. Sandbox limits what it can do, or is nil.
	Env     []string
	Sandbox *sandbox.Rules
	// Log receives messages for users.
	Log func(message string)
}

// servable returns the providers that can serve several commands. OpenTofu reports what is wrong
// with the others.
func (m *Module) servable() []lockedProvider {
	if m.wantsOwnProviders() {
		return nil
	}
	configurations, err := readConfigurations(m.Dir, m.Root)
	if err != nil {
		return nil
	}
	content, err := m.LockFile()
	if err != nil {
		return nil
	}
	locks, err := readLocks(content)
	if err != nil {
		return nil
	}
	// OpenTofu reads addresses that are written otherwise as the same, such as with a port, so the
	// configurations of an unknown one may be those of another.
	for address := range configurations.addresses {
		if !slices.ContainsFunc(locks, func(lock *hcl.Block) bool { return lock.Labels[0] == address }) {
			return nil
		}
	}
	var found []lockedProvider
	for _, lock := range locks {
		if !configurations.isSingle(lock.Labels[0]) {
			continue
		}
		if provider, err := readLock(m.Root, lock); err == nil {
			found = append(found, provider)
		}
	}
	return found
}

// wantsOwnProviders reports whether the user turned the serving of providers off, wants to see
// the logs of the providers, replaces them, or has their files elsewhere.
func (m *Module) wantsOwnProviders() bool {
	if os.Getenv(Env) == off {
		return true
	}
	config := ""
	for _, entry := range m.Env {
		name, value, _ := strings.Cut(entry, "=")
		switch {
		case value == "":
		case name == reattachEnv, name == "TF_DATA_DIR", strings.HasPrefix(name, "TF_LOG"), name == Env && value == off:
			return true
		case name == "TF_CLI_CONFIG_FILE":
			config = value
		}
	}
	content, err := os.ReadFile(config)
	return err != nil || strings.Contains(string(content), "dev_overrides")
}

// broken matches the errors of a tool that cannot use a provider which it has not started.
var broken = regexp.MustCompile(`(?i)plugin did not respond|failed to (instantiate|load|obtain) (provider|schema|plugin)|reattachment process not found|incompatible api version`)

// isBroken reports whether one of the diagnostics is such an error.
func isBroken(diagnostics terraform.Diagnostics) bool {
	return slices.ContainsFunc(diagnostics.Errors(), func(d terraform.Diagnostic) bool { return broken.MatchString(d.Summary + "\n" + d.Detail) })
}

// Connection lets one command reach the providers.
type Connection struct {
	// Env is added to the environment of the command, which inherits Files from file descriptor 3
	// on.
	Env   []string
	Files []*os.File

	relays []*relay
}

// Allow lets the process of the command use the connection. It is called once.
func (c *Connection) Allow(pid int) {
	for _, relay := range c.relays {
		relay.allow(pid)
	}
}

// Close ends the connection.
func (c *Connection) Close() {
	for _, relay := range c.relays {
		relay.close()
	}
}

package command

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/appthrust/capt/internal/host"
	"github.com/appthrust/capt/internal/terraform"
)

// inherited are the variables of the engine's environment that the tool inherits.
// They include no credentials: those are in the request or in Workdir.Inherit.
var inherited = []string{
	"PATH", "USER", "LOGNAME", "TMPDIR", "TZ", "LANG", "LC_ALL", "LC_CTYPE",
	"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "no_proxy", "all_proxy",
	"SSL_CERT_FILE", "SSL_CERT_DIR", "GIT_SSL_CAINFO",
	"KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT", "KUBERNETES_SERVICE_PORT_HTTPS",
	"TF_REGISTRY_CLIENT_TIMEOUT", "TF_REGISTRY_DISCOVERY_RETRY", "TF_PROVIDER_DOWNLOAD_RETRY",
}

// Inherited returns the variables of the engine's environment that the tool inherits.
func Inherited() []string { return slices.Clone(inherited) }

// CLIConfigEnv is the tool's environment variable with the path of its CLI configuration.
const CLIConfigEnv = "TF_CLI_CONFIG_FILE"

const pluginCacheEnv = "TF_PLUGIN_CACHE_DIR"

// environment returns the environment of the tool. Later entries override earlier
// ones: inherited variables, the request's variables, variables that the engine
// requires.
func (w *Workdir) environment(request *terraform.Request, root, cliConfig string) []string {
	env := map[string]string{
		"HOME": w.homeDir(),
		// Git must fail instead of prompting for a password.
		"GIT_TERMINAL_PROMPT": "0",
	}
	for _, entry := range os.Environ() {
		name, value, _ := strings.Cut(entry, "=")
		if slices.Contains(inherited, name) || slices.ContainsFunc(w.Inherit, func(pattern string) bool { return MatchName(pattern, name) }) {
			env[name] = value
		}
	}
	maps.Copy(env, collectorEnv(host.MemoryLimit()))
	maps.Copy(env, request.Env)
	if request.Encryption != "" {
		env["TF_ENCRYPTION"] = request.Encryption
	}
	maps.Copy(env, map[string]string{
		"PWD":                root,
		"TF_IN_AUTOMATION":   "1",
		"TF_INPUT":           "0",
		"CHECKPOINT_DISABLE": "1",
		"NO_COLOR":           "1",
		CLIConfigEnv:         cliConfig,
	})
	if cache := w.pluginCache(request); cache != "" {
		env[pluginCacheEnv] = cache
		// Otherwise the cache is used only for providers whose checksums are in the
		// lock file, and so never by the first init. A provider that does not match the
		// lock file is refused.
		env["TF_PLUGIN_CACHE_MAY_BREAK_DEPENDENCY_LOCK_FILE"] = "1"
	}
	list := make([]string, 0, len(env))
	for _, name := range slices.Sorted(maps.Keys(env)) {
		list = append(list, name+"="+env[name])
	}
	return list
}

// collectorEnv makes the tool and its providers collect garbage less often. They start with
// a small heap, which the default would collect dozens of times in a run: a sixth to a
// quarter of the CPU time of a plan. In a container with a memory limit they collect it more
// often again when one of them uses half of it.
func collectorEnv(limit int64) map[string]string {
	env := map[string]string{"GOGC": "200"}
	if limit > 0 {
		env["GOMEMLIMIT"] = strconv.FormatInt(limit/2, 10)
	}
	return env
}

// MatchName reports whether the pattern is the name, or a prefix of it followed
// by *.
func MatchName(pattern, name string) bool {
	prefix, isPrefix := strings.CutSuffix(pattern, "*")
	return pattern == name || isPrefix && strings.HasPrefix(name, prefix)
}

func (w *Workdir) pluginCache(request *terraform.Request) string {
	if !request.PluginCache {
		return ""
	}
	return w.PluginCache
}

// cliConfig returns the path of the tool's CLI configuration: that of the request,
// else that of the operator, else an empty file. Without a file the tool would
// print a warning into its event stream.
func (w *Workdir) cliConfig(request *terraform.Request, root string) (string, error) {
	candidates := []string{request.Env[CLIConfigEnv], w.CLIConfig}
	if _, ok := request.Files[".terraformrc"]; ok {
		candidates = slices.Insert(candidates, 0, ".terraformrc")
	}
	for _, candidate := range candidates {
		if candidate == "" {
			continue
		}
		candidate = inDir(root, candidate)
		if info, err := os.Stat(candidate); err == nil && info.Mode().IsRegular() {
			return candidate, nil
		}
	}
	empty := filepath.Join(w.runDir(), "empty.tfrc")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		return "", fmt.Errorf("writing the CLI configuration: %w", err)
	}
	return empty, nil
}

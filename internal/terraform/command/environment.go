package command

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/appthrust/capt/internal/terraform"
)

// inherited are the variables of the engine's own environment that reach the
// tool. Credentials are not among them: those come with the request, or by
// Workdir.Inherit.
var inherited = []string{
	"PATH", "HOME", "USER", "LOGNAME", "TMPDIR", "TZ", "LANG", "LC_ALL", "LC_CTYPE",
	"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "no_proxy", "all_proxy",
	"SSL_CERT_FILE", "SSL_CERT_DIR", "GIT_SSL_CAINFO",
	"KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT", "KUBERNETES_SERVICE_PORT_HTTPS",
	"TF_REGISTRY_CLIENT_TIMEOUT", "TF_REGISTRY_DISCOVERY_RETRY", "TF_PROVIDER_DOWNLOAD_RETRY",
}

const cliConfigEnv = "TF_CLI_CONFIG_FILE"

// environment builds the tool's environment: little of our own, then the
// request's, then what the engine relies on.
func (w *Workdir) environment(request *terraform.Request, root, cliConfig string) []string {
	env := map[string]string{
		"HOME": w.runDir(),
		// Git must fail rather than ask for a password.
		"GIT_TERMINAL_PROMPT": "0",
	}
	for _, entry := range os.Environ() {
		name, value, _ := strings.Cut(entry, "=")
		if slices.Contains(inherited, name) || slices.ContainsFunc(w.Inherit, func(pattern string) bool { return matchName(pattern, name) }) {
			env[name] = value
		}
	}
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
		cliConfigEnv:         cliConfig,
	})
	if cache := w.pluginCache(request); cache != "" {
		env["TF_PLUGIN_CACHE_DIR"] = cache
		// Without this the cache is used only for providers whose checksums
		// the lock file already has, so never for a first init.
		env["TF_PLUGIN_CACHE_MAY_BREAK_DEPENDENCY_LOCK_FILE"] = "1"
	}
	list := make([]string, 0, len(env))
	for _, name := range slices.Sorted(maps.Keys(env)) {
		list = append(list, name+"="+env[name])
	}
	return list
}

// matchName matches a name, or a prefix that ends in *.
func matchName(pattern, name string) bool {
	prefix, isPrefix := strings.CutSuffix(pattern, "*")
	return pattern == name || isPrefix && strings.HasPrefix(name, prefix)
}

func (w *Workdir) pluginCache(request *terraform.Request) string {
	if !request.PluginCache {
		return ""
	}
	return w.PluginCache
}

// cliConfig returns the CLI configuration that the tool is to read. There is
// always one: a missing one makes the tool print a warning into its event
// stream. The request's comes first, then the operator's, then an empty one.
func (w *Workdir) cliConfig(request *terraform.Request, root string) (string, error) {
	candidates := []string{request.Env[cliConfigEnv], w.CLIConfig, os.Getenv(cliConfigEnv)}
	if _, ok := request.Files[".terraformrc"]; ok {
		candidates = slices.Insert(candidates, 0, ".terraformrc")
	}
	for _, candidate := range candidates {
		if candidate == "" {
			continue
		}
		if !filepath.IsAbs(candidate) {
			candidate = filepath.Join(root, candidate)
		}
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

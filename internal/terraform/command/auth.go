package command

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/appthrust/capt/internal/terraform"
)

// authHelper is a credential helper of git that answers with variables of the environment. It
// stores nothing.
const authHelper = `!f() { test "$1" = get || exit 0; printf 'username=%%s\npassword=%%s\n' "$%[1]s" "$%[2]s"; }; f`

// fetches reports whether a command of the tool only fetches modules. Only such a command
// gets the credentials of the module. An init executes code of the module as well, such as
// an external key provider of its encryption.
func fetches(args []string) bool { return len(args) > 0 && args[0] == "get" }

// authenticate returns the environment with the credentials for fetching modules, and a
// function that removes the files to which it refers. Credentials are neither in arguments nor
// in the configuration of repositories.
func (s *executor) authenticate() (env []string, remove func(), err error) {
	dir := filepath.Join(s.RunDir, "auth")
	remove = func() { _ = os.RemoveAll(dir) }
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, remove, fmt.Errorf("creating the directory for credentials: %w", err)
	}
	env = slices.Clone(s.env)
	for i, auth := range s.auth {
		if auth.Password == "" {
			continue
		}
		user, password := fmt.Sprintf("CAPT_MODULE_USERNAME_%d", i), fmt.Sprintf("CAPT_MODULE_PASSWORD_%d", i)
		env = append(env, user+"="+auth.Username, password+"="+auth.Password, tokenVariable(auth.Host)+"="+auth.Password)
		helper := "credential.https://" + auth.Host + ".helper"
		// An empty value removes the helpers that were configured before.
		env = addGitConfig(env, helper, "")
		env = addGitConfig(env, helper, fmt.Sprintf(authHelper, user, password))
	}
	if config := dockerConfig(s.auth); config != nil {
		env = append(env, "HOME="+dir)
		if err := writeFile(filepath.Join(dir, ".docker", "config.json"), config); err != nil {
			return nil, remove, err
		}
	}
	ssh, err := sshConfig(dir, s.auth)
	if err != nil || ssh == "" {
		return env, remove, err
	}
	return append(env, "GIT_SSH_COMMAND=ssh -F "+shellQuote(ssh), "GIT_SSH_VARIANT=ssh"), remove, nil
}

// dockerConfig returns the config.json for OCI registries, or nil if there is none.
func dockerConfig(auths []terraform.ModuleAuth) []byte {
	merged := map[string]terraform.RegistryAuth{}
	for _, auth := range auths {
		maps.Copy(merged, auth.Registries)
	}
	if len(merged) == 0 {
		return nil
	}
	text, _ := json.Marshal(map[string]any{"auths": merged}) //nolint:errchkjson // It has strings only.
	return text
}

// sshConfig writes a configuration of OpenSSH with which each host gets its own key, and only
// if its host key is known. It returns the path, or nothing if there is no key.
func sshConfig(dir string, auths []terraform.ModuleAuth) (string, error) {
	var config strings.Builder
	for i, auth := range auths {
		if auth.PrivateKey == "" {
			continue
		}
		key, known := filepath.Join(dir, fmt.Sprintf("key-%d", i)), filepath.Join(dir, fmt.Sprintf("known_hosts-%d", i))
		// OpenSSH refuses a key that does not end with a line break.
		if err := writeFile(key, []byte(strings.TrimRight(auth.PrivateKey, "\n")+"\n")); err != nil {
			return "", err
		}
		if err := writeFile(known, []byte(auth.KnownHosts)); err != nil {
			return "", err
		}
		// known_hosts distinguishes ports.
		host, _, _ := strings.Cut(auth.Host, ":")
		fmt.Fprintf(&config, "Host %s\n  IdentityFile %s\n  UserKnownHostsFile %s\n", host, sshQuote(key), sshQuote(known))
	}
	if config.Len() == 0 {
		return "", nil
	}
	// The first value of an option counts.
	config.WriteString(`Host *
  IdentitiesOnly yes
  IdentityAgent none
  BatchMode yes
  StrictHostKeyChecking yes
  UserKnownHostsFile /dev/null
  GlobalKnownHostsFile /dev/null
`)
	path := filepath.Join(dir, "ssh_config")
	return path, writeFile(path, []byte(config.String()))
}

// sshQuote quotes a path for a configuration of OpenSSH, which replaces tokens such as %h.
func sshQuote(path string) string { return `"` + strings.ReplaceAll(path, "%", "%%") + `"` }

func shellQuote(text string) string { return `'` + strings.ReplaceAll(text, `'`, `'\''`) + `'` }

// addGitConfig adds a setting of git to an environment, after those that it has.
func addGitConfig(env []string, key, value string) []string {
	count := 0
	for _, entry := range env {
		if text, found := strings.CutPrefix(entry, "GIT_CONFIG_COUNT="); found {
			count, _ = strconv.Atoi(text)
		}
	}
	return append(env, "GIT_CONFIG_COUNT="+strconv.Itoa(count+1),
		fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", count, key), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", count, value))
}

// tokenVariable returns the variable from which the tool takes the token for a host.
func tokenVariable(host string) string {
	return "TF_TOKEN_" + strings.NewReplacer("-", "__", ".", "_").Replace(host)
}

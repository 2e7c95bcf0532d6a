package command

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/appthrust/capt/internal/terraform"
)

// Variables of git's helper with the credentials of a module.
const (
	authUsername = "CAPT_MODULE_USERNAME"
	authPassword = "CAPT_MODULE_PASSWORD"
)

// authHelper is a credential helper of git that answers with the variables. It stores
// nothing.
const authHelper = `!f() { test "$1" = get || exit 0; printf 'username=%s\npassword=%s\n' "$` + authUsername + `" "$` + authPassword + `"; }; f`

// fetches reports whether a command of the tool only fetches modules. Only such a command
// gets the credentials of the module. An init executes code of the module as well, such as
// an external key provider of its encryption.
func fetches(args []string) bool { return len(args) > 0 && args[0] == "get" }

// authenticate returns the environment with the credentials of the module, and a function
// that removes the files to which it refers. Credentials are neither in arguments nor in
// the configuration of repositories.
func (s *executor) authenticate() (env []string, remove func(), err error) {
	dir := filepath.Join(s.RunDir, "auth")
	remove = func() { _ = os.RemoveAll(dir) }
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, remove, fmt.Errorf("creating the directory for credentials: %w", err)
	}
	env = slices.Clone(s.env)
	switch s.auth.Method {
	case terraform.AuthHTTPS:
		helper := "credential.https://" + s.auth.Host + ".helper"
		env = append(env, authUsername+"="+s.auth.Username, authPassword+"="+s.auth.Password)
		// An empty value removes the helpers that were configured before.
		env = addGitConfig(env, helper, "")
		env = addGitConfig(env, helper, authHelper)
	case terraform.AuthSSH:
		env, err = s.authenticateSSH(env, dir)
	case terraform.AuthRegistry:
		env = append(env, tokenVariable(s.auth.Host)+"="+s.auth.Password)
	case terraform.AuthOCI:
		err = writeFile(filepath.Join(dir, ".docker", "config.json"), []byte(s.auth.DockerConfig))
		env = append(env, "HOME="+dir)
	}
	return env, remove, err
}

// authenticateSSH makes git use the key, and only servers whose host key is known.
func (s *executor) authenticateSSH(env []string, dir string) ([]string, error) {
	key, known := filepath.Join(dir, "key"), filepath.Join(dir, "known_hosts")
	// OpenSSH refuses a key that does not end with a line break.
	if err := writeFile(key, []byte(strings.TrimRight(s.auth.PrivateKey, "\n")+"\n")); err != nil {
		return nil, err
	}
	if err := writeFile(known, []byte(s.auth.KnownHosts)); err != nil {
		return nil, err
	}
	command := []string{
		"ssh", "-F", "/dev/null", "-i", shellQuote(key), "-o", "IdentitiesOnly=yes", "-o", "IdentityAgent=none", "-o", "BatchMode=yes",
		"-o", "StrictHostKeyChecking=yes", "-o", shellQuote(`UserKnownHostsFile="` + known + `"`), "-o", "GlobalKnownHostsFile=/dev/null",
	}
	return append(env, "GIT_SSH_COMMAND="+strings.Join(command, " "), "GIT_SSH_VARIANT=ssh"), nil
}

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

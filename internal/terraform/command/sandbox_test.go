package command

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/host/sandbox"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/command/binary"
)

// sandboxed returns a working directory with a sandbox. It is not in a directory that all
// users share, in which nothing can be hidden.
func sandboxed(t *testing.T, tool *binary.Tool) (w *Workdir, dir string) {
	t.Helper()
	home, err := os.UserHomeDir()
	if err == nil {
		dir, err = os.MkdirTemp(home, "capt-command-")
	}
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { _ = RemoveAll(dir) })
	if err := sandbox.Check(); err != nil {
		t.Skip(err)
	}
	if len((sandbox.Rules{Hidden: []string{dir}}).Exposed()) > 0 {
		t.Skipf("%s is in a directory that all users share", dir)
	}
	w, _ = workdir(t, tool)
	w.Dir, w.PluginCache, w.Hidden = filepath.Join(dir, "workspaces", "a"), filepath.Join(dir, "plugins"), []string{dir}
	if err := os.MkdirAll(w.PluginCache, 0o700); err != nil {
		t.Fatal(err)
	}
	return w, dir
}

// plant is a command of a module that changes the plugin cache, and is visible.
func plant(w *Workdir, seen string) string {
	return fmt.Sprintf("echo ran >> %s; echo x > %s/planted; exit 1", seen, w.PluginCache)
}

// Workspaces execute the providers that are in the plugin cache.
func TestInit_executesNoCodeThatChangesThePluginCache(t *testing.T) {
	for name, request := range map[string]func(g Gomega, script string) *terraform.Request{
		"a key provider of the encryption": func(_ Gomega, script string) *terraform.Request {
			request := inline(fmt.Sprintf(`terraform {
  encryption {
    key_provider "external" "spy" { command = ["sh", "-c", %q] }
    method "aes_gcm" "spy" { keys = key_provider.external.spy }
    state { method = method.aes_gcm.spy }
  }
}`, script))
			request.Backend = terraform.Backend{Type: terraform.BackendLocal}
			return request
		},
		"a program that fetches modules": func(_ Gomega, script string) *terraform.Request {
			request := inline(`module "m" { source = "git::ssh://git@example.invalid/m.git" }`)
			request.Env = map[string]string{"GIT_SSH_COMMAND": script + ";"}
			return request
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			w, dir := sandboxed(t, tofu(t))
			seen := filepath.Join(t.TempDir(), "seen")
			r := request(g, plant(w, seen))
			r.PluginCache = true
			_, err := Prepare(context.Background(), w, r)
			g.Expect(err).To(HaveOccurred())
			g.Expect(seen).To(BeAnExistingFile(), "the module was executed")
			g.Expect(filepath.Join(dir, "plugins", "planted")).NotTo(BeAnExistingFile())
		})
	}
}

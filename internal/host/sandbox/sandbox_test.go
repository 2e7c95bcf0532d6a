package sandbox_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/host/sandbox"
)

// newTree returns a directory that is not below a shared one, such as /tmp.
func newTree(t *testing.T) string {
	t.Helper()
	if err := sandbox.Check(); err != nil {
		t.Skip(err)
	}
	home, err := os.UserHomeDir()
	if err != nil {
		t.Skip(err)
	}
	dir, err := os.MkdirTemp(home, "capt-sandbox-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	for _, name := range []string{"home/.aws/credentials", "home/src/main.tf", "work/a/state", "work/b/state", "work/plugins/aws", "config"} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("content of "+name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if len((sandbox.Rules{Hidden: []string{dir}}).Exposed()) > 0 {
		t.Skipf("%s is in a shared directory", home)
	}
	return dir
}

// script runs a script in the sandbox and returns its output.
func script(t *testing.T, rules sandbox.Rules, dir, text string) string {
	t.Helper()
	var out bytes.Buffer
	cmd := exec.Command("/bin/sh", "-c", text)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &out, &out
	if err := rules.Start(cmd); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	return out.String()
}

func TestStart_hidesFiles(t *testing.T) {
	g := NewWithT(t)
	dir := newTree(t)
	in := func(name string) string { return filepath.Join(dir, name) }
	rules := sandbox.Rules{
		Hidden:   []string{in("home/.aws"), in("work"), in("config"), in("missing")},
		Visible:  []string{in("work/a")},
		ReadOnly: []string{in("work/plugins")},
	}
	g.Expect(rules.Exposed()).To(BeEmpty())
	for _, hidden := range []string{"home/.aws/credentials", "work/b/state", "config"} {
		g.Expect(script(t, rules, dir, "cat "+hidden)).To(ContainSubstring("Permission denied"), hidden)
		g.Expect(script(t, rules, dir, "echo x > "+hidden)).To(ContainSubstring("ermission denied"), hidden)
		g.Expect(script(t, rules, dir, "ln "+hidden+" work/a/link && cat work/a/link")).NotTo(ContainSubstring("content"), hidden)
		g.Expect(script(t, rules, dir, "mv "+hidden+" work/a/moved && cat work/a/moved")).NotTo(ContainSubstring("content"), hidden)
		g.Expect(os.ReadFile(in(hidden))).To(BeEquivalentTo("content of " + hidden))
	}
	g.Expect(script(t, rules, dir, "ln -s ../../config work/a/symlink; cat work/a/symlink")).NotTo(ContainSubstring("content"))
	g.Expect(script(t, rules, dir, "rm -rf work/b home/.aws")).To(ContainSubstring("ermission denied"))
	g.Expect(script(t, rules, dir, "cat work/plugins/aws")).To(Equal("content of work/plugins/aws"))
	g.Expect(script(t, rules, dir, "echo x >> work/plugins/aws; cp config work/plugins/evil; ln -s /bin/sh work/plugins/link; rm work/plugins/aws")).To(ContainSubstring("ermission denied"))
	g.Expect(os.ReadDir(in("work/plugins"))).To(HaveLen(1))
}

func TestStart_leavesTheRest(t *testing.T) {
	g := NewWithT(t)
	dir := newTree(t)
	rules := sandbox.Rules{Hidden: []string{filepath.Join(dir, "home/.aws"), filepath.Join(dir, "work")}, Visible: []string{filepath.Join(dir, "work/a")}}
	g.Expect(script(t, rules, dir, `
		set -e
		cat home/src/main.tf > /dev/null; echo x > home/src/new; mkdir -p home/src/d/e; mv home/src/new home/src/d/e/new; rm -r home/src/d
		echo y > work/a/state; mkdir work/a/sub; mv work/a/state work/a/sub/; ln work/a/sub/state work/a/linked; ln -s sub work/a/s; rm -r work/a/sub
		name=$(mktemp); echo z > $name; mv $name $name.moved; rm $name.moved
		echo > /dev/null; cat /proc/self/status > /dev/null; ls / /proc > /dev/null; ls work/b > /dev/null
		sh -c 'sleep 0 & wait'
		echo done`)).To(Equal("done\n"))
}

// The memory and the environment of another process may have credentials.
func TestStart_hidesOtherProcesses(t *testing.T) {
	g := NewWithT(t)
	dir := newTree(t)
	other := exec.Command("/bin/sleep", "60")
	other.Env = []string{"CANARY=canary-1234"}
	g.Expect(other.Start()).To(Succeed())
	t.Cleanup(func() { _ = other.Process.Kill(); _ = other.Wait() })
	steal := fmt.Sprintf("cd /proc/%d; true < mem && echo memory; readlink cwd && echo directory; grep canary environ && echo environment", other.Process.Pid)
	g.Expect(exec.Command("/bin/sh", "-c", steal).Output()).To(And(ContainSubstring("memory"), ContainSubstring("directory"), ContainSubstring("environment")), "the same user can")
	found := script(t, sandbox.Rules{Hidden: []string{filepath.Join(dir, "config")}}, dir, steal)
	g.Expect(found).NotTo(Or(ContainSubstring("memory\n"), ContainSubstring("directory\n")))
	if os.Geteuid() != 0 {
		// The kernel lets a process with CAP_PERFMON read the environment of all.
		g.Expect(found).NotTo(ContainSubstring("environment\n"))
	}
}

// Programs need /tmp, so what is in it cannot be hidden.
func TestExposed_areFilesInSharedDirectories(t *testing.T) {
	g := NewWithT(t)
	dir := t.TempDir()
	g.Expect(os.WriteFile(filepath.Join(dir, "file"), nil, 0o600)).To(Succeed())
	rules := sandbox.Rules{Hidden: []string{filepath.Join(dir, "file"), filepath.Join(dir, "missing")}}
	if info, err := os.Stat(os.TempDir()); err != nil || info.Mode().Perm()&0o002 == 0 {
		t.Skip("the temporary directory is not shared")
	}
	g.Expect(rules.Exposed()).To(HaveLen(1))
}

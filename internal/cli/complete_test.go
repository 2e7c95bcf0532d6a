package cli

import (
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/spf13/cobra"
)

func TestCompletion_ofEnvironments(t *testing.T) {
	g := NewWithT(t)
	home := t.TempDir()
	t.Setenv("XDG_STATE_HOME", home)
	for _, name := range []string{"demo", "second"} {
		g.Expect(os.MkdirAll(filepath.Join(home, "capt", name), 0o755)).To(Succeed())
	}
	g.Expect(os.WriteFile(filepath.Join(home, "capt", "notes"), nil, 0o600)).To(Succeed())

	down := newDownCommand(&Options{})
	names, directive := down.ValidArgsFunction(down, nil, "")
	g.Expect(names).To(ConsistOf("demo", "second"))
	g.Expect(directive).To(Equal(cobra.ShellCompDirectiveNoFileComp))
	names, _ = down.ValidArgsFunction(down, []string{"demo"}, "")
	g.Expect(names).To(BeEmpty())
	g.Expect(environmentNames(filepath.Join(home, "none"))).To(BeEmpty())
}

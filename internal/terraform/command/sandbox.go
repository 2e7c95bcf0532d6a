package command

import (
	"slices"

	"github.com/appthrust/capt/internal/host/sandbox"
)

// sandbox returns the rules of the tool, or nil if it has no sandbox. What is hidden
// depends on the executor. The directory of the workspace is always visible.
func (w *Workdir) sandbox() *sandbox.Rules {
	if len(w.Hidden) == 0 {
		return nil
	}
	return &sandbox.Rules{Hidden: w.Hidden, Visible: []string{w.Dir}, ReadOnly: []string{w.Tool.Path, w.Providers, w.CLIConfig}}
}

// sandboxFor returns the rules for a command. Only an init, which does not execute code
// of the module, changes the plugin cache that workspaces share.
func (s *Session) sandboxFor(args []string) *sandbox.Rules {
	if s.sandbox == nil {
		return nil
	}
	rules := *s.sandbox
	if s.plugins != "" {
		if len(args) > 0 && args[0] == "init" {
			rules.Visible = append(slices.Clip(rules.Visible), s.plugins)
		} else {
			rules.ReadOnly = append(slices.Clip(rules.ReadOnly), s.plugins)
		}
	}
	return &rules
}

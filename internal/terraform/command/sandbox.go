package command

import (
	"slices"
	"strings"

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

// guardsPlugins reports whether the sandbox protects the plugin cache that workspaces share.
func (s *executor) guardsPlugins() bool { return s.sandbox != nil && s.plugins != "" }

// installsPlugins reports whether a command installs providers, and executes nothing that the
// module chooses: it neither fetches modules nor uses the backend.
func installsPlugins(args []string) bool {
	return len(args) > 0 && args[0] == "init" && slices.Contains(args, "-backend=false") && slices.Contains(args, "-get=false")
}

// toolEnv returns the environment of a command. An init that must not write the plugin
// cache does not use it: it installs what is missing, such as the providers of a state, in
// the working directory.
func (s *executor) toolEnv(args []string) []string {
	if !s.guardsPlugins() || len(args) == 0 || args[0] != "init" || installsPlugins(args) {
		return s.env
	}
	return slices.DeleteFunc(slices.Clone(s.env), func(entry string) bool { return strings.HasPrefix(entry, pluginCacheEnv+"=") })
}

// sandboxFor returns the rules for a command. Only an init that executes no code of the
// module changes the plugin cache that workspaces share.
func (s *executor) sandboxFor(args []string) *sandbox.Rules {
	if s.sandbox == nil {
		return nil
	}
	rules := *s.sandbox
	if s.plugins != "" {
		if installsPlugins(args) {
			rules.Visible = append(slices.Clip(rules.Visible), s.plugins)
		} else {
			rules.ReadOnly = append(slices.Clip(rules.ReadOnly), s.plugins)
		}
	}
	return &rules
}

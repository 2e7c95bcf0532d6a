package cli

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/appthrust/capt/internal/message"
)

// captctl's names as a plugin of kubectl, and as the program that kubectl asks to
// complete the plugin's arguments.
const (
	pluginName    = "kubectl-capt"
	completerName = "kubectl_complete-capt"
)

// CalledAs makes the help speak of the name that the program was called by, and
// returns that name. The arguments begin with it.
func CalledAs(root *cobra.Command, args []string) string {
	name := strings.TrimSuffix(filepath.Base(args[0]), ".exe")
	switch name {
	case completerName:
		root.SetArgs(append([]string{cobra.ShellCompRequestCmd}, args[1:]...))
	case pluginName:
	default:
		return root.Name()
	}
	name = "kubectl capt"
	root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: name}
	rename(root, name)
	return name
}

// rename lets the examples name the program as it was called.
func rename(cmd *cobra.Command, name string) {
	cmd.Example = strings.ReplaceAll(cmd.Example, "captctl ", name+" ")
	for _, child := range cmd.Commands() {
		rename(child, name)
	}
}

// group makes a command that only gathers others: alone it shows its help, and
// a name that none of them has is an error.
func group(cmd *cobra.Command) *cobra.Command {
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		var names []string
		for _, child := range cmd.Commands() {
			names = append(names, child.Name())
		}
		unknown := fmt.Sprintf("unknown command %q for %q", args[0], cmd.CommandPath())
		if suggestion := message.Suggestion(args[0], names); suggestion != "" {
			return errors.New(unknown + suggestion)
		}
		return fmt.Errorf("%s: see %s --help", unknown, cmd.CommandPath())
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	return cmd
}

// guard gives the errors of all commands their last form: what was called
// wrongly ends with 2, and what the cluster says becomes a sentence.
func (o *Options) guard(cmd *cobra.Command) {
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return &Exit{Code: 2, Err: fmt.Errorf("%w (see %s --help)", err, cmd.CommandPath())}
	})
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if err := check(cmd, args); err != nil {
				return wrong(cmd, err)
			}
			return nil
		}
	}
	if run := cmd.RunE; run != nil {
		cmd.RunE = func(cmd *cobra.Command, args []string) error { return o.explain(run(cmd, args)) }
	}
	for _, child := range cmd.Commands() {
		o.guard(child)
	}
}

// wrong is the error of a command that was called wrongly.
func wrong(cmd *cobra.Command, err error) error {
	if _, decided := errors.AsType[*Exit](err); decided {
		return err
	}
	if !strings.Contains(err.Error(), ": ") {
		err = fmt.Errorf("%w: see %s --help", err, cmd.CommandPath())
	}
	return &Exit{Code: 2, Err: err}
}

// oneName takes the name of one object.
func oneName(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 {
			return fmt.Errorf("give one %s: %s", what, cmd.UseLine())
		}
		return nil
	}
}

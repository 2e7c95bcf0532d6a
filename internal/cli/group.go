package cli

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/appthrust/capt/internal/message"
)

// The names of captctl as a kubectl plugin, and as the program that kubectl runs
// to complete the plugin's arguments.
const (
	pluginName    = "kubectl-capt"
	completerName = "kubectl_complete-capt"
)

// CalledAs adapts the help to the name by which the program was called, and
// returns that name. The first of args is the path of the program.
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
	renameExamples(root, name)
	return name
}

// renameExamples replaces captctl by name in the examples of all commands.
func renameExamples(cmd *cobra.Command, name string) {
	cmd.Example = strings.ReplaceAll(cmd.Example, "captctl ", name+" ")
	for _, child := range cmd.Commands() {
		renameExamples(child, name)
	}
}

// group turns a command into a parent of others. It prints its help if it is
// called without a subcommand, and an error for an unknown one.
func group(cmd *cobra.Command, children ...*cobra.Command) *cobra.Command {
	cmd.AddCommand(children...)
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		var names []string
		for _, child := range cmd.Commands() {
			names = append(names, child.Name())
		}
		problem := fmt.Sprintf("unknown command %q for %q", args[0], cmd.CommandPath())
		if suggestion := message.Suggestion(args[0], names); suggestion != "" {
			return errors.New(problem + suggestion)
		}
		return fmt.Errorf("%s: see %s --help", problem, cmd.CommandPath())
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	return cmd
}

// former returns a command under a former name. It is hidden from the help, and says which command
// replaces it.
func (o *Options) former(replacement, name string, cmd *cobra.Command) *cobra.Command {
	_, arguments, _ := strings.Cut(cmd.Use, " ")
	cmd.Use, cmd.Hidden, cmd.Aliases = strings.TrimSpace(name+" "+arguments), true, nil
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		fmt.Fprintf(o.Err, "%s is now called %s\n", cmd.CommandPath(), strings.Replace(replacement, "captctl", o.program(), 1))
		return run(cmd, args)
	}
	return cmd
}

// wrapErrors gives the errors of a command and its subcommands their final form:
// wrong usage has exit code 2, and errors of the cluster become one sentence.
func (o *Options) wrapErrors(cmd *cobra.Command) {
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if strings.Contains(err.Error(), "shorthand flag: 'f'") && strings.Contains(cmd.Use, "FILE") {
			err = fmt.Errorf("%w: files are arguments, without a flag", err)
		}
		return &Exit{Code: 2, Err: fmt.Errorf("%w (see %s --help)", err, cmd.CommandPath())}
	})
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if err := check(cmd, args); err != nil {
				return wrongArguments(cmd, err)
			}
			return nil
		}
	}
	// Cobra would return the errors of flags that exclude or require each other as they are.
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		if err := cmp.Or(cmd.ValidateRequiredFlags(), cmd.ValidateFlagGroups()); err != nil {
			return wrongArguments(cmd, err)
		}
		return nil
	}
	if run := cmd.RunE; run != nil {
		cmd.RunE = func(cmd *cobra.Command, args []string) error { return o.explain(run(cmd, args)) }
	}
	for _, child := range cmd.Commands() {
		o.wrapErrors(child)
	}
}

// wrongArguments returns the error of a command with wrong arguments. It refers to
// the help unless err has a hint of its own after a colon.
func wrongArguments(cmd *cobra.Command, err error) error {
	if _, decided := errors.AsType[*Exit](err); decided {
		return err
	}
	if !strings.Contains(err.Error(), ": ") {
		err = fmt.Errorf("%w: see %s --help", err, cmd.CommandPath())
	}
	return &Exit{Code: 2, Err: err}
}

// oneName accepts exactly one argument, the name of an object.
func oneName(kind string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 {
			return fmt.Errorf("expected the name of one %s: %s", kind, cmd.UseLine())
		}
		return nil
	}
}

package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// newReferenceCommand returns a hidden command that prints the page of all commands.
func newReferenceCommand(o *Options) *cobra.Command {
	return &cobra.Command{
		Use:     "reference",
		Short:   "Print the documentation of all commands in Markdown",
		Example: "  captctl reference > commands.md",
		Hidden:  true,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			fmt.Fprint(o.Out, reference(cmd.Root()))
			return nil
		},
	}
}

// reference returns a page with the help of each command.
func reference(root *cobra.Command) string {
	var page strings.Builder
	page.WriteString("# All commands of captctl\n\n<!-- Written by `make generate` from the commands. -->\n<!-- blocks not run: the names are examples -->\n\n" +
		"The same text as `captctl COMMAND --help`. Flags that select the management cluster, such as `--kubeconfig`, `--context` and `--namespace`, are those of kubectl.\n")
	addCommand(&page, root)
	return page.String()
}

func addCommand(page *strings.Builder, cmd *cobra.Command) {
	if cmd.Hidden || cmd.Name() == "help" || cmd.Name() == "completion" {
		return
	}
	if cmd.Runnable() && cmd.HasParent() && !cmd.HasSubCommands() {
		description := cmd.Long
		if description == "" {
			description = cmd.Short + "."
		}
		fmt.Fprintf(page, "\n## %s\n\n%s\n\n```text\n%s\n```\n", cmd.CommandPath(), strings.NewReplacer("<", "&lt;", ">", "&gt;").Replace(description), cmd.UseLine())
		if cmd.Example != "" {
			fmt.Fprintf(page, "\n```sh\n%s\n```\n", strings.TrimRight(unindent(cmd.Example), "\n"))
		}
		addFlags(page, cmd.LocalNonPersistentFlags())
	}
	for _, child := range cmd.Commands() {
		addCommand(page, child)
	}
}

func addFlags(page *strings.Builder, flags *pflag.FlagSet) {
	rows := ""
	flags.VisitAll(func(flag *pflag.Flag) {
		if flag.Hidden || flag.Name == "help" {
			return
		}
		name := "`--" + flag.Name + "`"
		if flag.Shorthand != "" {
			name = "`-" + flag.Shorthand + "`, " + name
		}
		usage := strings.ReplaceAll(flag.Usage, "|", `\|`)
		if flag.DefValue != "" && flag.DefValue != "false" && flag.DefValue != "[]" {
			usage += " Default: `" + flag.DefValue + "`."
		}
		rows += "| " + name + " | " + usage + " |\n"
	})
	if rows != "" {
		page.WriteString("\n| flag | description |\n|---|---|\n" + rows)
	}
}

// unindent removes the two spaces before each line of an example.
func unindent(text string) string {
	return strings.TrimPrefix(strings.ReplaceAll(text, "\n  ", "\n"), "  ")
}

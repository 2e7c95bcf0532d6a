package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/appthrust/capt/internal/client/text"
)

func newEnvCommand(o *Options) *cobra.Command {
	var flags environmentFlags
	var output text.Output
	cmd := &cobra.Command{
		Use:   "env [NAME]",
		Short: "Print how a shell connects to a local management cluster",
		Long: `Print the variables with which a shell uses a local management cluster: KUBECONFIG,
and PATH with the kubectl, captctl and tofu of the environment first.` + environmentHelp,
		Example: `  eval "$(captctl env)"
  captctl env -o json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			env, status, err := flags.status(cmd.Context(), args)
			if err != nil {
				return err
			}
			if !status.Exists {
				return fmt.Errorf("environment %s does not exist in %s: create it with captctl up%s", env.Name, env.Dir, environmentArguments(cmd, env))
			}
			if output == "json" {
				return text.PrintJSON(o.Out, map[string]string{"kubeconfig": env.Kubeconfig(), "bin": env.BinDir()})
			}
			fmt.Fprintf(o.Out, "export KUBECONFIG=%s\nexport PATH=%s:\"$PATH\"\n", shellWord(env.Kubeconfig()), shellWord(env.BinDir()))
			return nil
		},
	}
	flags.add(cmd)
	addFormat(cmd, &output, "json")
	return cmd
}

// shellWord quotes a word for a POSIX shell, if it needs quotes.
func shellWord(word string) string {
	isPlain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_-./:=@%+,", r)
	}
	if word != "" && strings.IndexFunc(word, func(r rune) bool { return !isPlain(r) }) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

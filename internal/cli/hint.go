package cli

import (
	"cmp"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cli/operate"
)

// hinted matches the commands in messages that connect to the management cluster.
var hinted = regexp.MustCompile(`\b(captctl (?:addon|approve|cancel|describe|doctor|drift|history|logs|migrate|plan|policy|reject|retry|run|shell|state|ui|unlock)|kubectl (?:annotate|apply|cluster-info|create|delete|describe|edit|get|label|logs|patch|rollout|scale|wait))\b`)

// hints adds the flags with which the user chose the cluster and the namespace to the
// commands in a message, so that they work when they are pasted. They have the name by which
// captctl was called.
func (o *Options) hints(text string) string { return o.hintsIn(*o.Kube.Namespace, text) }

// program returns the name by which captctl was called.
func (o *Options) program() string {
	if o.root == nil {
		return "captctl"
	}
	return cmp.Or(o.root.Annotations[cobra.CommandDisplayNameAnnotation], o.root.Name())
}

// hintsIn is hints for commands in another namespace.
func (o *Options) hintsIn(namespace, text string) string {
	var flags strings.Builder
	for _, flag := range [][2]string{{"--kubeconfig", *o.Kube.KubeConfig}, {"--context", *o.Kube.Context}, {"-n", namespace}} {
		if flag[1] != "" {
			flags.WriteString(" " + flag[0] + " " + shellWord(flag[1]))
		}
	}
	return hinted.ReplaceAllStringFunc(text, func(command string) string {
		program, rest, _ := strings.Cut(command, " ")
		if program == "captctl" {
			program = o.program()
		}
		return program + flags.String() + " " + rest
	})
}

// followHint returns the command that follows the run of a workspace, which the user called
// by a name. The logs of a workspace that runs in another namespace are there.
func (o *Options) followHint(apply *infrav1.WorkspaceTemplateApply, name string) string {
	if namespace, hosted := operate.HostOf(apply); namespace != "" {
		return o.hintsIn(namespace, "captctl logs -f "+hosted) + ", if you may"
	}
	return o.hints("captctl logs -f " + name)
}

package cli

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/appthrust/capt/internal/client/operate"
)

// hinted matches the commands in messages that connect to the management cluster.
var hinted = regexp.MustCompile(`\b(captctl (?:addon|adopt|approve|cancel|describe|doctor|drift|get|history|logs|migrate|plan|policy|reconcile|reject|resume|rollout|run|shell|show|state|suspend|ui|unlock)|kubectl (?:annotate|apply|cluster-info|create|delete|describe|edit|get|label|logs|patch|rollout|scale|wait))\b`)

// hintedClusterctl matches the commands of clusterctl, which have flags of their own after the
// command.
var hintedClusterctl = regexp.MustCompile(`\bclusterctl (?:init|move|delete|(?:describe|get|upgrade) [a-z]+)\b`)

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
	flags := flagWords("--kubeconfig", *o.Kube.KubeConfig, "--context", *o.Kube.Context, "-n", namespace)
	text = hinted.ReplaceAllStringFunc(text, func(command string) string {
		program, rest, _ := strings.Cut(command, " ")
		if program == "captctl" {
			program = o.program()
		}
		return program + flags + " " + rest
	})
	return hintedClusterctl.ReplaceAllStringFunc(text, func(command string) string {
		return command + flagWords("--kubeconfig", *o.Kube.KubeConfig, "--kubeconfig-context", *o.Kube.Context)
	})
}

// flagWords returns flags and their values as words of a command, without those that have no
// value.
func flagWords(flags ...string) string {
	var words strings.Builder
	for pair := range slices.Chunk(flags, 2) {
		if pair[1] != "" {
			words.WriteString(" " + pair[0] + " " + shellWord(pair[1]))
		}
	}
	return words.String()
}

// followHint returns the command that follows the run of a workspace. The logs of a workspace
// that runs in another namespace are there.
func (w *workspaceCall) followHint() string {
	if namespace, hosted := operate.HostOf(w.apply); namespace != "" {
		return w.hintsIn(namespace, "captctl logs -f "+hosted) + ", if you may"
	}
	return w.hints("captctl logs -f " + w.args[0])
}

package cli

import "k8s.io/cli-runtime/pkg/genericclioptions"

// HintsOf returns a message with the flags of a user who chose a context.
func HintsOf(text string) string {
	o := &Options{Kube: genericclioptions.NewConfigFlags(true)}
	*o.Kube.Context = "prod"
	return o.hints(text)
}

package cli

import (
	"context"
	"io"

	"k8s.io/cli-runtime/pkg/genericclioptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// HintsOf returns a message with the flags of a user who chose a context.
func HintsOf(text string) string {
	o := &Options{Kube: genericclioptions.NewConfigFlags(true)}
	*o.Kube.Context = "prod"
	return o.hints(text)
}

// WaitUntil waits for a workspace, and prints the progress to err.
func WaitUntil(ctx context.Context, c client.WithWatch, apply *infrav1.WorkspaceTemplateApply, err io.Writer, done func(*infrav1.WorkspaceTemplateApply) bool) error {
	o := &Options{Streams: Streams{Err: err}, Kube: genericclioptions.NewConfigFlags(true)}
	w := &workspaceCall{Options: o, client: c, apply: apply}
	_, failed := w.waitUntil(ctx, nil, "", func(s *observed) bool { return done(s.apply) })
	return failed
}

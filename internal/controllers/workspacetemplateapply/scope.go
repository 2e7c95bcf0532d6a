package workspacetemplateapply

import (
	"context"
	"fmt"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/execution"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/history"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/runs"
	"github.com/appthrust/capt/internal/terraform/template"
)

func (r *Reconciler) scope(ctx context.Context, apply *infrav1.WorkspaceTemplateApply, _ *clusterv1.Cluster) (*execution.Scope, error) {
	s := execution.NewScope(&runs.Workspace{Apply: apply, Now: r.Now()})
	s.DefaultAccount, s.MaxTimeout = r.Limits.DefaultServiceAccount, r.MaxTimeout
	if err := r.store.ReadRuns(ctx, s.Workspace); err != nil {
		return nil, err
	}
	// The step dependencies waits for a template that does not exist.
	known := template.Sources{Apply: apply, Template: &infrav1.WorkspaceTemplate{}}
	if err := r.Client.Get(ctx, apply.Spec.TemplateRef.Key(apply.Namespace), known.Template); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading the template: %w", err)
	}
	s.Template, s.Policy = known.Template, template.PolicyOf(known)
	var err error
	if s.Policies, err = r.resolver.PoliciesOf(ctx, apply, known.Template); err != nil {
		return nil, err
	}
	history.ExpectViolations(s.Policies)
	return s, nil
}

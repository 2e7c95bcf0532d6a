package validate

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cli/render"
)

// checkClusters renders the workspaces of clusters and nodes. It reports fields without
// a variable in the template, and variables without a value.
func (c *checker) checkClusters(ctx context.Context) error {
	if Failed(c.findings) {
		// The result of invalid objects would be misleading.
		return nil
	}
	origin := map[client.Object]*Object{}
	var objects []client.Object
	for _, o := range c.objects {
		if typed := c.typed[o]; typed != nil {
			typed.GetObjectKind().SetGroupVersionKind(o.GroupVersionKind())
			objects = append(objects, typed)
			origin[typed] = o
		}
	}
	rendering, err := render.Render(ctx, objects, render.Options{})
	if err != nil {
		return err
	}
	for _, p := range rendering.Problems {
		if _, isWorkspace := p.Object.(*infrav1.WorkspaceTemplateApply); isWorkspace {
			// checkWorkspaces reports it in more detail.
			continue
		}
		if o := origin[p.Object]; o != nil {
			c.add(o.finding(Error, RuleVariable, "spec", p.Message))
		}
	}
	return nil
}

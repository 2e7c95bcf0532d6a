package validate

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cli/render"
)

// checkClusters has CAPT work out what it would make of clusters and nodes, and
// finds fields that their templates have no variable for, and variables that
// they leave without a value.
func (s *set) checkClusters(ctx context.Context) error {
	if Failed(s.findings) {
		// What is made of something wrong tells nothing more.
		return nil
	}
	origin := map[client.Object]*Object{}
	var objects []client.Object
	for _, o := range s.objects {
		if typed := s.typed[o]; typed != nil {
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
			// It was looked at more closely.
			continue
		}
		if o := origin[p.Object]; o != nil {
			s.add(o.finding(Error, RuleVariable, "spec", p.Message))
		}
	}
	return nil
}

package account

import (
	"context"
	"net/http"
	"net/url"
	"strings"
)

// eksPath returns the path of an object of the cluster of a run.
func (r Run) eksPath(segments ...string) string {
	path := []string{"/clusters", r.Cluster()}
	for _, s := range segments {
		path = append(path, url.PathEscape(s))
	}
	return strings.Join(path, "/")
}

// eksChildren returns the objects of one kind that a cluster has, and those that block its
// deletion.
func (a *Account) eksChildren(ctx context.Context, run Run, kind, list, text string) ([]resource, error) {
	var answer map[string][]string
	err := a.call(ctx, plainCall{service: "eks", method: http.MethodGet, path: run.eksPath(kind)}, &answer)
	if isGone(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var found []resource
	for _, name := range answer[list] {
		found = append(found, resource{text + " " + name, func(ctx context.Context) error {
			return a.call(ctx, plainCall{service: "eks", method: http.MethodDelete, path: run.eksPath(kind, name)}, nil)
		}})
	}
	return found, nil
}

func (a *Account) nodeGroups(ctx context.Context, run Run) ([]resource, error) {
	return a.eksChildren(ctx, run, "node-groups", "nodegroups", "node group")
}

func (a *Account) fargateProfiles(ctx context.Context, run Run) ([]resource, error) {
	return a.eksChildren(ctx, run, "fargate-profiles", "fargateProfileNames", "Fargate profile")
}

// clusters returns the cluster of a run, unless another one has its name.
func (a *Account) clusters(ctx context.Context, run Run) ([]resource, error) {
	var answer struct {
		Cluster struct {
			Tags map[string]string `json:"tags"`
		} `json:"cluster"`
	}
	err := a.call(ctx, plainCall{service: "eks", method: http.MethodGet, path: run.eksPath()}, &answer)
	if isGone(err) {
		return nil, nil
	}
	if err != nil || answer.Cluster.Tags[TagKey] != run.ID {
		return nil, err
	}
	return []resource{{"EKS cluster " + run.Cluster(), func(ctx context.Context) error {
		return a.call(ctx, plainCall{service: "eks", method: http.MethodDelete, path: run.eksPath()}, nil)
	}}}, nil
}

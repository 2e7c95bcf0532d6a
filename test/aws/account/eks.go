package account

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/eks"
)

func (a *Account) nodeGroups(ctx context.Context, run Run) ([]resource, error) {
	cluster := run.Cluster()
	out, err := a.eks.ListNodegroups(ctx, &eks.ListNodegroupsInput{ClusterName: &cluster})
	if isGone(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing node groups: %w", err)
	}
	var found []resource
	for _, name := range out.Nodegroups {
		found = append(found, resource{"node group " + name, calling(a.eks.DeleteNodegroup, &eks.DeleteNodegroupInput{ClusterName: &cluster, NodegroupName: &name})})
	}
	return found, nil
}

func (a *Account) fargateProfiles(ctx context.Context, run Run) ([]resource, error) {
	cluster := run.Cluster()
	out, err := a.eks.ListFargateProfiles(ctx, &eks.ListFargateProfilesInput{ClusterName: &cluster})
	if isGone(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing Fargate profiles: %w", err)
	}
	var found []resource
	for _, name := range out.FargateProfileNames {
		found = append(found, resource{"Fargate profile " + name, calling(a.eks.DeleteFargateProfile, &eks.DeleteFargateProfileInput{ClusterName: &cluster, FargateProfileName: &name})})
	}
	return found, nil
}

// clusters returns the cluster of a run, unless another one has its name.
func (a *Account) clusters(ctx context.Context, run Run) ([]resource, error) {
	cluster := run.Cluster()
	out, err := a.eks.DescribeCluster(ctx, &eks.DescribeClusterInput{Name: &cluster})
	if isGone(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the cluster: %w", err)
	}
	if out.Cluster.Tags[TagKey] != run.ID {
		return nil, nil
	}
	return []resource{{"EKS cluster " + cluster, calling(a.eks.DeleteCluster, &eks.DeleteClusterInput{Name: &cluster})}}, nil
}

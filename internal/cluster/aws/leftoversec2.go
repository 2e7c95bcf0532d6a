package aws

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	sdkaws "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/iam"
)

// cniInterfacePrefix begins the descriptions of the VPC CNI's network interfaces, in lower
// case: those of nodes are aws-K8S-i-…, those of pods with security groups of their own
// aws-k8s-branch-eni.
const cniInterfacePrefix = "aws-k8s-"

// attachTime is how long the VPC CNI may take to attach a network interface.
const attachTime = time.Minute

// tagged returns a filter for a tag.
func tagged(key, value string) types.Filter {
	return types.Filter{Name: new("tag:" + key), Values: []string{value}}
}

// tagsOf returns tags by key.
func tagsOf(tags []types.Tag) map[string]string {
	byKey := map[string]string{}
	for _, tag := range tags {
		byKey[sdkaws.ToString(tag.Key)] = sdkaws.ToString(tag.Value)
	}
	return byKey
}

// instances returns the instances of Karpenter that still exist.
func (s *sweep) instances(ctx context.Context) ([]leftover, error) {
	var found []leftover
	pages := ec2.NewDescribeInstancesPaginator(s.ec2, &ec2.DescribeInstancesInput{Filters: []types.Filter{
		tagged(clusterTagPrefix+s.query.Cluster, ownedTag),
		{Name: new("instance-state-name"), Values: []string{"pending", "running", "stopping", "stopped"}},
	}})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, explain("ec2:DescribeInstances", err)
		}
		for _, reservation := range page.Reservations {
			for _, instance := range reservation.Instances {
				tags, id := tagsOf(instance.Tags), sdkaws.ToString(instance.InstanceId)
				_, current := tags[nodePoolTag]
				_, old := tags[provisionerTag]
				if managed := instance.Operator; managed != nil && sdkaws.ToBool(managed.Managed) {
					// EKS Auto Mode ends its instances with the cluster, and refuses others to.
					continue
				}
				if !current && !old || s.isManaged(id) || !s.inVPC(sdkaws.ToString(instance.VpcId)) {
					continue
				}
				found = append(found, leftover{describe("instance", id, tags["Name"]), func(ctx context.Context) error {
					_, err := s.ec2.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: []string{id}})
					return explain("ec2:TerminateInstances", err)
				}})
			}
		}
	}
	return found, nil
}

// interfaces returns network interfaces of the VPC CNI that are not attached. They stay if
// an instance is terminated before the CNI deletes them, and prevent the deletion of
// their security group and subnet.
func (s *sweep) interfaces(ctx context.Context) ([]leftover, error) {
	queries := []types.Filter{tagged(cniTag, s.query.Cluster), tagged(eksClusterTag, s.query.Cluster), tagged(clusterTagPrefix+s.query.Cluster, ownedTag)}
	if groups := s.managedGroups(); len(groups) > 0 {
		// Older versions of the CNI do not set the tag.
		queries = append(queries, types.Filter{Name: new("group-id"), Values: groups})
	}
	var found []leftover
	seen := map[string]bool{}
	for _, filter := range queries {
		pages := ec2.NewDescribeNetworkInterfacesPaginator(s.ec2, &ec2.DescribeNetworkInterfacesInput{Filters: []types.Filter{filter}})
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx)
			if err != nil {
				return nil, explain("ec2:DescribeNetworkInterfaces", err)
			}
			for _, each := range page.NetworkInterfaces {
				id := sdkaws.ToString(each.NetworkInterfaceId)
				if seen[id] || !s.isForgotten(each) {
					continue
				}
				seen[id] = true
				found = append(found, leftover{describe("network interface", id, sdkaws.ToString(each.Description)), func(ctx context.Context) error {
					_, err := s.ec2.DeleteNetworkInterface(ctx, &ec2.DeleteNetworkInterfaceInput{NetworkInterfaceId: new(id)})
					return explain("ec2:DeleteNetworkInterface", err)
				}})
			}
		}
	}
	return found, nil
}

// managedGroups returns the security groups that runs manage.
func (s *sweep) managedGroups() []string {
	return slices.DeleteFunc(slices.Clone(s.query.Managed), func(id string) bool { return !strings.HasPrefix(id, "sg-") })
}

// isForgotten reports whether a network interface of the CNI is not used and is not about
// to be attached. A security group can be that of several clusters.
func (s *sweep) isForgotten(each types.NetworkInterface) bool {
	tags := tagsOf(each.TagSet)
	created, err := time.Parse(time.RFC3339, tags[cniCreatedTag])
	isNew := err == nil && time.Since(created) < attachTime
	return each.Status == types.NetworkInterfaceStatusAvailable && strings.HasPrefix(strings.ToLower(sdkaws.ToString(each.Description)), cniInterfacePrefix) &&
		!isNew && !s.isForeign(tags) && !s.isManaged(sdkaws.ToString(each.NetworkInterfaceId)) && s.inVPC(sdkaws.ToString(each.VpcId))
}

// isForeign reports whether tags name another cluster.
func (s *sweep) isForeign(tags map[string]string) bool {
	for key, value := range tags {
		cluster, owned := strings.CutPrefix(key, clusterTagPrefix)
		switch {
		case owned && value == ownedTag && cluster != s.query.Cluster:
			return true
		case (key == cniTag || key == eksClusterTag) && value != s.query.Cluster:
			return true
		}
	}
	return false
}

// securityGroups returns the security groups of load balancers.
func (s *sweep) securityGroups(ctx context.Context) ([]leftover, error) {
	var found []leftover
	seen := map[string]bool{}
	for _, filter := range []types.Filter{
		tagged(clusterTagPrefix+s.query.Cluster, ownedTag), tagged(loadBalancerTag, s.query.Cluster), tagged(eksClusterTag, s.query.Cluster),
	} {
		groups, err := s.describeGroups(ctx, filter)
		if err != nil {
			return nil, err
		}
		for _, group := range groups {
			id := sdkaws.ToString(group.GroupId)
			if seen[id] || !s.isForgottenGroup(group) {
				continue
			}
			seen[id] = true
			found = append(found, leftover{describe("security group", id, sdkaws.ToString(group.GroupName)), func(ctx context.Context) error {
				return s.deleteGroup(ctx, id)
			}})
		}
	}
	return found, nil
}

// isForgottenGroup reports whether a controller of the cluster created a security group.
// The group of nodes, which Terraform creates, has the tag of the cluster too.
func (s *sweep) isForgottenGroup(group types.SecurityGroup) bool {
	tags := tagsOf(group.Tags)
	if s.isManaged(sdkaws.ToString(group.GroupId)) || !s.inVPC(sdkaws.ToString(group.VpcId)) {
		return false
	}
	if tags[controlPlaneTag] != "" {
		// EKS deletes its group with the cluster.
		return false
	}
	return tags[loadBalancerTag] == s.query.Cluster || tags[eksClusterTag] == s.query.Cluster ||
		strings.HasPrefix(sdkaws.ToString(group.GroupName), "k8s-elb-")
}

func (s *sweep) describeGroups(ctx context.Context, filter types.Filter) ([]types.SecurityGroup, error) {
	var all []types.SecurityGroup
	pages := ec2.NewDescribeSecurityGroupsPaginator(s.ec2, &ec2.DescribeSecurityGroupsInput{Filters: []types.Filter{filter}})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, explain("ec2:DescribeSecurityGroups", err)
		}
		all = append(all, page.SecurityGroups...)
	}
	return all, nil
}

// deleteGroup deletes a security group that no network interface uses, and before it the
// rules of other groups that refer to it. Controllers add such rules to the group of the
// nodes.
func (s *sweep) deleteGroup(ctx context.Context, id string) error {
	users, err := s.ec2.DescribeNetworkInterfaces(ctx, &ec2.DescribeNetworkInterfacesInput{
		Filters: []types.Filter{{Name: new("group-id"), Values: []string{id}}},
	})
	if err != nil {
		return explain("ec2:DescribeNetworkInterfaces", err)
	}
	if len(users.NetworkInterfaces) > 0 {
		return fmt.Errorf("network interface %s uses it", sdkaws.ToString(users.NetworkInterfaces[0].NetworkInterfaceId))
	}
	for _, name := range []string{"ip-permission.group-id", "egress.ip-permission.group-id"} {
		users, err := s.describeGroups(ctx, types.Filter{Name: &name, Values: []string{id}})
		if err != nil {
			return err
		}
		for _, user := range users {
			if other := sdkaws.ToString(user.GroupId); other != id {
				if err := s.revoke(ctx, other, id); err != nil {
					return err
				}
			}
		}
	}
	_, err = s.ec2.DeleteSecurityGroup(ctx, &ec2.DeleteSecurityGroupInput{GroupId: new(id)})
	return explain("ec2:DeleteSecurityGroup", err)
}

// revoke deletes the rules of a security group that refer to another one.
func (s *sweep) revoke(ctx context.Context, group, referenced string) error {
	var ingress, egress []string
	pages := ec2.NewDescribeSecurityGroupRulesPaginator(s.ec2, &ec2.DescribeSecurityGroupRulesInput{
		Filters: []types.Filter{{Name: new("group-id"), Values: []string{group}}},
	})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return explain("ec2:DescribeSecurityGroupRules", err)
		}
		for _, rule := range page.SecurityGroupRules {
			switch {
			case rule.ReferencedGroupInfo == nil || sdkaws.ToString(rule.ReferencedGroupInfo.GroupId) != referenced:
			case sdkaws.ToBool(rule.IsEgress):
				egress = append(egress, sdkaws.ToString(rule.SecurityGroupRuleId))
			default:
				ingress = append(ingress, sdkaws.ToString(rule.SecurityGroupRuleId))
			}
		}
	}
	if len(ingress) > 0 {
		_, err := s.ec2.RevokeSecurityGroupIngress(ctx, &ec2.RevokeSecurityGroupIngressInput{GroupId: &group, SecurityGroupRuleIds: ingress})
		if err != nil {
			return explain("ec2:RevokeSecurityGroupIngress", err)
		}
	}
	if len(egress) > 0 {
		_, err := s.ec2.RevokeSecurityGroupEgress(ctx, &ec2.RevokeSecurityGroupEgressInput{GroupId: &group, SecurityGroupRuleIds: egress})
		return explain("ec2:RevokeSecurityGroupEgress", err)
	}
	return nil
}

// launchTemplates returns the launch templates of Karpenter.
func (s *sweep) launchTemplates(ctx context.Context) ([]leftover, error) {
	var found []leftover
	seen := map[string]bool{}
	for _, filter := range []types.Filter{tagged(eksClusterTag, s.query.Cluster), tagged(karpenterClusterTag, s.query.Cluster)} {
		pages := ec2.NewDescribeLaunchTemplatesPaginator(s.ec2, &ec2.DescribeLaunchTemplatesInput{Filters: []types.Filter{filter}})
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx)
			if err != nil {
				return nil, explain("ec2:DescribeLaunchTemplates", err)
			}
			for _, template := range page.LaunchTemplates {
				id := sdkaws.ToString(template.LaunchTemplateId)
				if _, karpenter := tagsOf(template.Tags)[nodeClassTag]; !karpenter || seen[id] || s.isManaged(id) {
					continue
				}
				seen[id] = true
				found = append(found, leftover{describe("launch template", id, sdkaws.ToString(template.LaunchTemplateName)), func(ctx context.Context) error {
					_, err := s.ec2.DeleteLaunchTemplate(ctx, &ec2.DeleteLaunchTemplateInput{LaunchTemplateId: new(id)})
					return explain("ec2:DeleteLaunchTemplate", err)
				}})
			}
		}
	}
	return found, nil
}

// volumes records the volumes of PersistentVolumes that are not attached. The reclaim
// policy of their PersistentVolume decides about them, which is not known here.
func (s *sweep) volumes(ctx context.Context) ([]leftover, error) {
	seen := map[string]bool{}
	for _, filter := range []types.Filter{tagged(clusterTagPrefix+s.query.Cluster, ownedTag), tagged(eksClusterTag, s.query.Cluster)} {
		pages := ec2.NewDescribeVolumesPaginator(s.ec2, &ec2.DescribeVolumesInput{Filters: []types.Filter{
			filter, {Name: new("status"), Values: []string{"available"}},
		}})
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx)
			if err != nil {
				return nil, explain("ec2:DescribeVolumes", err)
			}
			for _, volume := range page.Volumes {
				id := sdkaws.ToString(volume.VolumeId)
				if claim, ok := tagsOf(volume.Tags)[volumeTag]; ok && !seen[id] && !s.isManaged(id) {
					seen[id] = true
					s.result.Retained = append(s.result.Retained, describe("volume", id, claim))
				}
			}
		}
	}
	return nil, nil
}

// instanceProfiles returns the instance profiles that Karpenter created for the roles of
// its node classes. Their path has the region and the cluster.
func (s *sweep) instanceProfiles(ctx context.Context) ([]leftover, error) {
	var found []leftover
	prefix := "/karpenter/" + s.cfg.Region() + "/" + s.query.Cluster + "/"
	pages := iam.NewListInstanceProfilesPaginator(s.iam, &iam.ListInstanceProfilesInput{PathPrefix: &prefix})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, explain("iam:ListInstanceProfiles", err)
		}
		for _, profile := range page.InstanceProfiles {
			name := profile.InstanceProfileName
			if !strings.HasPrefix(sdkaws.ToString(profile.Path), prefix) {
				continue
			}
			found = append(found, leftover{describe("instance profile", sdkaws.ToString(name), ""), func(ctx context.Context) error {
				for _, role := range profile.Roles {
					_, err := s.iam.RemoveRoleFromInstanceProfile(ctx, &iam.RemoveRoleFromInstanceProfileInput{InstanceProfileName: name, RoleName: role.RoleName})
					if err != nil {
						return explain("iam:RemoveRoleFromInstanceProfile", err)
					}
				}
				_, err := s.iam.DeleteInstanceProfile(ctx, &iam.DeleteInstanceProfileInput{InstanceProfileName: name})
				return explain("iam:DeleteInstanceProfile", err)
			}})
		}
	}
	return found, nil
}

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
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"
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

// describeInterfaces returns the network interfaces that all filters select.
func describeInterfaces(ctx context.Context, client *ec2.Client, filters ...types.Filter) ([]types.NetworkInterface, error) {
	return list(ctx, "ec2:DescribeNetworkInterfaces", ec2.NewDescribeNetworkInterfacesPaginator(client, &ec2.DescribeNetworkInterfacesInput{Filters: filters}),
		func(page *ec2.DescribeNetworkInterfacesOutput) []types.NetworkInterface {
			return page.NetworkInterfaces
		})
}

// describeGroups returns the security groups that all filters select.
func describeGroups(ctx context.Context, client *ec2.Client, filters ...types.Filter) ([]types.SecurityGroup, error) {
	return list(ctx, "ec2:DescribeSecurityGroups", ec2.NewDescribeSecurityGroupsPaginator(client, &ec2.DescribeSecurityGroupsInput{Filters: filters}),
		func(page *ec2.DescribeSecurityGroupsOutput) []types.SecurityGroup { return page.SecurityGroups })
}

// union returns the items that at least one filter selects, each once.
func union[Item any](filters []types.Filter, id func(Item) *string, describe func(types.Filter) ([]Item, error)) ([]Item, error) {
	var all []Item
	seen := map[string]bool{}
	for _, filter := range filters {
		items, err := describe(filter)
		if err != nil {
			return nil, err
		}
		for _, item := range items {
			if key := sdkaws.ToString(id(item)); !seen[key] {
				seen[key] = true
				all = append(all, item)
			}
		}
	}
	return all, nil
}

// instances returns the instances of Karpenter that still exist.
func (s *sweep) instances(ctx context.Context) ([]leftover, error) {
	reservations, err := list(ctx, "ec2:DescribeInstances", ec2.NewDescribeInstancesPaginator(s.ec2, &ec2.DescribeInstancesInput{Filters: []types.Filter{
		tagged(clusterTagPrefix+s.query.Cluster, ownedTag),
		{Name: new("instance-state-name"), Values: []string{"pending", "running", "stopping", "stopped"}},
	}}), func(page *ec2.DescribeInstancesOutput) []types.Reservation { return page.Reservations })
	if err != nil {
		return nil, err
	}
	var found []leftover
	for _, reservation := range reservations {
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
	return found, nil
}

// interfaces returns network interfaces of the VPC CNI that are not attached. They stay if
// an instance is terminated before the CNI deletes them, and prevent the deletion of
// their security group and subnet.
func (s *sweep) interfaces(ctx context.Context) ([]leftover, error) {
	filters := []types.Filter{tagged(cniTag, s.query.Cluster), tagged(eksClusterTag, s.query.Cluster), tagged(clusterTagPrefix+s.query.Cluster, ownedTag)}
	if groups := s.managedGroups(); len(groups) > 0 {
		// Older versions of the CNI do not set the tag.
		filters = append(filters, types.Filter{Name: new("group-id"), Values: groups})
	}
	all, err := union(filters, func(each types.NetworkInterface) *string { return each.NetworkInterfaceId }, func(filter types.Filter) ([]types.NetworkInterface, error) {
		return describeInterfaces(ctx, s.ec2, filter)
	})
	if err != nil {
		return nil, err
	}
	var found []leftover
	for _, each := range all {
		if !s.isForgotten(each) {
			continue
		}
		found = append(found, leftover{describe("network interface", sdkaws.ToString(each.NetworkInterfaceId), sdkaws.ToString(each.Description)), func(ctx context.Context) error {
			_, err := s.ec2.DeleteNetworkInterface(ctx, &ec2.DeleteNetworkInterfaceInput{NetworkInterfaceId: each.NetworkInterfaceId})
			return explain("ec2:DeleteNetworkInterface", err)
		}})
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
	filters := []types.Filter{tagged(clusterTagPrefix+s.query.Cluster, ownedTag), tagged(loadBalancerTag, s.query.Cluster), tagged(eksClusterTag, s.query.Cluster)}
	groups, err := union(filters, func(group types.SecurityGroup) *string { return group.GroupId }, func(filter types.Filter) ([]types.SecurityGroup, error) {
		return describeGroups(ctx, s.ec2, filter)
	})
	if err != nil {
		return nil, err
	}
	var found []leftover
	for _, group := range groups {
		if !s.isForgottenGroup(group) {
			continue
		}
		id := sdkaws.ToString(group.GroupId)
		found = append(found, leftover{describe("security group", id, sdkaws.ToString(group.GroupName)), func(ctx context.Context) error {
			return s.deleteGroup(ctx, id)
		}})
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
		users, err := describeGroups(ctx, s.ec2, types.Filter{Name: &name, Values: []string{id}})
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
	rules, err := list(ctx, "ec2:DescribeSecurityGroupRules", ec2.NewDescribeSecurityGroupRulesPaginator(s.ec2, &ec2.DescribeSecurityGroupRulesInput{
		Filters: []types.Filter{{Name: new("group-id"), Values: []string{group}}},
	}), func(page *ec2.DescribeSecurityGroupRulesOutput) []types.SecurityGroupRule {
		return page.SecurityGroupRules
	})
	if err != nil {
		return err
	}
	for _, rule := range rules {
		switch {
		case rule.ReferencedGroupInfo == nil || sdkaws.ToString(rule.ReferencedGroupInfo.GroupId) != referenced:
		case sdkaws.ToBool(rule.IsEgress):
			egress = append(egress, sdkaws.ToString(rule.SecurityGroupRuleId))
		default:
			ingress = append(ingress, sdkaws.ToString(rule.SecurityGroupRuleId))
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
	filters := []types.Filter{tagged(eksClusterTag, s.query.Cluster), tagged(karpenterClusterTag, s.query.Cluster)}
	templates, err := union(filters, func(t types.LaunchTemplate) *string { return t.LaunchTemplateId }, func(filter types.Filter) ([]types.LaunchTemplate, error) {
		return list(ctx, "ec2:DescribeLaunchTemplates", ec2.NewDescribeLaunchTemplatesPaginator(s.ec2, &ec2.DescribeLaunchTemplatesInput{Filters: []types.Filter{filter}}),
			func(page *ec2.DescribeLaunchTemplatesOutput) []types.LaunchTemplate { return page.LaunchTemplates })
	})
	if err != nil {
		return nil, err
	}
	var found []leftover
	for _, template := range templates {
		id := sdkaws.ToString(template.LaunchTemplateId)
		if _, karpenter := tagsOf(template.Tags)[nodeClassTag]; !karpenter || s.isManaged(id) {
			continue
		}
		found = append(found, leftover{describe("launch template", id, sdkaws.ToString(template.LaunchTemplateName)), func(ctx context.Context) error {
			_, err := s.ec2.DeleteLaunchTemplate(ctx, &ec2.DeleteLaunchTemplateInput{LaunchTemplateId: &id})
			return explain("ec2:DeleteLaunchTemplate", err)
		}})
	}
	return found, nil
}

// volumes records the volumes of PersistentVolumes that are not attached. The reclaim
// policy of their PersistentVolume decides about them, which is not known here.
func (s *sweep) volumes(ctx context.Context) ([]leftover, error) {
	filters := []types.Filter{tagged(clusterTagPrefix+s.query.Cluster, ownedTag), tagged(eksClusterTag, s.query.Cluster)}
	volumes, err := union(filters, func(v types.Volume) *string { return v.VolumeId }, func(filter types.Filter) ([]types.Volume, error) {
		return list(ctx, "ec2:DescribeVolumes", ec2.NewDescribeVolumesPaginator(s.ec2, &ec2.DescribeVolumesInput{Filters: []types.Filter{
			filter, {Name: new("status"), Values: []string{"available"}},
		}}), func(page *ec2.DescribeVolumesOutput) []types.Volume { return page.Volumes })
	})
	for _, volume := range volumes {
		id := sdkaws.ToString(volume.VolumeId)
		if claim, ok := tagsOf(volume.Tags)[volumeTag]; ok && !s.isManaged(id) {
			s.result.Retained = append(s.result.Retained, describe("volume", id, claim))
		}
	}
	return nil, err
}

// instanceProfiles returns the instance profiles that Karpenter created for the roles of
// its node classes. Their path has the region and the cluster.
func (s *sweep) instanceProfiles(ctx context.Context) ([]leftover, error) {
	prefix := "/karpenter/" + s.cfg.Region() + "/" + s.query.Cluster + "/"
	profiles, err := list(ctx, "iam:ListInstanceProfiles", iam.NewListInstanceProfilesPaginator(s.iam, &iam.ListInstanceProfilesInput{PathPrefix: &prefix}),
		func(page *iam.ListInstanceProfilesOutput) []iamtypes.InstanceProfile { return page.InstanceProfiles })
	if err != nil {
		return nil, err
	}
	var found []leftover
	for _, profile := range profiles {
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
	return found, nil
}

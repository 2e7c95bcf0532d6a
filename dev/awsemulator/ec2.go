package main

import (
	"context"
	"encoding/xml"
	"fmt"
	"net/url"
)

// ec2 is a client of moto's EC2 in one region.
type ec2 struct{ moto, region string }

// numbered returns the parameters of a list.
func numbered(name string, list []string) url.Values {
	form := url.Values{}
	for i, value := range list {
		form.Set(fmt.Sprintf("%s.%d", name, i+1), value)
	}
	return form
}

// listOf returns the list in the parameters of a form.
func listOf(form url.Values, name string) []string {
	var list []string
	for i := 1; form.Has(fmt.Sprintf("%s.%d", name, i)); i++ {
		list = append(list, form.Get(fmt.Sprintf("%s.%d", name, i)))
	}
	return list
}

// setTags sets the tags of a new object of a kind.
func setTags(form url.Values, kind string, tags [][2]string) {
	form.Set("TagSpecification.1.ResourceType", kind)
	for i, tag := range tags {
		form.Set(fmt.Sprintf("TagSpecification.1.Tag.%d.Key", i+1), tag[0])
		form.Set(fmt.Sprintf("TagSpecification.1.Tag.%d.Value", i+1), tag[1])
	}
}

// inEC2 returns the client for the EC2 objects that EKS itself manages.
func (e *eks) inEC2(c *call) ec2 { return ec2{moto: e.moto, region: c.region} }

// createSecurityGroup creates the cluster's security group in the VPC of its subnets.
// Everything with this group reaches everything else with it.
func (e *eks) createSecurityGroup(c *call, cluster string, subnets []string) (group, vpc string, err error) {
	var found struct {
		VPCs    []string `xml:"subnetSet>item>vpcId"`
		ZoneIDs []string `xml:"subnetSet>item>availabilityZoneId"`
	}
	if err := e.inEC2(c).do(c.Context(), "DescribeSubnets", numbered("SubnetId", subnets), &found); err != nil {
		return "", "", err
	}
	if err := checkZones(cluster, found.ZoneIDs); err != nil {
		return "", "", err
	}
	var created struct {
		ID string `xml:"groupId"`
	}
	form := url.Values{
		"GroupName":        {"eks-cluster-sg-" + cluster},
		"GroupDescription": {"EKS created security group applied to ENI that is attached to EKS Control Plane master nodes"},
		"VpcId":            {found.VPCs[0]},
	}
	setTags(form, "security-group", [][2]string{{"Name", "eks-cluster-sg-" + cluster}, {"kubernetes.io/cluster/" + cluster, "owned"}, {"aws:eks:cluster-name", cluster}})
	if err := e.inEC2(c).do(c.Context(), "CreateSecurityGroup", form, &created); err != nil {
		return "", "", err
	}
	err = e.inEC2(c).do(c.Context(), "AuthorizeSecurityGroupIngress", url.Values{
		"GroupId": {created.ID}, "IpPermissions.1.IpProtocol": {"-1"}, "IpPermissions.1.Groups.1.GroupId": {created.ID},
	}, nil)
	return created.ID, found.VPCs[0], err
}

func (e *eks) removeSecurityGroup(c *call, id string) error {
	return e.inEC2(c).do(c.Context(), "DeleteSecurityGroup", url.Values{"GroupId": {id}}, nil)
}

func (e *eks) launchTemplateName(c *call, id string) (string, error) {
	var found struct {
		Names []string `xml:"launchTemplates>item>launchTemplateName"`
	}
	if err := e.inEC2(c).do(c.Context(), "DescribeLaunchTemplates", url.Values{"LaunchTemplateId.1": {id}}, &found); err != nil {
		return "", err
	}
	if len(found.Names) != 1 {
		return "", invalid("Launch template %s does not exist", id)
	}
	return found.Names[0], nil
}

// do calls an action. An error of EC2 becomes an error of EKS with EC2's message.
func (e ec2) do(ctx context.Context, action string, form url.Values, into any) error {
	form.Set("Action", action)
	form.Set("Version", "2016-11-15")
	return callMoto(ctx, e.moto, "ec2", e.region, "application/x-www-form-urlencoded", "", form.Encode(), func(text []byte) error {
		if into == nil {
			return nil
		}
		return xml.Unmarshal(text, into)
	})
}

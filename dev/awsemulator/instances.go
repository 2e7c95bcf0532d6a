package main

import (
	"cmp"
	"maps"
	"net/url"
)

// resized is called when the number of nodes of a node group may have changed: when it
// is created, changed, and with zero when it is deleted. It starts or terminates
// instances, which no Auto Scaling group does here.
func (e *eks) resized(c *call, group values, size int) error {
	running, err := e.instances(c, group)
	if err != nil {
		return err
	}
	if len(running) > size {
		return e.terminate(c, running[size:])
	}
	for i := len(running); i < size; i++ {
		if err := e.startInstance(c, group, i); err != nil {
			return err
		}
	}
	return nil
}

// replaced is called when a node group has another version or launch template. EKS
// replaces its nodes.
func (e *eks) replaced(c *call, group values) error {
	running, err := e.instances(c, group)
	if err != nil {
		return err
	}
	if err := e.terminate(c, running); err != nil {
		return err
	}
	return e.resized(c, group, len(running))
}

// instances returns the IDs of the instances of a node group.
func (e *eks) instances(c *call, group values) ([]string, error) {
	var found struct {
		IDs []string `xml:"reservationSet>item>instancesSet>item>instanceId"`
	}
	err := e.inEC2(c).do(c.Context(), "DescribeInstances", url.Values{
		"Filter.1.Name": {"tag:eks:cluster-name"}, "Filter.1.Value.1": {text(group, "clusterName")},
		"Filter.2.Name": {"tag:eks:nodegroup-name"}, "Filter.2.Value.1": {text(group, "nodegroupName")},
		"Filter.3.Name": {"instance-state-name"}, "Filter.3.Value.1": {"pending"}, "Filter.3.Value.2": {"running"},
	}, &found)
	return found.IDs, err
}

// eksImage is the image of nodes whose launch template does not name one.
const eksImage = "ami-12c6146b"

// startInstance starts an instance in one of the subnets of a node group, with the image
// and the security groups of its launch template, or those of EKS and of the cluster.
func (e *eks) startInstance(c *call, group values, number int) error {
	subnets, types := strs(group["subnets"]), strs(group["instanceTypes"])
	if len(subnets) == 0 {
		return invalid("Subnets are required")
	}
	template, err := e.launchTemplateOf(c, group)
	if err != nil {
		return err
	}
	form := url.Values{
		"MinCount": {"1"}, "MaxCount": {"1"}, "ImageId": {cmp.Or(template.Image, eksImage)}, "SubnetId": {subnets[number%len(subnets)]},
	}
	if len(types) > 0 {
		form.Set("InstanceType", types[0])
	}
	setTags(form, "instance", [][2]string{
		{"eks:cluster-name", text(group, "clusterName")},
		{"eks:nodegroup-name", text(group, "nodegroupName")},
		{"kubernetes.io/cluster/" + text(group, "clusterName"), "owned"},
	})
	groups, err := e.securityGroups(c, group, template)
	if err != nil {
		return err
	}
	maps.Copy(form, numbered("SecurityGroupId", groups))
	return e.inEC2(c).do(c.Context(), "RunInstances", form, nil)
}

// securityGroups returns the security groups of the nodes of a node group.
func (e *eks) securityGroups(c *call, group values, template launchTemplate) ([]string, error) {
	if len(template.Groups) > 0 {
		return template.Groups, nil
	}
	cluster, err := e.find(keyOf(c, text(group, "clusterName")))
	if err != nil {
		return nil, err
	}
	return []string{text(child(cluster.body, "resourcesVpcConfig"), "clusterSecurityGroupId")}, nil
}

// terminate terminates instances and releases their network interfaces.
func (e *eks) terminate(c *call, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	if err := e.inEC2(c).do(c.Context(), "TerminateInstances", numbered("InstanceId", ids), nil); err != nil {
		return err
	}
	return e.inEC2(c).detachInstances(c.Context(), ids)
}

package main

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// checkNodeGroup rejects a node group that EKS rejects: one whose image does not fit its
// instance types.
func (e *eks) checkNodeGroup(c *call, group values) error {
	types := strs(group["instanceTypes"])
	if len(types) == 0 {
		return nil
	}
	query := url.Values{}
	for i, name := range types {
		query.Set(fmt.Sprintf("InstanceType.%d", i+1), name)
	}
	var found struct {
		Items []struct {
			Name          string   `xml:"instanceType"`
			Architectures []string `xml:"processorInfo>supportedArchitectures>item"`
		} `xml:"instanceTypeSet>item"`
	}
	if err := e.inEC2(c).do(c.Context(), "DescribeInstanceTypes", query, &found); err != nil {
		return err
	}
	image, wanted := text(group, "amiType"), "x86_64"
	if strings.Contains(image, "_ARM_64") {
		wanted = "arm64"
	}
	for _, t := range found.Items {
		if !slices.Contains(t.Architectures, wanted) {
			return invalid("[%s] is not a valid instance type for requested amiType %s", t.Name, image)
		}
	}
	return nil
}

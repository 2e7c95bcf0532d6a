package main

import (
	"fmt"
	"net/http"
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
	var found struct {
		Items []struct {
			Name          string   `xml:"instanceType"`
			Architectures []string `xml:"processorInfo>supportedArchitectures>item"`
		} `xml:"instanceTypeSet>item"`
	}
	if err := e.inEC2(c).do(c.Context(), "DescribeInstanceTypes", numbered("InstanceType", types), &found); err != nil {
		return err
	}
	image, wanted := text(group, "amiType"), "x86_64"
	switch {
	case image == customImage:
		var err error
		if wanted, err = e.architecture(c, text(group, "releaseVersion")); err != nil {
			return err
		}
	case strings.Contains(image, "_ARM_64"):
		wanted = "arm64"
	}
	for _, t := range found.Items {
		if !slices.Contains(t.Architectures, wanted) {
			return invalid("[%s] is not a valid instance type for requested amiType %s", t.Name, image)
		}
	}
	return nil
}

// zonesWithoutEKS are the IDs of the zones that have no control planes. Their names
// differ between accounts.
var zonesWithoutEKS = []string{"use1-az3", "usw1-az2", "cac1-az3"}

// checkZones rejects a control plane in a zone that has none.
func checkZones(cluster string, ids []string) error {
	for _, id := range ids {
		if slices.Contains(zonesWithoutEKS, id) {
			return &refusal{http.StatusBadRequest, "UnsupportedAvailabilityZoneException", fmt.Sprintf(
				"Cannot create cluster '%s' because %s, the targeted availability zone, does not currently have sufficient capacity to support the cluster.", cluster, id)}
		}
	}
	return nil
}

// checkNewSubnets rejects subnets of a control plane in other zones than those that it was
// created in.
func (e *eks) checkNewSubnets(c *call, cluster values) error {
	added := strs(child(c.body, "resourcesVpcConfig")["subnetIds"])
	if len(added) == 0 {
		return nil
	}
	before, err := e.zonesOf(c, strs(child(cluster, "resourcesVpcConfig")["subnetIds"]))
	if err != nil {
		return err
	}
	after, err := e.zonesOf(c, added)
	if err != nil {
		return err
	}
	for _, zone := range after {
		if !slices.Contains(before, zone) {
			return invalid("Provided subnets %v belong to AZs %v, but the cluster was created in %v: subnets must be in the same set of AZs", added, after, before)
		}
	}
	return nil
}

// checkTwoZones rejects a control plane whose subnets are all in one zone.
func (e *eks) checkTwoZones(c *call, subnets []string) error {
	zones, err := e.zonesOf(c, subnets)
	if err != nil {
		return err
	}
	slices.Sort(zones)
	if len(slices.Compact(zones)) < 2 {
		return invalid("Subnets specified must be in at least two different AZs")
	}
	return nil
}

// checkIPv6 rejects a cluster of the IP family IPv6 in subnets without IPv6, or with a
// network of services of its own.
func (e *eks) checkIPv6(c *call, subnets []string) error {
	network := child(c.body, "kubernetesNetworkConfig")
	if text(network, "ipFamily") != "ipv6" {
		return nil
	}
	if network["serviceIpv4Cidr"] != nil {
		return invalid("serviceIpv4Cidr is not supported with ipFamily ipv6")
	}
	var found struct {
		Subnets []struct {
			Assigned bool     `xml:"assignIpv6AddressOnCreation"`
			Networks []string `xml:"ipv6CidrBlockAssociationSet>item>ipv6CidrBlock"`
		} `xml:"subnetSet>item"`
	}
	if err := e.inEC2(c).do(c.Context(), "DescribeSubnets", numbered("SubnetId", subnets), &found); err != nil {
		return err
	}
	for _, subnet := range found.Subnets {
		if !subnet.Assigned || len(subnet.Networks) == 0 {
			return invalid("The subnets must have IPv6 CIDR blocks and assign IPv6 addresses on creation")
		}
	}
	return nil
}

// checkPrivate rejects a Fargate profile in a subnet whose route table leads to an internet
// gateway.
func (e *eks) checkPrivate(c *call, subnets []string) error {
	var found struct {
		Tables []struct {
			Subnets  []string `xml:"associationSet>item>subnetId"`
			Gateways []string `xml:"routeSet>item>gatewayId"`
		} `xml:"routeTableSet>item"`
	}
	if err := e.inEC2(c).do(c.Context(), "DescribeRouteTables", url.Values{}, &found); err != nil {
		return err
	}
	for _, table := range found.Tables {
		if !slices.ContainsFunc(table.Gateways, func(id string) bool { return strings.HasPrefix(id, "igw-") }) {
			continue
		}
		for _, subnet := range subnets {
			if slices.Contains(table.Subnets, subnet) {
				return invalid("Subnet %s provided in Fargate Profile is not a private subnet", subnet)
			}
		}
	}
	return nil
}

// checkProfiles rejects a change of the Fargate profiles of a cluster while one of them is
// being created or deleted: EKS changes one at a time.
func (e *eks) checkProfiles(c *call) error {
	at := keyOf(c, c.PathValue("cluster"), fargate.path)
	for _, name := range e.childNames(at) {
		if _, err := e.active(at + "/" + name); err != nil {
			return err
		}
	}
	return nil
}

// zonesOf returns the zones of subnets.
func (e *eks) zonesOf(c *call, subnets []string) ([]string, error) {
	var found struct {
		Zones []string `xml:"subnetSet>item>availabilityZone"`
	}
	err := e.inEC2(c).do(c.Context(), "DescribeSubnets", numbered("SubnetId", subnets), &found)
	return found.Zones, err
}

// checkSize rejects a size of a node group that EKS rejects.
func checkSize(group values) error {
	size := child(group, "scalingConfig")
	least, most := number(size, "minSize"), number(size, "maxSize")
	switch desired := desiredSize(group); {
	case size["maxSize"] == nil:
	case most < 1 || least > most:
		return invalid("Minimum capacity %d can't be greater than maximum capacity %d", least, most)
	case desired < least:
		return invalid("Minimum capacity %d can't be greater than desired size %d", least, desired)
	case desired > most:
		return invalid("desired capacity %d can't be greater than max size %d", desired, most)
	}
	return nil
}

func number(of values, name string) int {
	value, _ := of[name].(float64)
	return int(value)
}

// addonPods maps the add-ons whose pods need a node or Fargate to the label k8s-app of
// their pods. The pods of other add-ons belong to DaemonSets.
var addonPods = map[string]string{"coredns": "kube-dns", "metrics-server": "metrics-server"}

// created returns the status of an object whose creation would be complete. An add-on
// waits for its pods.
func (e *eks) created(place string, t *object) string {
	cluster, name, is := strings.Cut(place, "/"+addons.path+"/")
	if !is || addonPods[name] == "" || t.onFargate || e.hasNodes(cluster) {
		t.body["health"] = values{"issues": []any{}}
		return "ACTIVE"
	}
	t.body["health"] = values{"issues": []any{values{
		"code": "InsufficientNumberOfReplicas", "message": "The add-on is unhealthy because it doesn't have the desired number of replicas.",
	}}}
	if e.now().After(t.settled.Add(e.addonTimeout)) {
		return "CREATE_FAILED"
	}
	return "DEGRADED"
}

// hasNodes reports whether a cluster has a node group with nodes, or Auto Mode, which
// creates them for pods.
func (e *eks) hasNodes(cluster string) bool {
	if t, err := e.find(cluster); err == nil && autoMode(t.body) {
		return true
	}
	for _, name := range e.childNames(cluster + "/" + nodeGroups.path) {
		if group, err := e.active(cluster + "/" + nodeGroups.path + "/" + name); err == nil && desiredSize(group.body) > 0 {
			return true
		}
	}
	return false
}

// admitsFargate reports whether a Fargate profile selects the pods of an add-on. EKS
// decides it when it creates a pod: one that is older than its profile waits for a node.
func (e *eks) admitsFargate(cluster, addon string) bool {
	for _, name := range e.childNames(cluster + "/" + fargate.path) {
		profile, err := e.active(cluster + "/" + fargate.path + "/" + name)
		if err != nil {
			continue
		}
		selectors, _ := profile.body["selectors"].([]any)
		for _, s := range selectors {
			selector, _ := s.(values)
			label := text(child(selector, "labels"), "k8s-app")
			if text(selector, "namespace") == "kube-system" && (label == "" || label == addonPods[addon]) {
				return true
			}
		}
	}
	return false
}

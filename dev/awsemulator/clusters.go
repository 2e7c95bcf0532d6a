package main

import (
	"crypto/rand"
	"fmt"
	"strconv"
	"strings"
)

// The supported minor versions of Kubernetes. Those before oldestStandard are in
// extended support. Tests use the newest, which EKS offers some months after its release.
const (
	oldestMinor    = 32
	oldestStandard = 34
	newestMinor    = 40
)

func minorOf(version string) (int, error) {
	text, is := strings.CutPrefix(version, "1.")
	minor, err := strconv.Atoi(text)
	if !is || err != nil || minor < oldestMinor || minor > newestMinor {
		return 0, invalid("unsupported Kubernetes version %s", version)
	}
	return minor, nil
}

func (e *eks) createCluster(c *call) (values, error) {
	name := c.text("name")
	defaultTo(c.body, "version", "1.33")
	if _, err := minorOf(c.text("version")); err != nil {
		return nil, err
	}
	if _, err := e.find(keyOf(c, name)); err == nil {
		return nil, inUse("Cluster already exists with name: %s", name)
	}
	vpc := child(c.body, "resourcesVpcConfig")
	if err := e.checkTwoZones(c, strs(vpc["subnetIds"])); err != nil {
		return nil, err
	}
	defaultTo(c.body, "accessConfig", values{"authenticationMode": "CONFIG_MAP"})
	if err := checkAutoMode(c.body); err != nil {
		return nil, err
	}
	if err := e.checkIPv6(c, strs(vpc["subnetIds"])); err != nil {
		return nil, err
	}
	if err := e.checkRole(c, c.text("roleArn"), controlPlaneService); err != nil {
		return nil, err
	}
	if err := e.checkKeys(c); err != nil {
		return nil, err
	}
	group, network, err := e.createSecurityGroup(c, name, strs(vpc["subnetIds"]))
	if err != nil {
		return nil, err
	}
	if err := e.addInterfaces(c, name, group, strs(vpc["subnetIds"])); err != nil {
		return nil, err
	}
	vpc["vpcId"], vpc["clusterSecurityGroupId"] = network, group
	defaultTo(vpc, "endpointPublicAccess", true)
	defaultTo(vpc, "endpointPrivateAccess", false)
	defaultTo(vpc, "securityGroupIds", []any{})
	if vpc["endpointPublicAccess"] == true {
		defaultTo(vpc, "publicAccessCidrs", []any{"0.0.0.0/0"})
	}
	body := c.body
	defaultTo(body, "kubernetesNetworkConfig", values{})
	services := child(body, "kubernetesNetworkConfig")
	defaultTo(services, "ipFamily", "ipv4")
	if services["ipFamily"] == "ipv6" {
		services["serviceIpv6Cidr"] = "fd00:ec2:abcd::/108"
	} else {
		defaultTo(services, "serviceIpv4Cidr", "172.20.0.0/16")
	}
	defaultTo(services, "elasticLoadBalancing", values{"enabled": false})
	defaultTo(body, "upgradePolicy", values{"supportType": "EXTENDED"})
	defaultTo(body, "deletionProtection", false)
	id := strings.ToUpper(rand.Text())
	body["arn"] = arn(c.region, "cluster/"+name)
	body["endpoint"] = e.endpoint
	if e.endpoint == "" {
		body["endpoint"] = "https://" + id + ".gr7." + c.region + ".eks.amazonaws.com"
	}
	body["certificateAuthority"] = values{"data": e.ca}
	body["identity"] = values{"oidc": values{"issuer": "https://oidc.eks." + c.region + ".amazonaws.com/id/" + id}}
	body["platformVersion"], body["health"] = "eks.1", values{"issues": []any{}}
	if err := e.add(keyOf(c, name), &object{body: body, arn: text(body, "arn")}, false); err != nil {
		return nil, err
	}
	return values{"cluster": body}, e.addAutoModeEntry(c, name, body)
}

func (e *eks) describeCluster(c *call) (values, error) {
	t, err := e.find(keyOf(c, c.PathValue("cluster")))
	if err != nil {
		return nil, err
	}
	return values{"cluster": t.body}, nil
}

func (e *eks) listClusters(c *call) (values, error) {
	names := []string{}
	for _, name := range e.childNames(keyOf(c)) {
		if !strings.Contains(name, "/") {
			names = append(names, name)
		}
	}
	return values{"clusters": names}, nil
}

// deleteCluster deletes a cluster with its add-ons and access entries. Like EKS, it
// rejects the deletion of a cluster that has compute or is protected.
func (e *eks) deleteCluster(c *call) (values, error) {
	at := keyOf(c, c.PathValue("cluster"))
	t, err := e.active(at)
	if err != nil {
		return nil, err
	}
	if t.body["deletionProtection"] == true {
		return nil, &refusal{400, "InvalidRequestException", "The cluster has deletion protection."}
	}
	for _, k := range []kind{nodeGroups, fargate} {
		if names := e.childNames(at + "/" + k.path); len(names) > 0 {
			return nil, inUse("Cluster has %s attached: %v", k.path, names)
		}
	}
	group := text(child(t.body, "resourcesVpcConfig"), "clusterSecurityGroupId")
	if err := e.removeInterfaces(c, c.PathValue("cluster"), group); err != nil {
		return nil, err
	}
	for _, name := range e.childNames(at) {
		delete(e.objects, at+"/"+name)
	}
	t.body["status"], t.settled = "DELETING", e.now().Add(settle)
	return values{"cluster": t.body}, nil
}

// clusterUpdates maps the fields that UpdateClusterConfig may change to the type of
// the update.
var clusterUpdates = map[string]string{
	"resourcesVpcConfig": "VpcConfigUpdate", "logging": "LoggingUpdate", "accessConfig": "AccessConfigUpdate",
	"upgradePolicy": "UpgradePolicyUpdate", "zonalShiftConfig": "ZonalShiftConfigUpdate", "deletionProtection": "DeletionProtectionUpdate",
}

func (e *eks) updateClusterConfig(c *call) (values, error) {
	t, err := e.active(keyOf(c, c.PathValue("cluster")))
	if err != nil {
		return nil, err
	}
	if c.body["computeConfig"] != nil || c.body["storageConfig"] != nil || c.body["kubernetesNetworkConfig"] != nil {
		return e.updateAutoMode(c, t)
	}
	what := ""
	for name := range c.body {
		kind, known := clusterUpdates[name]
		switch {
		case name == "clientRequestToken":
			continue
		case !known:
			return nil, invalid("the emulator cannot change %s", name)
		case what != "":
			return nil, invalid("only one type of update can be allowed.")
		}
		what = kind
	}
	if what == "" {
		return nil, invalid("nothing to update")
	}
	delete(c.body, "clientRequestToken")
	if err := e.checkNewSubnets(c, t.body); err != nil {
		return nil, err
	}
	merge(t.body, c.body)
	return e.begin(c, t, what), nil
}

// updateClusterVersion upgrades a cluster. Like EKS, it accepts only the next minor
// version.
func (e *eks) updateClusterVersion(c *call) (values, error) {
	t, err := e.active(keyOf(c, c.PathValue("cluster")))
	if err != nil {
		return nil, err
	}
	from, err := minorOf(text(t.body, "version"))
	if err != nil {
		return nil, err
	}
	to, err := minorOf(c.text("version"))
	if err != nil {
		return nil, err
	}
	if to != from+1 {
		return nil, invalid("Unsupported Kubernetes minor version update from 1.%d to 1.%d", from, to)
	}
	t.body["version"] = c.text("version")
	return e.begin(c, t, "VersionUpdate"), nil
}

func (e *eks) describeClusterVersions(*call) (values, error) {
	var versions []any
	for minor := oldestMinor; minor <= newestMinor; minor++ {
		status := "STANDARD_SUPPORT"
		if minor < oldestStandard {
			status = "EXTENDED_SUPPORT"
		}
		versions = append(versions, values{
			"clusterVersion": fmt.Sprintf("1.%d", minor), "clusterType": "eks", "defaultVersion": minor == 33,
			"status": strings.ToLower(status), "versionStatus": status,
		})
	}
	return values{"clusterVersions": versions}, nil
}

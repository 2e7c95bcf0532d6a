package main

import (
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
)

// addonVersions returns the versions of an add-on for a version of Kubernetes, newest
// first. The second is the default, so that most_recent is a different one.
func addonVersions(kubernetes string) []string {
	return []string{"v" + kubernetes + ".5-eksbuild.1", "v" + kubernetes + ".1-eksbuild.2"}
}

func (e *eks) describeAddonVersions(c *call) (values, error) {
	kubernetes := c.URL.Query().Get("kubernetesVersion")
	if _, err := minorOf(kubernetes); err != nil {
		return nil, err
	}
	var versions []any
	for i, version := range addonVersions(kubernetes) {
		versions = append(versions, values{
			"addonVersion": version, "architecture": []string{"amd64", "arm64"},
			"compatibilities": []any{values{"clusterVersion": kubernetes, "platformVersions": []string{"*"}, "defaultVersion": i == 1}},
		})
	}
	return values{"addons": []any{values{"addonName": c.URL.Query().Get("addonName"), "type": "networking", "addonVersions": versions}}}, nil
}

// checkAddon rejects a version that does not fit the version of the cluster, and roles that
// pods cannot assume.
func (e *eks) checkAddon(c *call, cluster *object) error {
	requested, _ := c.body["podIdentityAssociations"].([]any)
	for _, association := range requested {
		if err := e.checkRole(c, text(association.(values), "roleArn"), podService); err != nil {
			return err
		}
	}
	version := c.text("addonVersion")
	if version != "" && !slices.Contains(addonVersions(text(cluster.body, "version")), version) {
		return invalid("Addon version specified is not supported: %s with Kubernetes %s", version, text(cluster.body, "version"))
	}
	return nil
}

func (e *eks) createAddon(c *call) (values, error) {
	cluster := c.PathValue("cluster")
	owner, err := e.find(keyOf(c, cluster))
	if err != nil {
		return nil, err
	}
	if err := e.checkAddon(c, owner); err != nil {
		return nil, err
	}
	name := c.text("addonName")
	body := pick(c.body, "addonName", "addonVersion", "serviceAccountRoleArn", "configurationValues", "tags")
	defaultTo(body, "addonVersion", addonVersions(text(owner.body, "version"))[1])
	body["clusterName"], body["health"] = cluster, values{"issues": []any{}}
	body["addonArn"] = arn(c.region, "addon/"+cluster+"/"+name+"/"+rand.Text())
	added := &object{body: body, arn: text(body, "addonArn"), onFargate: e.admitsFargate(keyOf(c, cluster), name)}
	if err := e.add(keyOf(c, cluster, addons.path, name), added, false); err != nil {
		return nil, err
	}
	return values{"addon": body}, e.associate(c, cluster, added)
}

func (e *eks) updateAddon(c *call) (values, error) {
	owner, err := e.find(keyOf(c, c.PathValue("cluster")))
	if err != nil {
		return nil, err
	}
	t, err := e.active(keyOf(c, c.PathValue("cluster"), addons.path, c.PathValue("id")))
	if err != nil {
		return nil, err
	}
	if err := e.checkAddon(c, owner); err != nil {
		return nil, err
	}
	merge(t.body, pick(c.body, "addonVersion", "serviceAccountRoleArn", "configurationValues"))
	return e.begin(c, t, "AddonUpdate"), e.associate(c, c.PathValue("cluster"), t)
}

func (e *eks) createNodeGroup(c *call) (values, error) {
	cluster, name := c.PathValue("cluster"), c.text("nodegroupName")
	owner, err := e.active(keyOf(c, cluster))
	if err != nil {
		return nil, err
	}
	if err := e.checkRole(c, c.text("nodeRole"), nodeService); err != nil {
		return nil, err
	}
	body := c.body
	body["clusterName"] = cluster
	if err := e.setImage(c, owner.body, body, c.body); err != nil {
		return nil, err
	}
	defaultTo(body, "version", owner.body["version"])
	if body["version"] != owner.body["version"] {
		return nil, invalid("Requested Nodegroup version %v is not the cluster's", body["version"])
	}
	defaultTo(body, "amiType", "AL2023_x86_64_STANDARD")
	defaultTo(body, "releaseVersion", releaseOf(text(body, "amiType"), text(body, "version")))
	if err := checkRelease(text(body, "amiType"), text(body, "version"), text(body, "releaseVersion")); err != nil {
		return nil, err
	}
	if err := e.checkNodeGroup(c, body); err != nil {
		return nil, err
	}
	if child(body, "scalingConfig") != nil {
		if err := checkSize(body); err != nil {
			return nil, err
		}
	}
	defaultTo(body, "capacityType", "ON_DEMAND")
	body["nodegroupArn"] = arn(c.region, "nodegroup/"+cluster+"/"+name+"/"+rand.Text())
	body["health"] = values{"issues": []any{}}
	body["resources"] = values{"autoScalingGroups": []any{values{"name": "eks-" + name}}}
	if template := child(body, "launchTemplate"); template != nil {
		if template["name"], err = e.launchTemplateName(c, text(template, "id")); err != nil {
			return nil, err
		}
	}
	if err := e.add(keyOf(c, cluster, nodeGroups.path, name), &object{body: body, arn: text(body, "nodegroupArn")}, false); err != nil {
		return nil, err
	}
	return values{"nodegroup": body}, e.resized(c, body, desiredSize(body))
}

// desiredSize returns the number of nodes that a node group should have.
func desiredSize(group values) int {
	size, _ := child(group, "scalingConfig")["desiredSize"].(float64)
	return int(size)
}

// releaseOf returns the newest release of a type of image for a version of Kubernetes.
func releaseOf(amiType, version string) string {
	if strings.HasPrefix(amiType, "BOTTLEROCKET") {
		return "1.50.0-5d9ac849"
	}
	return version + ".0-20260101"
}

// checkRelease rejects a release of Amazon Linux for another version of Kubernetes.
func checkRelease(amiType, version, release string) error {
	if strings.HasPrefix(amiType, "AL2023") && release != "" && !strings.HasPrefix(release, version+".") {
		return invalid("Requested release version %s is not valid for kubernetes version %s.", release, version)
	}
	return nil
}

func (e *eks) updateNodeGroupConfig(c *call) (values, error) {
	t, err := e.active(keyOf(c, c.PathValue("cluster"), nodeGroups.path, c.PathValue("id")))
	if err != nil {
		return nil, err
	}
	if child(c.body, "scalingConfig") != nil {
		sized := values{"scalingConfig": values{}}
		merge(child(sized, "scalingConfig"), child(t.body, "scalingConfig"))
		merge(child(sized, "scalingConfig"), child(c.body, "scalingConfig"))
		if err := checkSize(sized); err != nil {
			return nil, err
		}
	}
	merge(t.body, pick(c.body, "scalingConfig", "updateConfig", "nodeRepairConfig"))
	if labels := child(c.body, "labels"); labels != nil {
		defaultTo(t.body, "labels", values{})
		merge(child(t.body, "labels"), child(labels, "addOrUpdateLabels"))
		for _, name := range strs(labels["removeLabels"]) {
			delete(child(t.body, "labels"), name)
		}
	}
	if taints := child(c.body, "taints"); taints != nil {
		t.body["taints"] = changeTaints(t.body["taints"], taints)
	}
	return e.begin(c, t, "ConfigUpdate"), e.resized(c, t.body, desiredSize(t.body))
}

// changeTaints returns the taints without those that are removed or replaced, followed
// by the added ones.
func changeTaints(old any, change values) []any {
	id := func(taint any) string {
		of, _ := taint.(values)
		return fmt.Sprint(of["key"], of["effect"])
	}
	added, _ := change["addOrUpdateTaints"].([]any)
	removed, _ := change["removeTaints"].([]any)
	kept, _ := old.([]any)
	kept = slices.DeleteFunc(kept, func(taint any) bool {
		same := func(other any) bool { return id(other) == id(taint) }
		return slices.ContainsFunc(removed, same) || slices.ContainsFunc(added, same)
	})
	return append(kept, added...)
}

func (e *eks) updateNodeGroupVersion(c *call) (values, error) {
	owner, err := e.active(keyOf(c, c.PathValue("cluster")))
	if err != nil {
		return nil, err
	}
	t, err := e.active(keyOf(c, c.PathValue("cluster"), nodeGroups.path, c.PathValue("id")))
	if err != nil {
		return nil, err
	}
	if err := e.setImage(c, owner.body, t.body, c.body); err != nil {
		return nil, err
	}
	if version := c.text("version"); version != "" {
		if version != owner.body["version"] {
			return nil, invalid("Requested Nodegroup version %v is not the cluster's", version)
		}
		t.body["version"], t.body["releaseVersion"] = version, releaseOf(text(t.body, "amiType"), version)
	}
	if err := checkRelease(text(t.body, "amiType"), text(t.body, "version"), c.text("releaseVersion")); err != nil {
		return nil, err
	}
	merge(t.body, pick(c.body, "releaseVersion", "launchTemplate"))
	return e.begin(c, t, "VersionUpdate"), e.replaced(c, t.body)
}

func (e *eks) createFargateProfile(c *call) (values, error) {
	cluster, name := c.PathValue("cluster"), c.text("fargateProfileName")
	if _, err := e.active(keyOf(c, cluster)); err != nil {
		return nil, err
	}
	if err := e.checkProfiles(c); err != nil {
		return nil, err
	}
	if err := e.checkPrivate(c, strs(c.body["subnets"])); err != nil {
		return nil, err
	}
	if err := e.checkRole(c, c.text("podExecutionRoleArn"), fargateService); err != nil {
		return nil, err
	}
	body := c.body
	body["clusterName"] = cluster
	body["fargateProfileArn"] = arn(c.region, "fargateprofile/"+cluster+"/"+name+"/"+strings.ToLower(rand.Text()))
	err := e.add(keyOf(c, cluster, fargate.path, name), &object{body: body, arn: text(body, "fargateProfileArn")}, false)
	return values{"fargateProfile": body}, err
}

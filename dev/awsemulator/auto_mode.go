package main

import "crypto/rand"

// autoModeFields are the fields of Auto Mode, which UpdateClusterConfig takes together.
var autoModeFields = []string{"computeConfig", "kubernetesNetworkConfig", "storageConfig"}

// enabled reports whether a nested configuration is enabled.
func enabled(body values, path ...string) bool {
	for _, name := range path {
		if body = child(body, name); body == nil {
			return false
		}
	}
	return body["enabled"] == true
}

func autoMode(cluster values) bool { return enabled(cluster, "computeConfig") }

// checkAutoMode rejects what EKS rejects: a part of Auto Mode alone, Auto Mode without
// access entries or beside self-managed add-ons, and a role without pools of EKS.
func checkAutoMode(cluster values) error {
	on := autoMode(cluster)
	if on != enabled(cluster, "kubernetesNetworkConfig", "elasticLoadBalancing") || on != enabled(cluster, "storageConfig", "blockStorage") {
		return invalid("For EKS Auto Mode, please ensure that all required configs, including computeConfig, kubernetesNetworkConfig, and blockStorage are all either fully enabled or fully disabled.")
	}
	compute := child(cluster, "computeConfig")
	pools, role := strs(compute["nodePools"]), text(compute, "nodeRoleArn")
	switch {
	case !on && (len(pools) > 0 || role != ""):
		return invalid("When Compute Config is disabled, nodePools and nodeRoleArn must not be set.")
	case !on:
		return nil
	case text(child(cluster, "accessConfig"), "authenticationMode") == "CONFIG_MAP":
		return invalid("EKS Auto Mode requires the authentication mode API or API_AND_CONFIG_MAP.")
	case cluster["bootstrapSelfManagedAddons"] != false:
		return invalid("EKS Auto Mode requires bootstrapSelfManagedAddons to be false.")
	case (len(pools) > 0) != (role != ""):
		return invalid("When Compute Config nodeRoleArn is not null or empty, nodePool value(s) must be provided, and vice versa.")
	}
	return nil
}

// addAutoModeEntry creates the access entry of the role of EKS's own pools.
func (e *eks) addAutoModeEntry(c *call, name string, cluster values) error {
	role := text(child(cluster, "computeConfig"), "nodeRoleArn")
	at := keyOf(c, name, accessEntries.path, role)
	if _, err := e.find(at); role == "" || err == nil {
		return nil
	}
	body := values{
		"principalArn": role, "type": "EC2", "username": "system:node:{{EC2PrivateDNSName}}", "kubernetesGroups": []any{}, "clusterName": name, "policies": []any{},
		"accessEntryArn": arn(c.region, "access-entry/"+name+"/"+rand.Text()),
	}
	return e.add(at, &object{body: body, arn: text(body, "accessEntryArn")}, true)
}

// updateAutoMode enables, changes or disables Auto Mode.
func (e *eks) updateAutoMode(c *call, t *object) (values, error) {
	changed := values{}
	merge(changed, t.body)
	for _, name := range autoModeFields {
		if c.body[name] == nil {
			return nil, invalid("For EKS Auto Mode, %s is required.", name)
		}
		inner := values{}
		merge(inner, child(t.body, name))
		if name == "computeConfig" {
			inner = values{}
		}
		merge(inner, child(c.body, name))
		changed[name] = inner
	}
	if err := checkAutoMode(changed); err != nil {
		return nil, err
	}
	for _, name := range autoModeFields {
		t.body[name] = changed[name]
	}
	if err := e.addAutoModeEntry(c, c.PathValue("cluster"), t.body); err != nil {
		return nil, err
	}
	return e.begin(c, t, "AutoModeUpdate"), nil
}

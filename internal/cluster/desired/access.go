package desired

import (
	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	"github.com/appthrust/capt/internal/cluster/workspace"
)

// requireAddons sets the EKS add-ons, as the module takes them: settings by the
// name of the add-on.
func requireAddons(values *workspace.Values, addons []controlplanev1.ClusterAddon) {
	if len(addons) == 0 {
		return
	}
	settings := map[string]map[string]any{}
	for _, addon := range addons {
		setting := map[string]any{}
		for key, value := range map[string]string{
			"version": addon.Version, "configuration_values": addon.ConfigurationValues, "service_account_role_arn": addon.RoleARN,
		} {
			if value != "" {
				setting[key] = value
			}
		}
		var identities []map[string]string
		for _, identity := range addon.PodIdentities {
			identities = append(identities, map[string]string{"service_account": identity.ServiceAccount, "role_arn": identity.RoleARN})
		}
		if len(identities) > 0 {
			setting["pod_identity_associations"] = identities
		}
		settings[addon.Name] = setting
	}
	values.Require("spec.controlPlaneConfig.addons", "cluster_addons", settings)
}

// roleVariables are the variables that create the role of a controller, and that list its
// hosted zones.
var roleVariables = map[controlplanev1.AddonRoleName]struct{ role, zones string }{
	controlplanev1.AddonRoleEBSCSIDriver:              {role: "ebs_csi_driver"},
	controlplanev1.AddonRoleAWSLoadBalancerController: {role: "aws_load_balancer_controller_role"},
	controlplanev1.AddonRoleExternalDNS:               {role: "external_dns_role", zones: "external_dns_hosted_zones"},
	controlplanev1.AddonRoleCertManager:               {role: "cert_manager_role", zones: "cert_manager_hosted_zones"},
}

// requireAddonRoles sets the variables of the roles of controllers.
func requireAddonRoles(values *workspace.Values, roles []controlplanev1.AddonRole) {
	for _, role := range roles {
		path, variables := "spec.controlPlaneConfig.addonRoles["+string(role.Name)+"]", roleVariables[role.Name]
		values.Require(path, variables.role, true)
		if len(role.HostedZones) > 0 {
			values.Require(path+".hostedZones", variables.zones, role.HostedZones)
		}
	}
}

// authenticationModes are the modes as EKS names them.
var authenticationModes = map[controlplanev1.AuthenticationMode]string{
	controlplanev1.AuthenticationModeAPI:             "API",
	controlplanev1.AuthenticationModeAPIAndConfigMap: "API_AND_CONFIG_MAP",
}

// requireAccess sets the variables of the access to the cluster.
func requireAccess(values *workspace.Values, access *controlplanev1.ControlPlaneAccess) {
	const path = "spec.controlPlaneConfig.access."
	if access == nil {
		return
	}
	if access.AuthenticationMode != "" {
		values.Require(path+"authenticationMode", "authentication_mode", authenticationModes[access.AuthenticationMode])
	}
	if admin := access.CreatorAdmin; admin != "" {
		values.Require(path+"creatorAdmin", "cluster_creator_admin", admin == controlplanev1.CreatorAdminBootstrap)
		// The other values need no such variable, which a template may not have.
		if admin == controlplanev1.CreatorAdminEntry {
			values.Require(path+"creatorAdmin", "cluster_creator_entry", true)
		}
	}
	if len(access.Entries) > 0 {
		values.Require(path+"entries", "access_entries", accessEntries(access.Entries))
	}
}

// accessEntry is an entry of the variable access_entries.
type accessEntry struct {
	PrincipalARN     string                       `json:"principal_arn"`
	KubernetesGroups []string                     `json:"kubernetes_groups,omitempty"`
	Policies         map[string]policyAssociation `json:"policy_associations,omitempty"`
}

// policyAssociation is a policy of an entry. Policy is its name: the module knows the
// partition of the cloud.
type policyAssociation struct {
	Policy string       `json:"policy_name"`
	Scope  *accessScope `json:"access_scope,omitempty"`
}

type accessScope struct {
	Type       string   `json:"type"`
	Namespaces []string `json:"namespaces"`
}

func accessEntries(entries []controlplanev1.AccessEntry) map[string]accessEntry {
	result := map[string]accessEntry{}
	for _, entry := range entries {
		to := accessEntry{PrincipalARN: entry.PrincipalARN, KubernetesGroups: entry.KubernetesGroups}
		for _, policy := range entry.Policies {
			association := policyAssociation{Policy: policy.Name}
			if len(policy.Namespaces) > 0 {
				association.Scope = &accessScope{Type: "namespace", Namespaces: policy.Namespaces}
			}
			if to.Policies == nil {
				to.Policies = map[string]policyAssociation{}
			}
			to.Policies[policy.Name] = association
		}
		result[entry.Name] = to
	}
	return result
}

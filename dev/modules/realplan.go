package main

import (
	"context"
	"fmt"
	"strings"
)

// realPlans are modules that are planned with the real provider and without mocks,
// because a mock skips the validation of a provider during a plan.
var realPlans = []struct{ module, as, vars string }{
	{"network", "three-zones", `
name                = "demo-vpc"
cluster_name        = "demo"
azs                 = ["eu-central-1a", "eu-central-1b", "eu-central-1c"]
nat_gateway         = "PerZone"
interface_endpoints = ["sts"]
`},
	{"eks", "node-group", migrationVars},
	{"eks", "fargate", migrationVars + `
compute                      = "Fargate"
endpoint_public_access       = true
endpoint_public_access_cidrs = ["203.0.113.0/24"]
zonal_shift                  = true
deletion_protection          = true
`},
	{"eks", "pod-identity", migrationVars + `
karpenter_identity = "PodIdentity"
access_entries = {
  admin = {
    principal_arn       = "arn:aws:iam::123456789012:role/admin"
    policy_associations = { admin = { policy_arn = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy" } }
  }
}
`},
	{"eks", "controllers", migrationVars + `
ebs_csi_driver                    = true
aws_load_balancer_controller_role = true
external_dns_role                 = true
external_dns_hosted_zones         = ["Z0123456789ABCDEFGHIJ"]
cert_manager_role                 = true
cert_manager_hosted_zones         = ["Z0123456789ABCDEFGHIJ"]
cluster_creator_admin             = false
cluster_creator_entry             = true
node_groups                       = { arm = { instance_types = ["m7g.large"] }, own = { ami_id = "ami-0123456789abcdef0" } }
fargate_profiles                  = { batch = { selectors = [{ namespace = "batch" }] } }
`},
	{"eks", "controllers-irsa", migrationVars + `
addon_identity                    = "IRSA"
ebs_csi_driver                    = true
aws_load_balancer_controller_role = true
`},
	{"node-group", "bottlerocket-spot", `
name           = "workers"
cluster_name   = "demo"
subnet_ids     = ["subnet-a"]
ami_type       = "BOTTLEROCKET_ARM_64"
instance_types = ["m7g.large"]
capacity_type  = "Spot"
taints         = [{ key = "a", effect = "NoSchedule" }]
node_repair    = true
`},
	{"node-group", "arm64", `
name           = "workers"
cluster_name   = "demo"
subnet_ids     = ["subnet-a"]
instance_types = ["m7g.large", "m6g.large"]
`},
	{"machine", "amazon-linux", machineVars},
	{"machine", "bottlerocket-spot", machineVars + `
os                    = "Bottlerocket"
capacity_type         = "Spot"
instance_profile_name = "nodes"
`},
}

const machineVars = `
name                               = "node-1"
cluster_name                       = "demo"
kubernetes_version                 = "1.33"
subnet_ids                         = ["subnet-a"]
cluster_endpoint                   = "https://demo"
cluster_certificate_authority_data = "Q0E="
cluster_service_cidr               = "172.20.0.0/16"
security_group_ids                 = ["sg-0"]
`

// checkPlans plans each of them with an empty state, and checks that the plan only
// creates resources.
func (w *workspace) checkPlans(ctx context.Context) (string, error) {
	var seen []string
	for _, p := range realPlans {
		fake := newFakeAWS()
		changes, err := w.createPlan(ctx, fake, p.module, "zz-plan-"+p.module+"-"+p.as, p.vars)
		fake.Close()
		if err != nil {
			return "", fmt.Errorf("%s (%s): %w", p.module, p.as, err)
		}
		created := with("create", changes)
		for _, c := range changes {
			if !c.has("create") && !c.has("read") {
				return "", fmt.Errorf("%s (%s): the plan would %s %s", p.module, p.as, c.Change.Actions, c.Address)
			}
		}
		if len(created) == 0 {
			return "", fmt.Errorf("%s (%s): the plan creates nothing", p.module, p.as)
		}
		seen = append(seen, fmt.Sprintf("%s %d", p.module, len(created)))
	}
	return "resources: " + strings.Join(seen, ", "), nil
}

func (w *workspace) createPlan(ctx context.Context, fake *fakeAWS, module, as, vars string) ([]change, error) {
	dir, err := w.rootOf(ctx, module, as, map[string]string{"zz_provider.tf": fakeProvider, "terraform.tfvars": vars})
	if err != nil {
		return nil, err
	}
	return w.plan(ctx, dir, fake)
}

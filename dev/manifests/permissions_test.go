package main

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// permissions are what the rows of the table in docs/operations.md stand for: resources, and
// verbs after a colon.
var permissions = map[string]string{
	"Secrets: read, create, change":                                "secrets secrets/capt: get list watch create update patch manage",
	"Secrets: delete":                                              "secrets: delete",
	"Jobs: create, delete":                                         "jobs serviceaccounts serviceaccounts/token roles rolebindings leases networkpolicies secrets/capt: create delete update patch store, pods events jobs serviceaccounts roles rolebindings leases: get list watch",
	"ConfigMaps: read":                                             "configmaps: get list watch",
	"workspaces: create, change, delete":                           "workspacetemplateapplies: create patch delete, workspaceapprovals: create approve-own",
	"templates, provider configs and CAPTClusters: change":         "workspacetemplates workspaceproviderconfigs captclusters: patch, controllerrevisions: get list create delete, workspaceoperations: create delete, workspaceapprovals: delete, workspaceplans workspaceruns: create, workspacetemplateapplies/host: update",
	"control planes: change":                                       "captcontrolplanes: patch",
	"machines and machine sets: change, delete":                    "captmachines captmachinesets: patch delete",
	"machines and machine sets: create":                            "captmachines captmachinesets: create",
	"machine deployments and machine pools: change":                "captmachinedeployments captmachinepools: patch",
	"machine deployments and machine pools: delete":                "captmachinedeployments captmachinepools: delete",
	"add-ons and ClusterResourceSets: create, change, delete":      "captaddons clusterresourcesets: create patch delete",
	"Clusters: change":                                             "clusters: patch",
	"MachinePools of Cluster API: change":                          "machinepools: patch",
	"Events, status and finalizers of the provider's kinds: write": "events: create patch",
}

// plain are groups of kinds of which a manager may read everything: they hold no secrets.
var plain = []string{
	"addons.cluster.x-k8s.io", "bootstrap.cluster.x-k8s.io", "cluster.x-k8s.io", "controlplane.cluster.x-k8s.io", "infrastructure.cluster.x-k8s.io", "source.toolkit.fluxcd.io",
}

// docs/operations.md lists exactly what the token of each provider's manager may do.
func TestOperationsPage_listsThePermissionsOfProviders(t *testing.T) {
	_, section, _ := strings.Cut(readFile(t, "../../docs/operations.md"), "\n| permission | infrastructure | control-plane | bootstrap | addon |\n|---|---|---|---|---|\n")
	table, _, _ := strings.Cut(section, "\n\n")
	files := built(t, first)
	column := regexp.MustCompile(` *\| *`)
	listed := map[string]map[string]bool{}
	for row := range strings.Lines(table) {
		cells := column.Split(strings.Trim(row, "| \n"), -1)
		found := ""
		for name := range permissions {
			if strings.HasPrefix(cells[0], name) {
				found = name
			}
		}
		if found == "" || len(cells) > 5 {
			t.Fatalf("unknown row %q", row)
		}
		for i, provider := range []string{"infrastructure", "control-plane", "bootstrap", "addon"} {
			if listed[provider] == nil {
				listed[provider] = map[string]bool{}
			}
			if i+1 < len(cells) && cells[i+1] == "yes" {
				for group := range strings.SplitSeq(permissions[found], ", ") {
					resources, verbs, _ := strings.Cut(group, ": ")
					for resource := range strings.FieldsSeq(resources) {
						for verb := range strings.FieldsSeq(verbs) {
							listed[provider][resource+" "+verb] = true
						}
					}
				}
			}
		}
	}
	if len(strings.Split(strings.TrimSpace(table), "\n")) != len(permissions) {
		t.Errorf("the table has other rows than %d", len(permissions))
	}
	for _, p := range providers {
		have := map[string]bool{}
		for _, o := range parse(t, files[p.name+"-components.yaml"]) {
			if o.Kind != "ClusterRole" || !strings.HasSuffix(o.Metadata.Name, "-manager-role") {
				continue
			}
			for _, rule := range o.Rules {
				for _, resource := range rule.Resources {
					for _, verb := range rule.Verbs {
						isRead := slices.Contains([]string{"get", "list", "watch"}, verb)
						isOwn := strings.HasSuffix(resource, "/status") || strings.HasSuffix(resource, "/finalizers")
						if isRead && (slices.Contains(plain, rule.APIGroups[0]) || resource == "namespaces") || isOwn {
							continue
						}
						have[resource+" "+verb] = true
						if !listed[p.name][resource+" "+verb] {
							t.Errorf("the page does not list %s %s of %s", verb, resource, p.name)
						}
					}
				}
			}
		}
		for row, text := range permissions {
			if granted(have, text) != granted(listed[p.name], text) {
				t.Errorf("%s: the page and the role differ in %q", p.name, row)
			}
		}
	}
}

// granted reports whether any permission of a row is granted that no other row has.
func granted(have map[string]bool, text string) bool {
	resources, verbs, _ := strings.Cut(strings.Split(text, ", ")[0], ": ")
	return have[strings.Fields(resources)[0]+" "+strings.Fields(verbs)[0]]
}

package main

import (
	"encoding/json"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/types"
	helmrelease "helm.sh/helm/v4/pkg/release/v1"
)

// model is a helm_release in Terraform's types.
type model struct {
	Name        types.String   `tfsdk:"name"`
	Namespace   types.String   `tfsdk:"namespace"`
	Chart       types.String   `tfsdk:"chart"`
	Version     types.String   `tfsdk:"version"`
	Description types.String   `tfsdk:"description"`
	Devel       types.Bool     `tfsdk:"devel"`
	Values      []types.String `tfsdk:"values"`
	MaxHistory  types.Int64    `tfsdk:"max_history"`
	Timeout     types.Int64    `tfsdk:"timeout"`

	ID        types.String `tfsdk:"id"`
	Manifest  types.String `tfsdk:"manifest"`
	Status    types.String `tfsdk:"status"`
	Resources types.Map    `tfsdk:"resources"`
	Metadata  types.Object `tfsdk:"metadata"`

	Set          []assignment     `tfsdk:"set"`
	SetSensitive []assignment     `tfsdk:"set_sensitive"`
	SetList      []listAssignment `tfsdk:"set_list"`
	Postrender   types.Object     `tfsdk:"postrender"`

	Keyring            types.String `tfsdk:"keyring"`
	Repository         types.String `tfsdk:"repository"`
	RepositoryCAFile   types.String `tfsdk:"repository_ca_file"`
	RepositoryCertFile types.String `tfsdk:"repository_cert_file"`
	RepositoryKeyFile  types.String `tfsdk:"repository_key_file"`
	RepositoryUsername types.String `tfsdk:"repository_username"`
	RepositoryPassword types.String `tfsdk:"repository_password"`

	Atomic                   types.Bool `tfsdk:"atomic"`
	CleanupOnFail            types.Bool `tfsdk:"cleanup_on_fail"`
	CreateNamespace          types.Bool `tfsdk:"create_namespace"`
	DependencyUpdate         types.Bool `tfsdk:"dependency_update"`
	DisableCRDHooks          types.Bool `tfsdk:"disable_crd_hooks"`
	DisableOpenAPIValidation types.Bool `tfsdk:"disable_openapi_validation"`
	DisableWebhooks          types.Bool `tfsdk:"disable_webhooks"`
	ForceUpdate              types.Bool `tfsdk:"force_update"`
	Lint                     types.Bool `tfsdk:"lint"`
	PassCredentials          types.Bool `tfsdk:"pass_credentials"`
	RecreatePods             types.Bool `tfsdk:"recreate_pods"`
	RenderSubchartNotes      types.Bool `tfsdk:"render_subchart_notes"`
	Replace                  types.Bool `tfsdk:"replace"`
	ResetValues              types.Bool `tfsdk:"reset_values"`
	ReuseValues              types.Bool `tfsdk:"reuse_values"`
	SkipCRDs                 types.Bool `tfsdk:"skip_crds"`
	TakeOwnership            types.Bool `tfsdk:"take_ownership"`
	UpgradeInstall           types.Bool `tfsdk:"upgrade_install"`
	Verify                   types.Bool `tfsdk:"verify"`
	Wait                     types.Bool `tfsdk:"wait"`
	WaitForJobs              types.Bool `tfsdk:"wait_for_jobs"`
}

// assignment is an entry of set or set_sensitive.
type assignment struct {
	Name  types.String `tfsdk:"name"`
	Value types.String `tfsdk:"value"`
	Type  types.String `tfsdk:"type"`
}

// listAssignment is an entry of set_list.
type listAssignment struct {
	Name  types.String   `tfsdk:"name"`
	Value []types.String `tfsdk:"value"`
}

// deployedTypes are the types of the fields of deployed.
var deployedTypes = map[string]attr.Type{
	"app_version": types.StringType, "chart": types.StringType, "name": types.StringType, "namespace": types.StringType,
	"notes": types.StringType, "values": types.StringType, "version": types.StringType,
	"first_deployed": types.Int64Type, "last_deployed": types.Int64Type, "revision": types.Int64Type,
}

// record sets the status of a deployed release in the model.
func (m *model) record(r *helmrelease.Release) diag.Diagnostics {
	m.ID = types.StringValue(r.Name)
	m.Status = types.StringValue(r.Info.Status.String())
	m.Manifest = types.StringNull()
	m.Resources = types.MapNull(types.StringType)
	if m.Version.IsUnknown() || m.Version.IsNull() {
		m.Version = types.StringValue(r.Chart.Metadata.Version)
	}
	if m.Description.IsUnknown() {
		m.Description = types.StringNull()
	}
	values, err := json.Marshal(r.Config)
	if err != nil {
		return diag.Diagnostics{diag.NewErrorDiagnostic("Writing the release's values", err.Error())}
	}
	var diags diag.Diagnostics
	m.Metadata, diags = types.ObjectValue(deployedTypes, map[string]attr.Value{
		"app_version":    types.StringValue(r.Chart.Metadata.AppVersion),
		"chart":          types.StringValue(r.Chart.Metadata.Name),
		"name":           types.StringValue(r.Name),
		"namespace":      types.StringValue(r.Namespace),
		"notes":          types.StringValue(r.Info.Notes),
		"values":         types.StringValue(string(values)),
		"version":        types.StringValue(r.Chart.Metadata.Version),
		"first_deployed": types.Int64Value(r.Info.FirstDeployed.Unix()),
		"last_deployed":  types.Int64Value(r.Info.LastDeployed.Unix()),
		"revision":       types.Int64Value(int64(r.Version)),
	})
	return diags
}

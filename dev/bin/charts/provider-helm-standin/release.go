package main

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
	helmrelease "helm.sh/helm/v4/pkg/release/v1"
)

// release is the resource helm_release.
type release struct{ settings *settings }

func (*release) Metadata(_ context.Context, _ resource.MetadataRequest, response *resource.MetadataResponse) {
	response.TypeName = "helm_release"
}

// Schema returns the arguments of a helm_release.
func (*release) Schema(_ context.Context, _ resource.SchemaRequest, response *resource.SchemaResponse) {
	replace := []planmodifier.String{stringplanmodifier.RequiresReplace()}
	flag := func(standard bool) schema.BoolAttribute {
		return schema.BoolAttribute{Optional: true, Computed: true, Default: booldefault.StaticBool(standard)}
	}
	response.Schema = schema.Schema{Version: 2, Attributes: map[string]schema.Attribute{
		"name": schema.StringAttribute{
			Required: true, PlanModifiers: replace,
			Validators: []validator.String{stringvalidator.LengthBetween(1, 53)},
		},
		"namespace": schema.StringAttribute{
			Optional: true, Computed: true, PlanModifiers: replace, Default: stringdefault.StaticString("default"),
		},
		"repository":       schema.StringAttribute{Optional: true},
		"chart":            schema.StringAttribute{Required: true},
		"version":          schema.StringAttribute{Optional: true, Computed: true},
		"create_namespace": flag(false),
		"upgrade_install":  flag(false),
		"wait":             flag(true),
		"values":           schema.ListAttribute{Optional: true, ElementType: types.StringType},
		"set": schema.ListNestedAttribute{Optional: true, NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
			"name":  schema.StringAttribute{Required: true},
			"value": schema.StringAttribute{Optional: true},
			"type": schema.StringAttribute{
				Optional: true, Computed: true, Default: stringdefault.StaticString("auto"),
				Validators: []validator.String{stringvalidator.OneOf("auto", "string", "literal")},
			},
		}}},

		"id": schema.StringAttribute{
			Computed: true, PlanModifiers: []planmodifier.String{stringplanmodifier.UseStateForUnknown()},
		},
		"status": schema.StringAttribute{Computed: true},
		"metadata": schema.SingleNestedAttribute{Computed: true, Attributes: map[string]schema.Attribute{
			"app_version": schema.StringAttribute{Computed: true},
			"revision":    schema.Int64Attribute{Computed: true},
		}},
	}}
}

// model is a helm_release in Terraform's types.
type model struct {
	Name            types.String   `tfsdk:"name"`
	Namespace       types.String   `tfsdk:"namespace"`
	Repository      types.String   `tfsdk:"repository"`
	Chart           types.String   `tfsdk:"chart"`
	Version         types.String   `tfsdk:"version"`
	CreateNamespace types.Bool     `tfsdk:"create_namespace"`
	UpgradeInstall  types.Bool     `tfsdk:"upgrade_install"`
	Wait            types.Bool     `tfsdk:"wait"`
	Values          []types.String `tfsdk:"values"`
	Set             []assignment   `tfsdk:"set"`

	ID       types.String `tfsdk:"id"`
	Status   types.String `tfsdk:"status"`
	Metadata types.Object `tfsdk:"metadata"`
}

// assignment is an entry of set.
type assignment struct {
	Name  types.String `tfsdk:"name"`
	Value types.String `tfsdk:"value"`
	Type  types.String `tfsdk:"type"`
}

// record sets the status of a deployed release in the model.
func (m *model) record(r *helmrelease.Release) diag.Diagnostics {
	m.ID = types.StringValue(r.Name)
	m.Status = types.StringValue(r.Info.Status.String())
	if m.Version.IsUnknown() || m.Version.IsNull() {
		m.Version = types.StringValue(r.Chart.Metadata.Version)
	}
	var diags diag.Diagnostics
	m.Metadata, diags = types.ObjectValue(
		map[string]attr.Type{"app_version": types.StringType, "revision": types.Int64Type},
		map[string]attr.Value{"app_version": types.StringValue(r.Chart.Metadata.AppVersion), "revision": types.Int64Value(int64(r.Version))},
	)
	return diags
}

package main

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/int64default"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

// release is the resource helm_release.
type release struct{ settings *settings }

func (*release) Metadata(_ context.Context, _ resource.MetadataRequest, response *resource.MetadataResponse) {
	response.TypeName = "helm_release"
}

// Schema returns the arguments of a helm_release.
func (*release) Schema(_ context.Context, _ resource.SchemaRequest, response *resource.SchemaResponse) {
	replace := []planmodifier.String{stringplanmodifier.RequiresReplace()}
	attributes := map[string]schema.Attribute{
		"name": schema.StringAttribute{
			Required: true, PlanModifiers: replace,
			Validators: []validator.String{stringvalidator.LengthBetween(1, 53)},
		},
		"namespace": schema.StringAttribute{
			Optional: true, Computed: true, PlanModifiers: replace, Default: stringdefault.StaticString("default"),
		},
		"chart":       schema.StringAttribute{Required: true},
		"version":     schema.StringAttribute{Optional: true, Computed: true},
		"description": schema.StringAttribute{Optional: true, Computed: true},
		"devel":       schema.BoolAttribute{Optional: true},
		"values":      schema.ListAttribute{Optional: true, ElementType: types.StringType},
		"max_history": schema.Int64Attribute{Optional: true, Computed: true, Default: int64default.StaticInt64(0)},
		"timeout":     schema.Int64Attribute{Optional: true, Computed: true, Default: int64default.StaticInt64(300)},

		"id": schema.StringAttribute{
			Computed: true, PlanModifiers: []planmodifier.String{stringplanmodifier.UseStateForUnknown()},
		},
		"manifest":  schema.StringAttribute{Computed: true},
		"status":    schema.StringAttribute{Computed: true},
		"resources": schema.MapAttribute{Computed: true, ElementType: types.StringType},
		"metadata":  schema.SingleNestedAttribute{Computed: true, Attributes: deployed()},

		"set":           schema.ListNestedAttribute{Optional: true, NestedObject: setting(false)},
		"set_sensitive": schema.ListNestedAttribute{Optional: true, NestedObject: setting(true)},
		"set_list": schema.ListNestedAttribute{Optional: true, NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
			"name":  schema.StringAttribute{Required: true},
			"value": schema.ListAttribute{Required: true, ElementType: types.StringType},
		}}},
		"postrender": schema.SingleNestedAttribute{Optional: true, Attributes: map[string]schema.Attribute{
			"binary_path": schema.StringAttribute{Required: true},
			"args":        schema.ListAttribute{Optional: true, ElementType: types.StringType},
		}},
	}
	for _, name := range []string{"keyring", "repository", "repository_ca_file", "repository_cert_file", "repository_key_file", "repository_username"} {
		attributes[name] = schema.StringAttribute{Optional: true}
	}
	attributes["repository_password"] = schema.StringAttribute{Optional: true, Sensitive: true}
	for _, name := range []string{
		"atomic", "cleanup_on_fail", "create_namespace", "dependency_update", "disable_crd_hooks", "disable_openapi_validation",
		"disable_webhooks", "force_update", "lint", "pass_credentials", "recreate_pods", "render_subchart_notes", "replace", "reset_values",
		"reuse_values", "skip_crds", "take_ownership", "upgrade_install", "verify", "wait", "wait_for_jobs",
	} {
		on := name == "wait" || name == "render_subchart_notes"
		attributes[name] = schema.BoolAttribute{Optional: true, Computed: true, Default: booldefault.StaticBool(on)}
	}
	response.Schema = schema.Schema{Version: 2, Attributes: attributes}
}

// setting is an entry of set or set_sensitive.
func setting(sensitive bool) schema.NestedAttributeObject {
	kind := schema.StringAttribute{
		Optional: true, Computed: !sensitive,
		Validators: []validator.String{stringvalidator.OneOf("auto", "string", "literal")},
	}
	if kind.Computed {
		kind.Default = stringdefault.StaticString("auto")
	}
	return schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
		"name":  schema.StringAttribute{Required: true},
		"value": schema.StringAttribute{Optional: !sensitive, Required: sensitive, Sensitive: sensitive},
		"type":  kind,
	}}
}

// deployed is the status of a deployed release.
func deployed() map[string]schema.Attribute {
	known := map[string]schema.Attribute{}
	for _, name := range []string{"app_version", "chart", "name", "namespace", "notes", "values", "version"} {
		known[name] = schema.StringAttribute{Computed: true}
	}
	for _, name := range []string{"first_deployed", "last_deployed", "revision"} {
		known[name] = schema.Int64Attribute{Computed: true}
	}
	return known
}

// Command provider-helm-standin is a Terraform provider that replaces hashicorp/helm 3
// in tests, which is not available as a Go module. It has the same address and schema
// and installs charts with Helm's SDK. It rejects arguments that no module here uses,
// such as post-renderers and provenance.
package main

import (
	"context"
	"log"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/provider/schema"
	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

func main() {
	err := providerserver.Serve(context.Background(), func() provider.Provider { return standIn{} }, providerserver.ServeOpts{
		Address: "registry.opentofu.org/hashicorp/helm",
	})
	if err != nil {
		log.Fatal(err)
	}
}

type standIn struct{}

func (standIn) Metadata(_ context.Context, _ provider.MetadataRequest, response *provider.MetadataResponse) {
	response.TypeName = "helm"
}

func text() schema.StringAttribute { return schema.StringAttribute{Optional: true} }

func secret() schema.StringAttribute { return schema.StringAttribute{Optional: true, Sensitive: true} }

func texts() schema.ListAttribute {
	return schema.ListAttribute{Optional: true, ElementType: types.StringType}
}

// Schema returns the arguments of a provider block.
func (standIn) Schema(_ context.Context, _ provider.SchemaRequest, response *provider.SchemaResponse) {
	required := schema.StringAttribute{Required: true}
	response.Schema = schema.Schema{Attributes: map[string]schema.Attribute{
		"burst_limit":            schema.Int64Attribute{Optional: true},
		"debug":                  schema.BoolAttribute{Optional: true},
		"helm_driver":            text(),
		"plugins_path":           text(),
		"qps":                    schema.Float64Attribute{Optional: true},
		"registry_config_path":   text(),
		"repository_cache":       text(),
		"repository_config_path": text(),
		"experiments": schema.SingleNestedAttribute{Optional: true, Attributes: map[string]schema.Attribute{
			"manifest": schema.BoolAttribute{Optional: true},
		}},
		"registries": schema.ListNestedAttribute{Optional: true, NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
			"url": required, "username": required, "password": schema.StringAttribute{Required: true, Sensitive: true},
		}}},
		"kubernetes": schema.SingleNestedAttribute{Optional: true, Attributes: map[string]schema.Attribute{
			"client_certificate":       text(),
			"client_key":               secret(),
			"cluster_ca_certificate":   text(),
			"config_context":           text(),
			"config_context_auth_info": text(),
			"config_context_cluster":   text(),
			"config_path":              text(),
			"config_paths":             texts(),
			"host":                     text(),
			"insecure":                 schema.BoolAttribute{Optional: true},
			"password":                 secret(),
			"proxy_url":                text(),
			"tls_server_name":          text(),
			"token":                    secret(),
			"username":                 text(),
			"exec": schema.SingleNestedAttribute{Optional: true, Attributes: map[string]schema.Attribute{
				"api_version": required, "command": required, "args": texts(),
				"env": schema.MapAttribute{Optional: true, ElementType: types.StringType},
			}},
		}},
	}}
}

// Configure stores the provider configuration. It does not connect to a cluster yet,
// because a plan may run before the cluster exists.
func (standIn) Configure(ctx context.Context, request provider.ConfigureRequest, response *provider.ConfigureResponse) {
	var s settings
	response.Diagnostics.Append(request.Config.Get(ctx, &s)...)
	response.ResourceData = &s
}

func (standIn) DataSources(context.Context) []func() datasource.DataSource { return nil }

func (standIn) Resources(context.Context) []func() resource.Resource {
	return []func() resource.Resource{func() resource.Resource { return &release{} }}
}

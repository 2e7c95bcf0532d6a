// Command provider-helm-standin is a Terraform provider that replaces hashicorp/helm 3
// in tests, which is not available as a Go module. It has the same address and the part of
// its schema that is used here, and installs charts with Helm's SDK.
package main

import (
	"context"
	"log"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/provider/schema"
	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-framework/resource"
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

// Schema returns the arguments of a provider block.
func (standIn) Schema(_ context.Context, _ provider.SchemaRequest, response *provider.SchemaResponse) {
	text := schema.StringAttribute{Optional: true}
	response.Schema = schema.Schema{Attributes: map[string]schema.Attribute{
		"kubernetes": schema.SingleNestedAttribute{Optional: true, Attributes: map[string]schema.Attribute{
			"cluster_ca_certificate": text,
			"config_path":            text,
			"host":                   text,
			"token":                  schema.StringAttribute{Optional: true, Sensitive: true},
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

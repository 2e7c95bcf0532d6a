package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"helm.sh/helm/v4/pkg/action"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/kube"
	helmrelease "helm.sh/helm/v4/pkg/release/v1"
	"helm.sh/helm/v4/pkg/storage/driver"
)

// Configure stores the provider's settings.
func (r *release) Configure(_ context.Context, request resource.ConfigureRequest, _ *resource.ConfigureResponse) {
	if s, ok := request.ProviderData.(*settings); ok {
		r.settings = s
	}
}

// Create installs the release.
func (r *release) Create(ctx context.Context, request resource.CreateRequest, response *resource.CreateResponse) {
	var m model
	response.Diagnostics.Append(request.Plan.Get(ctx, &m)...)
	if response.Diagnostics.HasError() {
		return
	}
	installed, err := r.install(ctx, &m)
	if installed != nil {
		response.Diagnostics.Append(m.record(installed)...)
		response.Diagnostics.Append(response.State.Set(ctx, &m)...)
	}
	addError(&response.Diagnostics, "Installing "+m.Name.ValueString(), err)
}

// Read reads the release. A missing release is removed from the state.
func (r *release) Read(ctx context.Context, request resource.ReadRequest, response *resource.ReadResponse) {
	var m model
	response.Diagnostics.Append(request.State.Get(ctx, &m)...)
	if response.Diagnostics.HasError() {
		return
	}
	found, err := r.get(&m)
	switch {
	case errors.Is(err, driver.ErrReleaseNotFound):
		response.State.RemoveResource(ctx)
		return
	case err != nil:
		addError(&response.Diagnostics, "Reading "+m.Name.ValueString(), err)
		return
	}
	if !strings.ContainsAny(m.Version.ValueString(), "<>=~^*x ,|") {
		m.Version = types.StringValue(found.Chart.Metadata.Version)
	}
	if m.Chart.IsNull() {
		m.Chart = types.StringValue(found.Chart.Metadata.Name)
	}
	response.Diagnostics.Append(m.record(found)...)
	response.Diagnostics.Append(response.State.Set(ctx, &m)...)
}

// Update upgrades the release.
func (r *release) Update(ctx context.Context, request resource.UpdateRequest, response *resource.UpdateResponse) {
	var m model
	response.Diagnostics.Append(request.Plan.Get(ctx, &m)...)
	if response.Diagnostics.HasError() {
		return
	}
	upgraded, err := r.upgrade(ctx, &m)
	if err == nil {
		response.Diagnostics.Append(m.record(upgraded)...)
		response.Diagnostics.Append(response.State.Set(ctx, &m)...)
	}
	addError(&response.Diagnostics, "Upgrading "+m.Name.ValueString(), err)
}

// Delete uninstalls the release. A missing release is not an error.
func (r *release) Delete(ctx context.Context, request resource.DeleteRequest, response *resource.DeleteResponse) {
	var m model
	response.Diagnostics.Append(request.State.Get(ctx, &m)...)
	if response.Diagnostics.HasError() {
		return
	}
	addError(&response.Diagnostics, "Uninstalling "+m.Name.ValueString(), r.uninstall(&m))
}

// ImportState imports an existing release by NAMESPACE/NAME.
func (r *release) ImportState(ctx context.Context, request resource.ImportStateRequest, response *resource.ImportStateResponse) {
	namespace, name, found := strings.Cut(request.ID, "/")
	if !found || namespace == "" || name == "" {
		response.Diagnostics.AddError("Importing "+request.ID, "use an id of the form NAMESPACE/NAME, for example karpenter/karpenter")
		return
	}
	response.Diagnostics.Append(response.State.SetAttribute(ctx, path.Root("namespace"), namespace)...)
	response.Diagnostics.Append(response.State.SetAttribute(ctx, path.Root("name"), name)...)
	response.Diagnostics.Append(response.State.SetAttribute(ctx, path.Root("id"), name)...)
}

func addError(diagnostics *diag.Diagnostics, summary string, err error) {
	if err != nil {
		diagnostics.AddError(summary, err.Error())
	}
}

// install installs the release, or upgrades an existing one if upgrade_install is set.
// It returns a failed release together with the error.
func (r *release) install(ctx context.Context, m *model) (*helmrelease.Release, error) {
	if m.UpgradeInstall.ValueBool() {
		if _, err := r.get(m); err == nil {
			return r.upgrade(ctx, m)
		} else if !errors.Is(err, driver.ErrReleaseNotFound) {
			return nil, err
		}
	}
	helm, loaded, values, err := r.inputs(m)
	if err != nil {
		return nil, err
	}
	install := action.NewInstall(helm)
	install.ReleaseName, install.Namespace = m.Name.ValueString(), m.Namespace.ValueString()
	install.CreateNamespace = m.CreateNamespace.ValueBool()
	install.Timeout, install.WaitStrategy = timeout, m.wait()
	// The real provider uses Helm 3, which applies on the client side.
	install.ServerSideApply = false
	_, runErr := install.RunWithContext(ctx, loaded, values)
	installed, err := r.get(m)
	if runErr != nil {
		return installed, runErr
	}
	return installed, err
}

// inputs returns what an installation or upgrade needs.
func (r *release) inputs(m *model) (*action.Configuration, *chart.Chart, map[string]any, error) {
	helm, err := r.settings.helm(m.Namespace.ValueString())
	if err != nil {
		return nil, nil, nil, err
	}
	loaded, err := m.load()
	if err != nil {
		return nil, nil, nil, err
	}
	values, err := m.values()
	return helm, loaded, values, err
}

func (r *release) upgrade(ctx context.Context, m *model) (*helmrelease.Release, error) {
	helm, loaded, values, err := r.inputs(m)
	if err != nil {
		return nil, err
	}
	upgrade := action.NewUpgrade(helm)
	upgrade.Namespace, upgrade.Timeout, upgrade.WaitStrategy = m.Namespace.ValueString(), timeout, m.wait()
	upgrade.ServerSideApply = "false"
	if _, err := upgrade.RunWithContext(ctx, m.Name.ValueString(), loaded, values); err != nil {
		return nil, err
	}
	return r.get(m)
}

func (r *release) uninstall(m *model) error {
	helm, err := r.settings.helm(m.Namespace.ValueString())
	if err != nil {
		return err
	}
	uninstall := action.NewUninstall(helm)
	uninstall.IgnoreNotFound = true
	uninstall.DeletionPropagation, uninstall.Timeout, uninstall.WaitStrategy = "background", timeout, m.wait()
	_, err = uninstall.Run(m.Name.ValueString())
	return err
}

// get returns the newest revision of the release.
func (r *release) get(m *model) (*helmrelease.Release, error) {
	helm, err := r.settings.helm(m.Namespace.ValueString())
	if err != nil {
		return nil, err
	}
	found, err := action.NewGet(helm).Run(m.Name.ValueString())
	if err != nil {
		return nil, err
	}
	known, ok := found.(*helmrelease.Release)
	if !ok {
		return nil, fmt.Errorf("the release %s has an unknown type: %T", m.Name.ValueString(), found)
	}
	return known, nil
}

// timeout is the default of the real provider.
const timeout = 5 * time.Minute

func (m *model) wait() kube.WaitStrategy {
	if m.Wait.ValueBool() {
		return kube.LegacyStrategy
	}
	return kube.HookOnlyStrategy
}

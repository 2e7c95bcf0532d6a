package render

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	"github.com/appthrust/capt/internal/addon/targetpath"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// Annotations, labels and finalizers of Flux.
const (
	// fluxRequestedAt requests a reconciliation; Flux records the handled value.
	fluxRequestedAt = "reconcile.fluxcd.io/requestedAt"
	// fluxResetAt, equal to fluxRequestedAt, resets the failure count of Flux.
	fluxResetAt = "reconcile.fluxcd.io/resetAt"
	// fluxWatchLabel makes Flux reconcile a release when the Secret changes.
	fluxWatchLabel = "reconcile.fluxcd.io/watch"
	// fluxFinalizer is the finalizer that Flux sets. The manifest has it, so that a
	// release that is deleted before Flux saw it is uninstalled too.
	fluxFinalizer = "finalizers.fluxcd.io"

	helmAPI   = "helm.toolkit.fluxcd.io/v2"
	sourceAPI = "source.toolkit.fluxcd.io/v1"
	// ChartMediaType is the media type of a chart in an OCI registry.
	ChartMediaType = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"

	defaultInterval = 5 * time.Minute
	// releaseRetries is the number of retries of Flux. CAPT retries after Flux has
	// given up.
	releaseRetries = 2
)

// Release is a Helm release in a workload cluster.
type Release struct {
	Namespace, Name string
	// Version is the version of the chart.
	Version string
	// Token is the value that Flux records after it reconciled this rendering.
	Token string
}

// release returns the objects that Flux needs for the Helm release: the
// namespace, the Secret with outputs, the chart source, and the HelmRelease.
func (in *Input) release(values map[string]string, b *budget) ([]*unstructured.Unstructured, *Release, error) {
	helm := in.Addon.Spec.Helm
	release := &Release{Namespace: helm.Namespace, Name: in.Addon.Name, Version: helm.Chart.Version}
	copied, references, err := in.outputs(in.Addon.Name + "-connection")
	if err != nil {
		return nil, nil, err
	}
	chartValues, err := in.chartValues(values, b)
	if err != nil {
		return nil, nil, err
	}
	spec := map[string]any{
		"interval":       interval(helm),
		"releaseName":    releaseName(in.Addon),
		"driftDetection": map[string]any{"mode": "enabled"},
		"install":        installSpec(helm),
		"upgrade":        upgradeSpec(helm),
	}
	if in.Addon.Spec.Timeout != nil && helm.Wait == "Always" {
		spec["timeout"] = in.Addon.Spec.Timeout.Duration.String()
	}
	if chartValues != nil {
		spec["values"] = chartValues
	}
	if len(references) > 0 {
		spec["valuesFrom"] = references
	}
	secrets, err := in.chartSecrets(b)
	if err != nil {
		return nil, nil, err
	}
	source := in.chartSource(spec, secrets)
	hr := newObject(helmAPI, "HelmRelease", helm.Namespace, in.Addon.Name, map[string]any{"spec": spec})
	content, err := json.Marshal([]any{spec, source.Object, copied})
	if err != nil {
		return nil, nil, fmt.Errorf("encoding the release: %w", err)
	}
	release.Token = digest(string(content), roundID(*in))

	var objects []*unstructured.Unstructured
	if !isBuiltIn(helm.Namespace) {
		objects = append(objects, newObject("v1", "Namespace", "", helm.Namespace, nil))
	}
	if len(copied) > 0 {
		secret := newObject("v1", "Secret", helm.Namespace, in.Addon.Name+"-connection", map[string]any{"type": "Opaque", "data": copied})
		secret.SetLabels(map[string]string{fluxWatchLabel: "Enabled"})
		objects = append(objects, secret)
	}
	objects = append(objects, secrets.objects()...)
	hr.SetFinalizers([]string{fluxFinalizer})
	hr.SetAnnotations(map[string]string{fluxRequestedAt: release.Token})
	if roundID(*in) != "0" {
		hr.SetAnnotations(map[string]string{fluxRequestedAt: release.Token, fluxResetAt: release.Token})
	}
	return append(objects, source, hr), release, nil
}

// isBuiltIn reports whether every cluster has the namespace. Such a namespace is
// not rendered: it does not belong to the add-on.
func isBuiltIn(namespace string) bool {
	return namespace == "default" || strings.HasPrefix(namespace, "kube-")
}

func newObject(apiVersion, kind, namespace, name string, content map[string]any) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{Object: content}
	if content == nil {
		obj.Object = map[string]any{}
	}
	obj.SetAPIVersion(apiVersion)
	obj.SetKind(kind)
	obj.SetName(name)
	if namespace != "" {
		obj.SetNamespace(namespace)
	}
	return obj
}

func releaseName(addon *addonsv1.CAPTAddon) string {
	if name := addon.Spec.Helm.ReleaseName; name != "" {
		return name
	}
	return addon.Name
}

func interval(helm *addonsv1.HelmRelease) string {
	if helm.Interval != nil {
		return helm.Interval.Duration.String()
	}
	return defaultInterval.String()
}

func installSpec(helm *addonsv1.HelmRelease) map[string]any {
	crds := "Create"
	if helm.CRDs == "Skip" {
		crds = "Skip"
	}
	return map[string]any{
		"crds": crds, "disableWait": helm.Wait != "Always", "remediation": map[string]any{"retries": int64(releaseRetries)},
	}
}

func upgradeSpec(helm *addonsv1.HelmRelease) map[string]any {
	crds := helm.CRDs
	if crds == "" {
		crds = "CreateReplace"
	}
	return map[string]any{
		"crds": crds, "disableWait": helm.Wait != "Always",
		"remediation": map[string]any{"retries": int64(releaseRetries), "remediateLastFailure": true},
	}
}

func newSource(kind, namespace, name string, spec map[string]any) *unstructured.Unstructured {
	obj := newObject(sourceAPI, kind, namespace, name, map[string]any{"spec": spec})
	obj.SetFinalizers([]string{fluxFinalizer})
	return obj
}

// chartValues returns the values of the chart with resolved placeholders.
func (in *Input) chartValues(values map[string]string, b *budget) (any, error) {
	content, err := in.mergedValues(b)
	if err != nil || content == nil {
		return nil, err
	}
	resolved, err := b.resolve(content, values)
	if err != nil {
		return nil, in.unresolved("helm.values", values, err)
	}
	return resolved, nil
}

// outputs returns the outputs to copy into the cluster, and the valuesFrom of the
// release that refer to them. A default is copied under a key of its own.
func (in *Input) outputs(secret string) (copied map[string]any, references []any, err error) {
	copied = map[string]any{}
	for i, v := range in.Addon.Spec.Helm.ValuesFrom {
		entry := fmt.Sprintf("helm.valuesFrom[%d]", i)
		if _, err := targetpath.Parse(v.TargetPath); err != nil {
			return nil, nil, fault.Stall(addonsv1.InvalidTargetPathReason, "Add-on %s: %s.targetPath %q: %w", in.Addon.Name, entry, v.TargetPath, err)
		}
		key := v.ValuesKey
		value, found := in.Connection[key]
		if !found && v.Default != nil {
			key, value, found = fmt.Sprintf("default-%d", i), []byte(*v.Default), true
		}
		if !found {
			if v.Optional != nil && *v.Optional {
				continue
			}
			return nil, nil, in.missingKey(entry, key)
		}
		copied[key] = base64.StdEncoding.EncodeToString(value)
		reference := map[string]any{"kind": "Secret", "name": secret, "valuesKey": key, "targetPath": v.TargetPath}
		if v.Mode != "Parsed" {
			reference["literal"] = true
		}
		references = append(references, reference)
	}
	for _, key := range requiredKeys(in.Addon) {
		copied[key] = base64.StdEncoding.EncodeToString(in.Connection[key])
	}
	return copied, references, nil
}

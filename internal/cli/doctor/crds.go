package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/appthrust/capt/config/crd"
)

const (
	installClusterAPI = "clusterctl init"
	installCAPT       = "kubectl apply -k config/default, or clusterctl upgrade apply"
)

// clusterAPI looks for Cluster API and the version of its contract.
func (d *Doctor) clusterAPI(ctx context.Context) ([]Result, error) {
	var found []Result
	names := []string{"clusters.cluster.x-k8s.io", "machines.cluster.x-k8s.io"}
	for _, name := range names {
		installed := &apiextensionsv1.CustomResourceDefinition{}
		err := d.Client.Get(ctx, client.ObjectKey{Name: name}, installed)
		switch {
		case client.IgnoreNotFound(err) != nil:
			return nil, fmt.Errorf("reading CRD %s: %w", name, err)
		case err != nil:
			found = append(found, Result{
				Status: Fail, Object: "CRD " + name, Message: "Cluster API is not installed", Mend: installClusterAPI,
			})
		case !slices.Contains(served(installed), clusterv1.GroupVersion.Version):
			found = append(found, Result{
				Status: Fail, Object: "CRD " + name,
				Message: fmt.Sprintf("it serves %s, and CAPT needs %s", strings.Join(served(installed), ", "), clusterv1.GroupVersion.Version),
				Mend:    "clusterctl upgrade apply --contract v1beta2",
			})
		}
	}
	return orFine(found, "Cluster API serves %s", clusterv1.GroupVersion), nil
}

func served(definition *apiextensionsv1.CustomResourceDefinition) []string {
	var versions []string
	for _, v := range definition.Spec.Versions {
		if v.Served {
			versions = append(versions, v.Name)
		}
	}
	return versions
}

// crds compares the installed CRDs with those that this program knows.
func (d *Doctor) crds(ctx context.Context) ([]Result, error) {
	entries, err := crd.Bases.ReadDir("bases")
	if err != nil {
		return nil, fmt.Errorf("reading the CRDs: %w", err)
	}
	var found []Result
	for _, entry := range entries {
		text, err := crd.Bases.ReadFile("bases/" + entry.Name())
		if err != nil {
			return nil, fmt.Errorf("reading the CRDs: %w", err)
		}
		known := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.Unmarshal(text, known); err != nil {
			return nil, fmt.Errorf("reading %s: %w", entry.Name(), err)
		}
		installed := &apiextensionsv1.CustomResourceDefinition{}
		err = d.Client.Get(ctx, client.ObjectKey{Name: known.Name}, installed)
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("reading CRD %s: %w", known.Name, err)
		}
		if err != nil {
			found = append(found, Result{Status: Fail, Object: "CRD " + known.Name, Message: "it is not installed", Mend: installCAPT})
			continue
		}
		found = append(found, compareCRD(known, installed)...)
	}
	return orFine(found, "%d CRDs are installed and serve", len(entries)), nil
}

// compareCRD says what is wrong with an installed CRD.
func compareCRD(known, installed *apiextensionsv1.CustomResourceDefinition) []Result {
	var found []Result
	add := func(status Status, mend, format string, args ...any) {
		found = append(found, Result{Status: status, Object: "CRD " + known.Name, Message: fmt.Sprintf(format, args...), Mend: mend})
	}
	for _, c := range installed.Status.Conditions {
		if (c.Type == apiextensionsv1.Established || c.Type == apiextensionsv1.NamesAccepted) && c.Status != apiextensionsv1.ConditionTrue {
			add(Fail, "kubectl describe crd "+known.Name, "it is not served: %s: %s", c.Reason, c.Message)
		}
	}
	for _, version := range served(known) {
		if !slices.Contains(served(installed), version) {
			add(Fail, installCAPT, "it does not serve %s", version)
		}
	}
	for _, stored := range installed.Status.StoredVersions {
		if !slices.ContainsFunc(installed.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Name == stored && v.Storage }) {
			add(Warn, "clusterctl upgrade apply, which writes every object anew", "objects may still be stored as %s", stored)
		}
	}
	for label, value := range known.Labels {
		if installed.Labels[label] != value {
			add(Fail, fmt.Sprintf("kubectl label crd %s %s=%s --overwrite", known.Name, label, value), "label %s is missing, by which Cluster API finds the version", label)
		}
	}
	for _, want := range known.Spec.Versions {
		for _, have := range installed.Spec.Versions {
			if want.Name == have.Name && !equality.Semantic.DeepEqual(want.Schema, have.Schema) {
				add(Warn, installCAPT, "its schema is not that of this captctl: one of the two is older")
			}
		}
	}
	if installed.DeletionTimestamp != nil {
		add(Fail, "install it again once it is gone: "+installCAPT, "it is being deleted, with all of its objects")
	}
	return found
}

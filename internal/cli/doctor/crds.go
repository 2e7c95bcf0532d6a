package doctor

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/appthrust/capt/config/crd"
)

const (
	installClusterAPI = "clusterctl init"
	upgradeClusterAPI = "clusterctl upgrade apply --contract v1beta2"
	installCAPT       = "install CAPT: clusterctl init --infrastructure capt --control-plane capt --bootstrap capt --addon capt, or see docs/install.md"
	upgradeCAPT       = "clusterctl upgrade apply --contract v1beta2, or see docs/upgrading.md"
)

// clusterAPI checks that Cluster API serves the version that CAPT needs.
func (d *Doctor) clusterAPI(ctx context.Context) ([]Result, error) {
	var problems []Result
	for _, name := range []string{"clusters.cluster.x-k8s.io", "machines.cluster.x-k8s.io", "clusterresourcesets.addons.cluster.x-k8s.io"} {
		installed, err := d.crd(ctx, name)
		switch {
		case err != nil:
			return nil, err
		case installed == nil:
			problems = append(problems, Result{
				Status: Fail, Object: "CRD " + name, Message: "Cluster API is not installed", Fix: installClusterAPI,
			})
		case !slices.Contains(servedVersions(installed), clusterv1.GroupVersion.Version):
			problems = append(problems, Result{
				Status: Fail, Object: "CRD " + name,
				Message: fmt.Sprintf("serves %s, but CAPT needs %s", strings.Join(servedVersions(installed), ", "), clusterv1.GroupVersion.Version),
				Fix:     upgradeClusterAPI,
			})
		}
	}
	return orOK(problems, "Cluster API serves %s", clusterv1.GroupVersion), nil
}

// crd returns a CRD, or nil if it is not installed.
func (d *Doctor) crd(ctx context.Context, name string) (*apiextensionsv1.CustomResourceDefinition, error) {
	installed := &apiextensionsv1.CustomResourceDefinition{}
	if err := d.Client.Get(ctx, client.ObjectKey{Name: name}, installed); apierrors.IsNotFound(err) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("reading CRD %s: %w", name, err)
	}
	return installed, nil
}

func servedVersions(definition *apiextensionsv1.CustomResourceDefinition) []string {
	var versions []string
	for _, v := range definition.Spec.Versions {
		if v.Served {
			versions = append(versions, v.Name)
		}
	}
	return versions
}

// crds compares the installed CRDs with those of this program.
func (d *Doctor) crds(ctx context.Context) ([]Result, error) {
	definitions, err := crd.Definitions()
	if err != nil {
		return nil, err
	}
	var problems []Result
	for _, desired := range definitions {
		installed, err := d.crd(ctx, desired.Name)
		if err != nil {
			return nil, err
		}
		if installed == nil {
			problems = append(problems, Result{Status: Fail, Object: "CRD " + desired.Name, Message: "not installed", Fix: installCAPT})
			continue
		}
		problems = append(problems, crdProblems(desired, installed)...)
	}
	return orOK(problems, "%d CRDs are installed and served", len(definitions)), nil
}

// contractLabel matches the labels by which Cluster API recognizes the kinds that it handles.
var contractLabel = regexp.MustCompile(`^cluster\.x-k8s\.io/v[0-9]`)

// crdProblems returns the differences between a CRD and the installed one that
// matter.
func crdProblems(desired, installed *apiextensionsv1.CustomResourceDefinition) []Result {
	var problems []Result
	add := func(status Status, fix, format string, args ...any) {
		problems = append(problems, Result{Status: status, Object: "CRD " + desired.Name, Message: fmt.Sprintf(format, args...), Fix: fix})
	}
	for _, c := range installed.Status.Conditions {
		if (c.Type == apiextensionsv1.Established || c.Type == apiextensionsv1.NamesAccepted) && c.Status != apiextensionsv1.ConditionTrue {
			add(Fail, "kubectl describe crd "+desired.Name, "not served: %s: %s", c.Reason, c.Message)
		}
	}
	for _, version := range servedVersions(desired) {
		if !slices.Contains(servedVersions(installed), version) {
			add(Fail, upgradeCAPT, "does not serve %s", version)
		}
	}
	for _, stored := range installed.Status.StoredVersions {
		if !slices.ContainsFunc(installed.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Name == stored && v.Storage }) {
			add(Warn, upgradeClusterAPI+", which migrates all objects", "objects may still be stored as %s", stored)
		}
	}
	for label, value := range desired.Labels {
		if installed.Labels[label] != value {
			add(Fail, fmt.Sprintf("kubectl label crd %s %s=%s --overwrite", desired.Name, label, value), "label %s=%s is missing; Cluster API reads the supported versions from it", label, value)
		}
	}
	for label := range installed.Labels {
		if _, ok := desired.Labels[label]; !ok && contractLabel.MatchString(label) {
			add(Fail, fmt.Sprintf("kubectl label crd %s %s-", desired.Name, label), "label %s is only for kinds of the contract: with it, users who may create Clusters can have Cluster API delete objects of this kind", label)
		}
	}
	for _, want := range desired.Spec.Versions {
		for _, have := range installed.Spec.Versions {
			if want.Name == have.Name && !equality.Semantic.DeepEqual(want.Schema, have.Schema) {
				add(Warn, upgradeCAPT, "the schema differs from this captctl's: one of them is outdated")
			}
		}
	}
	if installed.DeletionTimestamp != nil {
		add(Fail, "wait until it is deleted, then "+installCAPT, "being deleted with all of its objects")
	}
	return problems
}

package demo

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/appthrust/capt/internal/local/environment"
)

// The add-ons of the demo.
const (
	flux      = "fluxcd"
	karpenter = "karpenter"
	nodePool  = "karpenter-nodepool-kwok"
)

// readAddons reads the rendered add-ons and makes them use the charts of the
// environment's own server, which serves plain HTTP.
func readAddons(dir, charts string) ([]*unstructured.Unstructured, error) {
	if charts == "" {
		return nil, errors.New("the environment serves no charts: run `make addons` and start it again, or leave out Flux and Karpenter with --addons=false")
	}
	var all []*unstructured.Unstructured
	for _, name := range []string{flux, karpenter, nodePool} {
		path := filepath.Join(dir, name+".yaml")
		objects, err := environment.ReadManifests(path)
		if errors.Is(err, os.ErrNotExist) {
			return nil, fmt.Errorf("add-on %s not found: run `make addons`, or leave out Flux and Karpenter with --addons=false", path)
		}
		if err != nil {
			return nil, err
		}
		for _, object := range objects {
			if err := redirectChart(object, charts); err != nil {
				return nil, err
			}
		}
		all = append(all, objects...)
	}
	return all, nil
}

// redirectChart makes an add-on with a chart use the given server.
func redirectChart(object *unstructured.Unstructured, charts string) error {
	path := []string{"spec", "helm", "chart"}
	chart, found, err := unstructured.NestedMap(object.Object, path...)
	if err != nil || !found {
		return err
	}
	chart["repository"], chart["insecure"] = "oci://"+charts+"/charts", true
	if err := unstructured.SetNestedMap(object.Object, chart, path...); err != nil {
		return fmt.Errorf("changing %s: %w", object.GetName(), err)
	}
	return nil
}

// readPods reads the Deployment whose pods need a node.
func readPods(path string) (*appsv1.Deployment, error) {
	objects, err := environment.ReadManifests(path)
	if err != nil {
		return nil, err
	}
	if len(objects) != 1 || objects[0].GetKind() != "Deployment" {
		return nil, fmt.Errorf("%s must contain exactly one Deployment", path)
	}
	pods := &appsv1.Deployment{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(objects[0].Object, pods); err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	pods.Namespace = "default"
	return pods, nil
}

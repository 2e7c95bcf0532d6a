package environment

import (
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/appthrust/capt/internal/kubernetes/manifest"
)

// fieldOwner is the field manager of the objects that an environment applies.
const fieldOwner = "captctl"

// parallelApplies is how many objects are applied at the same time.
const parallelApplies = 4

// ReadManifests returns the objects of a YAML file, or of all YAML files of a
// directory.
func ReadManifests(path string) ([]*unstructured.Unstructured, error) {
	paths := []string{path}
	if info, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("reading manifests: %w", err)
	} else if info.IsDir() {
		if paths, err = filepath.Glob(filepath.Join(path, "*.yaml")); err != nil {
			return nil, fmt.Errorf("reading manifests: %w", err)
		}
	}
	var objects []*unstructured.Unstructured
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("reading manifests: %w", err)
		}
		found, err := manifest.Parse(text)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", path, err)
		}
		objects = append(objects, found...)
	}
	return objects, nil
}

// Apply creates or updates objects with server-side apply. Namespaced objects without a
// namespace get the given one.
func Apply(ctx context.Context, c client.Client, namespace string, objects []*unstructured.Unstructured) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallelApplies)
	for _, object := range objects {
		group.Go(func() error {
			object := object.DeepCopy()
			namespaced, err := c.IsObjectNamespaced(object)
			if err != nil {
				return fmt.Errorf("applying %s %s: %w", object.GetKind(), object.GetName(), err)
			}
			if namespaced && object.GetNamespace() == "" {
				object.SetNamespace(namespace)
			}
			err = c.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner(fieldOwner), client.ForceOwnership)
			if err != nil {
				return fmt.Errorf("applying %s %s: %w", object.GetKind(), object.GetName(), err)
			}
			return nil
		})
	}
	return group.Wait()
}

// webhookServer is a program that serves webhooks, and the CA of its certificate.
type webhookServer struct {
	url string
	ca  []byte
}

// redirect makes a client configuration point to the program instead of a Service.
// The path is that of the Service unless given.
func (s webhookServer) redirect(config map[string]any, path string) {
	if service, ok := config["service"].(map[string]any); ok && path == "" {
		path, _ = service["path"].(string)
	}
	delete(config, "service")
	config["url"] = s.url + path
	config["caBundle"] = base64.StdEncoding.EncodeToString(s.ca)
}

// redirectWebhooks makes webhook configurations point to a program. Their generated
// names are not unique, so it adds a prefix.
func redirectWebhooks(objects []*unstructured.Unstructured, prefix string, to webhookServer) error {
	for _, object := range objects {
		object.SetName(prefix + object.GetName())
		hooks, _, err := unstructured.NestedSlice(object.Object, "webhooks")
		if err != nil {
			return fmt.Errorf("reading %s: %w", object.GetName(), err)
		}
		for _, hook := range hooks {
			fields, _ := hook.(map[string]any)
			config, ok := fields["clientConfig"].(map[string]any)
			if !ok {
				return fmt.Errorf("reading %s: a webhook has no clientConfig", object.GetName())
			}
			to.redirect(config, "")
		}
		if err := unstructured.SetNestedSlice(object.Object, hooks, "webhooks"); err != nil {
			return fmt.Errorf("changing %s: %w", object.GetName(), err)
		}
	}
	return nil
}

// setConversion makes a program convert the kinds that have several versions.
func setConversion(crds []*unstructured.Unstructured, server webhookServer) error {
	for _, crd := range crds {
		versions, _, err := unstructured.NestedSlice(crd.Object, "spec", "versions")
		if err != nil {
			return fmt.Errorf("reading %s: %w", crd.GetName(), err)
		}
		if len(versions) < 2 {
			continue
		}
		config := map[string]any{}
		server.redirect(config, "/convert")
		conversion := map[string]any{"strategy": "Webhook", "webhook": map[string]any{
			"clientConfig": config, "conversionReviewVersions": []any{"v1"},
		}}
		if err := unstructured.SetNestedMap(crd.Object, conversion, "spec", "conversion"); err != nil {
			return fmt.Errorf("changing %s: %w", crd.GetName(), err)
		}
	}
	return nil
}

// servedPaths returns the paths at which the API server serves kinds in their storage
// version.
func servedPaths(crds []*unstructured.Unstructured) []string {
	paths := map[string]bool{}
	for _, crd := range crds {
		group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
		plural, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "plural")
		versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
		for _, version := range versions {
			fields, _ := version.(map[string]any)
			if stored, _ := fields["storage"].(bool); stored {
				paths[fmt.Sprintf("/apis/%s/%s/%s?limit=1", group, fields["name"], plural)] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(paths))
}

// setVariable adds a variable to a WorkspaceTemplate.
func setVariable(template *unstructured.Unstructured, key, value string) error {
	path := []string{"spec", "template", "spec", "forProvider", "vars"}
	vars, _, err := unstructured.NestedSlice(template.Object, path...)
	if err != nil {
		return fmt.Errorf("reading %s: %w", template.GetName(), err)
	}
	vars = append(vars, map[string]any{"key": key, "value": value})
	if err := unstructured.SetNestedSlice(template.Object, vars, path...); err != nil {
		return fmt.Errorf("changing %s: %w", template.GetName(), err)
	}
	return nil
}

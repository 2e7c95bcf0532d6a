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

// owner is the field manager of what an environment applies.
const owner = "captctl"

// applications is how many objects are applied at once.
const applications = 4

// ReadManifests returns the objects of a YAML file, or of all of a folder.
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

// Apply makes the objects what they say, whether they exist or not. Those
// without a namespace go into the given one; cluster-wide kinds are left alone.
func Apply(ctx context.Context, c client.Client, namespace string, objects []*unstructured.Unstructured) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(applications)
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
			err = c.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner(owner), client.ForceOwnership)
			if err != nil {
				return fmt.Errorf("applying %s %s: %w", object.GetKind(), object.GetName(), err)
			}
			return nil
		})
	}
	return group.Wait()
}

// address is where a program serves webhooks, and whom its certificate is of.
type address struct {
	url       string
	authority []byte
}

// redirect replaces a reference to a Service by a URL of this machine.
func (a address) redirect(config map[string]any, path string) {
	if service, ok := config["service"].(map[string]any); ok && path == "" {
		path, _ = service["path"].(string)
	}
	delete(config, "service")
	config["url"] = a.url + path
	config["caBundle"] = base64.StdEncoding.EncodeToString(a.authority)
}

// webhookConfigurations lead webhook configurations to a program. Their
// generated names are the same everywhere, so they are told apart by a prefix.
func webhookConfigurations(objects []*unstructured.Unstructured, prefix string, to address) error {
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

// convertAt has kinds of several versions converted by a program.
func convertAt(crds []*unstructured.Unstructured, at address) error {
	for _, crd := range crds {
		versions, _, err := unstructured.NestedSlice(crd.Object, "spec", "versions")
		if err != nil {
			return fmt.Errorf("reading %s: %w", crd.GetName(), err)
		}
		if len(versions) < 2 {
			continue
		}
		config := map[string]any{}
		at.redirect(config, "/convert")
		conversion := map[string]any{"strategy": "Webhook", "webhook": map[string]any{
			"clientConfig": config, "conversionReviewVersions": []any{"v1"},
		}}
		if err := unstructured.SetNestedMap(crd.Object, conversion, "spec", "conversion"); err != nil {
			return fmt.Errorf("changing %s: %w", crd.GetName(), err)
		}
	}
	return nil
}

// servedAt are the paths at which the API server serves kinds, in the version
// in which they are stored.
func servedAt(crds []*unstructured.Unstructured) []string {
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

// setVariable gives a WorkspaceTemplate a value for a variable of its module.
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

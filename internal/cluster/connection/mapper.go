package connection

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
)

// errUnsupported is returned for questions about resources, which no controller asks.
var errUnsupported = errors.New("kinds of workload clusters are looked up by kind, not by resource")

// maxVersions limits the versions of a group, each of which is a request.
const maxVersions = 30

// mapper finds the resources of kinds. It asks the API server for the version of a kind
// when the kind is first needed, and keeps only that kind: a complete list of the kinds of
// a cluster needs half a MiB of memory.
type mapper struct {
	discovery *discovery.DiscoveryClient

	mu    sync.RWMutex
	known map[schema.GroupVersionKind]*meta.RESTMapping
}

var _ meta.RESTMapper = &mapper{}

func newMapper(d *discovery.DiscoveryClient) *mapper {
	return &mapper{discovery: d, known: map[schema.GroupVersionKind]*meta.RESTMapping{}}
}

// RESTMapping returns the resource of a kind in the first of the versions that has it.
// Without versions it returns that in the version that the API server prefers.
func (m *mapper) RESTMapping(gk schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	found, err := m.mappings(gk, 1, versions)
	if err != nil {
		return nil, err
	}
	return found[0], nil
}

// RESTMappings returns the resources of a kind in all of the versions.
func (m *mapper) RESTMappings(gk schema.GroupKind, versions ...string) ([]*meta.RESTMapping, error) {
	return m.mappings(gk, 0, versions)
}

// mappings returns up to limit mappings, or all if it is 0.
func (m *mapper) mappings(gk schema.GroupKind, limit int, versions []string) ([]*meta.RESTMapping, error) {
	asked := slices.DeleteFunc(slices.Clone(versions), func(version string) bool { return version == "" })
	if len(asked) == 0 {
		var err error
		if asked, err = m.versions(gk.Group); err != nil {
			return nil, err
		}
	}
	var found []*meta.RESTMapping
	for _, version := range asked {
		mapping, err := m.find(gk.WithVersion(version))
		if err != nil {
			return nil, err
		}
		if mapping == nil {
			continue
		}
		if found = append(found, mapping); len(found) == limit {
			break
		}
	}
	if len(found) == 0 {
		return nil, &meta.NoKindMatchError{GroupKind: gk, SearchedVersions: versions}
	}
	return found, nil
}

// versions returns the versions of a group, the preferred one first. A group that does
// not exist has none.
func (m *mapper) versions(group string) ([]string, error) {
	if group == "" {
		return []string{"v1"}, nil
	}
	var found metav1.APIGroup
	err := m.discovery.RESTClient().Get().AbsPath("/apis", group).Do(context.Background()).Into(&found)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("looking up the versions of %s: %w", group, err)
	}
	if len(found.Versions) > maxVersions {
		return nil, fmt.Errorf("looking up the versions of %s: there are more than %d", group, maxVersions)
	}
	versions := []string{found.PreferredVersion.Version}
	for _, v := range found.Versions {
		if v.Version != found.PreferredVersion.Version {
			versions = append(versions, v.Version)
		}
	}
	return versions, nil
}

// find returns the mapping of a kind, or nil if the API server does not have it. It asks
// again for a kind that did not exist, which may have been installed since.
func (m *mapper) find(gvk schema.GroupVersionKind) (*meta.RESTMapping, error) {
	if mapping := builtin[gvk]; mapping != nil {
		return mapping, nil
	}
	m.mu.RLock()
	mapping := m.known[gvk]
	m.mu.RUnlock()
	if mapping != nil {
		return mapping, nil
	}
	list, err := m.discovery.ServerResourcesForGroupVersion(gvk.GroupVersion().String())
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("looking up kind %s: %w", gvk.Kind, err)
	}
	for i := range list.APIResources {
		resource := &list.APIResources[i]
		if resource.Kind != gvk.Kind || strings.Contains(resource.Name, "/") {
			continue
		}
		mapping = &meta.RESTMapping{Resource: gvk.GroupVersion().WithResource(strings.Clone(resource.Name)), GroupVersionKind: gvk, Scope: meta.RESTScopeRoot}
		if resource.Namespaced {
			mapping.Scope = meta.RESTScopeNamespace
		}
		m.mu.Lock()
		m.known[gvk] = mapping
		m.mu.Unlock()
		return mapping, nil
	}
	return nil, nil
}

// KindFor implements meta.RESTMapper.
func (*mapper) KindFor(schema.GroupVersionResource) (schema.GroupVersionKind, error) {
	return schema.GroupVersionKind{}, errUnsupported
}

// KindsFor implements meta.RESTMapper.
func (*mapper) KindsFor(schema.GroupVersionResource) ([]schema.GroupVersionKind, error) {
	return nil, errUnsupported
}

// ResourceFor implements meta.RESTMapper.
func (*mapper) ResourceFor(schema.GroupVersionResource) (schema.GroupVersionResource, error) {
	return schema.GroupVersionResource{}, errUnsupported
}

// ResourcesFor implements meta.RESTMapper.
func (*mapper) ResourcesFor(schema.GroupVersionResource) ([]schema.GroupVersionResource, error) {
	return nil, errUnsupported
}

// ResourceSingularizer implements meta.RESTMapper.
func (*mapper) ResourceSingularizer(string) (string, error) { return "", errUnsupported }

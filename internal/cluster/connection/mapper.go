package connection

import (
	"net/http"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// mapper is the REST mapper of a cluster.
type mapper struct{ meta.RESTMapper }

// RESTMapping implements meta.RESTMapper. It finds the kinds that every API server has without
// the mapper of the cluster, which keeps all kinds of a group that it looks up: those of the
// core group need half of the memory of a connection.
func (m mapper) RESTMapping(gk schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	if found, err := builtin.RESTMapping(gk, versions...); err == nil {
		return found, nil
	}
	return m.RESTMapper.RESTMapping(gk, versions...)
}

var builtin = newBuiltin()

func newBuiltin() meta.RESTMapper {
	m := meta.NewDefaultRESTMapper(nil)
	add := func(group string, scope meta.RESTScope, kinds ...string) {
		for _, kind := range kinds {
			m.Add(schema.GroupVersionKind{Group: group, Version: "v1", Kind: kind}, scope)
		}
	}
	add("", meta.RESTScopeRoot, "Namespace", "Node")
	add("", meta.RESTScopeNamespace, "ConfigMap", "PersistentVolumeClaim", "Pod", "Secret", "Service", "ServiceAccount")
	add("apps", meta.RESTScopeNamespace, "DaemonSet", "Deployment", "StatefulSet")
	add("batch", meta.RESTScopeNamespace, "CronJob", "Job")
	return m
}

// unaggregated has API servers answer with one group at a time. The mapper keeps all kinds of an
// aggregated answer, which need more than half a MiB for each cluster.
type unaggregated struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (u unaggregated) RoundTrip(request *http.Request) (*http.Response, error) {
	request = request.Clone(request.Context())
	request.Header.Set("Accept", runtime.ContentTypeJSON)
	return u.RoundTripper.RoundTrip(request)
}

package connection

import (
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// builtin are the mappings of kinds that every API server has. The answer to a lookup of
// one of them would list all kinds of its version, and the buffers of a connection keep
// the size of the longest answer.
var builtin = builtinMappings()

func builtinMappings() map[schema.GroupVersionKind]*meta.RESTMapping {
	mappings := map[schema.GroupVersionKind]*meta.RESTMapping{}
	add := func(group string, scope meta.RESTScope, resources map[string]string) {
		version := schema.GroupVersion{Group: group, Version: "v1"}
		for kind, resource := range resources {
			gvk := version.WithKind(kind)
			mappings[gvk] = &meta.RESTMapping{Resource: version.WithResource(resource), GroupVersionKind: gvk, Scope: scope}
		}
	}
	add("", meta.RESTScopeRoot, map[string]string{"Namespace": "namespaces", "Node": "nodes"})
	add("", meta.RESTScopeNamespace, map[string]string{
		"ConfigMap": "configmaps", "PersistentVolumeClaim": "persistentvolumeclaims", "Pod": "pods",
		"Secret": "secrets", "Service": "services", "ServiceAccount": "serviceaccounts",
	})
	add("apps", meta.RESTScopeNamespace, map[string]string{"DaemonSet": "daemonsets", "Deployment": "deployments", "StatefulSet": "statefulsets"})
	add("batch", meta.RESTScopeNamespace, map[string]string{"CronJob": "cronjobs", "Job": "jobs"})
	return mappings
}

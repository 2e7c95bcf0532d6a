package job

import (
	"context"
	_ "embed" // The policy is a file.
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// +kubebuilder:rbac:groups=networking.k8s.io,resources=networkpolicies,resourceNames=capt-runs,verbs=create;patch

//go:embed networkpolicy.yaml
var networkPolicy []byte

// isolate applies the NetworkPolicy of runs in a namespace, so that new namespaces have it
// before their first run.
func (e *Executor) isolate(ctx context.Context, namespace string) error {
	policy := &unstructured.Unstructured{}
	if err := yaml.UnmarshalStrict(networkPolicy, &policy.Object); err != nil {
		return fmt.Errorf("decoding NetworkPolicy: %w", err)
	}
	policy.SetNamespace(namespace)
	err := e.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(policy), client.FieldOwner(policy.GetName()), client.ForceOwnership)
	return wrap("applying NetworkPolicy "+policy.GetName(), err)
}

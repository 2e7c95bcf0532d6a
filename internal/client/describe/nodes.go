package describe

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/appthrust/capt/internal/cluster/workload"
	"github.com/appthrust/capt/internal/kubernetes/scheme"
)

// ReadNodes lists the nodes of the workload cluster with the kubeconfig that
// Cluster API uses. The policy of the connector restricts the addresses of the API server.
// An error is part of the result.
func ReadNodes(ctx context.Context, c client.Reader, connector workload.Connector, cluster client.ObjectKey) *Nodes {
	kubeconfig, err := workloadKubeconfig(ctx, c, cluster)
	if err != nil {
		return &Nodes{Err: err}
	}
	connector.Scheme = scheme.New()
	workloadClient, err := connector.Client(kubeconfig)
	if err != nil {
		return &Nodes{Err: err}
	}
	var list corev1.NodeList
	if err := workloadClient.List(ctx, &list); err != nil {
		return &Nodes{Err: workload.ShortError(err)}
	}
	return &Nodes{Items: list.Items}
}

// workloadKubeconfig returns the kubeconfig of a Cluster. It refuses one that
// would run a program or read a file on the user's machine.
func workloadKubeconfig(ctx context.Context, c client.Reader, cluster client.ObjectKey) ([]byte, error) {
	var secret corev1.Secret
	name := cluster.Name + "-kubeconfig"
	err := c.Get(ctx, client.ObjectKey{Namespace: cluster.Namespace, Name: name}, &secret)
	switch {
	case apierrors.IsNotFound(err):
		return nil, fmt.Errorf("the Secret %s does not exist yet", name)
	case apierrors.IsForbidden(err):
		return nil, fmt.Errorf("you are not allowed to read Secret %s", name)
	case err != nil:
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	if len(secret.Data["value"]) == 0 {
		return nil, fmt.Errorf("the Secret %s has no kubeconfig in key value", name)
	}
	if _, err := workload.CheckKubeconfig(secret.Data["value"]); err != nil {
		return nil, err
	}
	return secret.Data["value"], nil
}

package describe

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/appthrust/capt/internal/cluster/workload"
	"github.com/appthrust/capt/internal/kubernetes/scheme"
)

// ReadNodes asks the workload cluster for its nodes, by the kubeconfig that is
// kept for Cluster API. What hinders it is part of the answer.
func ReadNodes(ctx context.Context, c client.Reader, cluster client.ObjectKey) *Nodes {
	text, err := workloadKubeconfig(ctx, c, cluster)
	if err != nil {
		return &Nodes{Err: err}
	}
	reach, err := workload.Reach{Scheme: scheme.New()}.Client(text)
	if err != nil {
		return &Nodes{Err: err}
	}
	var list corev1.NodeList
	if err := reach.List(ctx, &list); err != nil {
		return &Nodes{Err: workload.Brief(err)}
	}
	return &Nodes{Items: list.Items}
}

// workloadKubeconfig reads the kubeconfig of a Cluster. One that would run a
// program, or read a file of the one who looks, is not used.
func workloadKubeconfig(ctx context.Context, c client.Reader, cluster client.ObjectKey) ([]byte, error) {
	var secret corev1.Secret
	name := cluster.Name + "-kubeconfig"
	err := c.Get(ctx, client.ObjectKey{Namespace: cluster.Namespace, Name: name}, &secret)
	switch {
	case apierrors.IsNotFound(err):
		return nil, fmt.Errorf("there is no Secret %s yet", name)
	case apierrors.IsForbidden(err):
		return nil, fmt.Errorf("you may not read the Secret %s", name)
	case err != nil:
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	if len(secret.Data["value"]) == 0 {
		return nil, errors.New("the Secret " + name + " has no kubeconfig")
	}
	if _, err := workload.CheckKubeconfig(secret.Data["value"]); err != nil {
		return nil, err
	}
	return secret.Data["value"], nil
}

package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/appthrust/capt/internal/client/text"
	"github.com/appthrust/capt/internal/cluster/workload"
)

func newGetKubeconfigCommand(o *Options) *cobra.Command {
	return o.clusterCommand(&cobra.Command{
		Use:   "kubeconfig NAME",
		Short: "Print the kubeconfig of a cluster",
		Long: `Print the kubeconfig of a cluster: the one for users if the cluster has one (on EKS,
where each user signs in with the AWS CLI), else that of Cluster API, which contains
credentials. You need the permission to read Secrets.`,
		Example: "  captctl get kubeconfig demo > demo.kubeconfig\n  KUBECONFIG=demo.kubeconfig kubectl get nodes",
	}, func(ctx context.Context, c client.WithWatch, cluster *clusterv1.Cluster) error {
		for _, purpose := range []secret.Purpose{workload.UserKubeconfig, secret.Kubeconfig} {
			stored := &corev1.Secret{}
			err := c.Get(ctx, client.ObjectKey{Namespace: cluster.Namespace, Name: secret.Name(cluster.Name, purpose)}, stored)
			if apierrors.IsNotFound(err) {
				continue
			}
			if err != nil {
				return fmt.Errorf("reading the kubeconfig of %s: %w", cluster.Name, err)
			}
			if _, err := text.Raw(o.Out).Write(stored.Data[secret.KubeconfigDataName]); err != nil {
				return fmt.Errorf("writing the kubeconfig: %w", err)
			}
			return nil
		}
		return fmt.Errorf("cluster %s has no kubeconfig yet: see %s", cluster.Name, o.hints("captctl describe cluster "+cluster.Name))
	})
}

package captcontrolplane

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/cluster-api/util/secret"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	"github.com/appthrust/capt/internal/cluster/workload"
	"github.com/appthrust/capt/internal/kubernetes/kubeversion"
	"github.com/appthrust/capt/internal/message"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// nodesInterval is the delay between two checks of the nodes' versions.
const nodesInterval = time.Minute

// groupLabels are the labels with the group of a node.
var groupLabels = []string{"eks.amazonaws.com/nodegroup", "karpenter.sh/nodepool", "eks.amazonaws.com/fargate-profile"}

// holdForNodes returns a wait if the cluster has nodes that the API server does not
// support after an upgrade to a version.
func (r *Reconciler) holdForNodes(ctx context.Context, s *scope, next kubeversion.Minor) (held, err error) {
	if !isInitialized(s) {
		return nil, nil
	}
	found, err := r.findSecret(ctx, s, secret.Kubeconfig)
	if err != nil {
		return nil, err
	}
	if found == nil {
		return fault.WaitFor(secretRetryInterval, controlplanev1.WaitingForKubeconfigReason, "The upgrade to %s waits for the kubeconfig, to check the versions of the nodes", next), nil
	}
	old, err := r.oldNodes(ctx, found.Data[secret.KubeconfigDataName], oldestKubelet(next))
	if err != nil {
		return fault.WaitFor(probeInterval, controlplanev1.APIServerUnreachableReason, "The upgrade to %s waits for the versions of the nodes: %w", next, err), nil
	}
	if len(old) == 0 {
		return nil, nil
	}
	return fault.WaitFor(nodesInterval, controlplanev1.NodesTooOldReason,
		"The upgrade to %s waits for nodes with a kubelet before %s, which it does not support: %s. Upgrade or replace them; to upgrade anyway, set the annotation %s on the CAPTControlPlane",
		next, oldestKubelet(next), message.List(old, maxListed), controlplanev1.SkipVersionChecksAnnotation), nil
}

// oldNodes describes the nodes with a kubelet before a version.
func (r *Reconciler) oldNodes(ctx context.Context, kubeconfig []byte, oldest kubeversion.Minor) ([]string, error) {
	c, err := r.Workload.Client(kubeconfig)
	if err != nil {
		return nil, err
	}
	var old descriptions
	err = workload.EachPage(ctx, c, func() *corev1.NodeList { return &corev1.NodeList{} }, func(page *corev1.NodeList) error {
		for i := range page.Items {
			text := oldNode(&page.Items[i], oldest)
			if text == "" {
				continue
			}
			if err := old.add(text); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("listing nodes: %w", err)
	}
	slices.Sort(old)
	return old, nil
}

// oldNode describes a node with a kubelet before a version. It returns an empty string for
// other nodes.
func oldNode(node *corev1.Node, oldest kubeversion.Minor) string {
	kubelet, err := kubeversion.Parse(node.Status.NodeInfo.KubeletVersion)
	if err != nil || !kubelet.Less(oldest) {
		return ""
	}
	for _, label := range groupLabels {
		if group := node.Labels[label]; group != "" {
			return fmt.Sprintf("%s (%s, %s)", node.Name, kubelet, group)
		}
	}
	return fmt.Sprintf("%s (%s)", node.Name, kubelet)
}

// oldestKubelet returns the oldest kubelet that an API server supports: three minor
// versions behind it, and two before Kubernetes 1.28.
func oldestKubelet(server kubeversion.Minor) kubeversion.Minor {
	skew := 3
	if server.Less(kubeversion.Minor{Major: 1, Minor: 28}) {
		skew = 2
	}
	return kubeversion.Minor{Major: server.Major, Minor: server.Minor - skew}
}

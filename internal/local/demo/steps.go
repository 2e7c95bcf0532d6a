package demo

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/clientcmd"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/local/environment"
)

var nodeClaims = schema.GroupVersionKind{Group: "karpenter.sh", Version: "v1", Kind: "NodeClaimList"}

// step is one thing that must become ready. Looking returns what it waits for,
// or nothing when it is done; it does not block.
type step struct {
	name string
	look func(context.Context) (waits string, err error)
	// log is where more can be read.
	log func() string
}

func (d *Demo) steps() []step {
	manager := func() string { return d.environment.Log(environment.Manager) }
	steps := []step{
		{"VPC stand-in", d.network, manager},
		{"Control plane", d.controlPlane, manager},
		{"Worker nodes", d.workers, manager},
	}
	if d.addons {
		steps = append(steps,
			step{"Flux", d.addon(flux), d.logOf("source-controller")},
			step{"Karpenter", d.addon(karpenter), d.logOf("helm-controller")},
			step{"Node pool", d.addon(nodePool), d.logOf("karpenter-kwok")},
			step{"Node for pending pods", d.placed, d.logOf("karpenter-kwok")},
		)
	}
	return append(steps, step{"Cluster available", d.available, func() string { return d.environment.Log(environment.ClusterAPI) }})
}

// logOf is the log of a program of the demo's cluster.
func (d *Demo) logOf(program string) func() string {
	return func() string {
		dirs, _ := filepath.Glob(filepath.Join(d.environment.Dir, "clusters", "*-"+d.name+"-*", "logs", program+".log"))
		if len(dirs) == 0 {
			return d.environment.Log(environment.Manager)
		}
		return dirs[0]
	}
}

// conditioned are CAPT's and Cluster API's kinds.
type conditioned interface {
	client.Object
	GetConditions() []metav1.Condition
}

// missing says why a condition is not True, or nothing when it is.
func missing(object conditioned, condition string) string {
	found := meta.FindStatusCondition(object.GetConditions(), condition)
	switch {
	case found == nil:
		return "nothing is known yet"
	case found.Status == metav1.ConditionTrue && found.ObservedGeneration == object.GetGeneration():
		return ""
	case found.Message == "":
		return found.Reason
	default:
		return firstLine(found.Reason + ": " + found.Message)
	}
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return strings.TrimSpace(line)
}

// ofCluster are the options that list objects of the cluster.
func (d *Demo) ofCluster() []client.ListOption {
	return []client.ListOption{client.InNamespace(environment.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: d.name}}
}

func (d *Demo) network(ctx context.Context) (string, error) {
	var list infrav1.CAPTClusterList
	if err := d.client.List(ctx, &list, d.ofCluster()...); err != nil {
		return "", fmt.Errorf("looking at the network: %w", err)
	}
	if len(list.Items) == 0 {
		return "Cluster API has not made its CAPTCluster yet", nil
	}
	return missing(&list.Items[0], infrav1.ReadyCondition), nil
}

func (d *Demo) controlPlane(ctx context.Context) (string, error) {
	var list controlplanev1.CAPTControlPlaneList
	if err := d.client.List(ctx, &list, d.ofCluster()...); err != nil {
		return "", fmt.Errorf("looking at the control plane: %w", err)
	}
	if len(list.Items) == 0 {
		return "Cluster API has not made its CAPTControlPlane yet", nil
	}
	return missing(&list.Items[0], infrav1.ReadyCondition), nil
}

// workers waits for the machine pools, and for their nodes in the cluster.
func (d *Demo) workers(ctx context.Context) (string, error) {
	var pools infrav1.CAPTMachinePoolList
	if err := d.client.List(ctx, &pools, d.ofCluster()...); err != nil {
		return "", fmt.Errorf("looking at the workers: %w", err)
	}
	if len(pools.Items) == 0 {
		return "Cluster API has not made its CAPTMachinePool yet", nil
	}
	wanted := 0
	for i := range pools.Items {
		if waits := missing(&pools.Items[i], infrav1.ReadyCondition); waits != "" {
			return waits, nil
		}
		wanted += len(pools.Items[i].Spec.ProviderIDList)
	}
	nodes, err := d.nodes(ctx)
	if err != nil {
		return "", err
	}
	if ready := len(nodes); ready < wanted {
		return fmt.Sprintf("%d of %d nodes are ready", ready, wanted), nil
	}
	return "", nil
}

// addon waits until an add-on is ready in the cluster.
func (d *Demo) addon(name string) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		addon := &addonsv1.CAPTAddon{}
		if err := d.client.Get(ctx, client.ObjectKey{Namespace: environment.Namespace, Name: name}, addon); err != nil {
			return "", fmt.Errorf("looking at the add-on %s: %w", name, err)
		}
		for _, cluster := range addon.Status.Clusters {
			if cluster.Name != d.name {
				continue
			}
			if cluster.Ready != nil && *cluster.Ready && addon.Status.ObservedGeneration == addon.Generation {
				return "", nil
			}
			return firstLine(cluster.Reason + ": " + cluster.Message), nil
		}
		return "CAPT has not looked at the add-on yet", nil
	}
}

// placed makes the pods that need a node, and waits until Karpenter has made one
// for them.
func (d *Demo) placed(ctx context.Context) (string, error) {
	workload, err := d.reach(ctx)
	if err != nil {
		return "", err
	}
	pods := &appsv1.Deployment{}
	err = workload.Get(ctx, client.ObjectKeyFromObject(d.pods), pods)
	if apierrors.IsNotFound(err) {
		pods = d.pods.DeepCopy()
		err = workload.Create(ctx, pods)
	}
	if err != nil {
		return "", fmt.Errorf("making pods that need a node: %w", err)
	}
	wanted := int32(1)
	if pods.Spec.Replicas != nil {
		wanted = *pods.Spec.Replicas
	}
	if pods.Status.AvailableReplicas >= wanted && pods.Status.ObservedGeneration == pods.Generation {
		return "", nil
	}
	var claims metav1.PartialObjectMetadataList
	claims.SetGroupVersionKind(nodeClaims)
	if err := workload.List(ctx, &claims); err != nil {
		return "", fmt.Errorf("looking at Karpenter's nodes: %w", err)
	}
	return fmt.Sprintf("%d of %d pods run, Karpenter makes %d nodes", pods.Status.AvailableReplicas, wanted, len(claims.Items)), nil
}

func (d *Demo) available(ctx context.Context) (string, error) {
	cluster := &clusterv1.Cluster{}
	if err := d.client.Get(ctx, client.ObjectKey{Namespace: environment.Namespace, Name: d.name}, cluster); err != nil {
		return "", fmt.Errorf("looking at the cluster: %w", err)
	}
	return missing(cluster, clusterv1.AvailableCondition), nil
}

// nodes are the ready nodes of the cluster.
func (d *Demo) nodes(ctx context.Context) ([]corev1.Node, error) {
	workload, err := d.reach(ctx)
	if err != nil {
		return nil, err
	}
	var list corev1.NodeList
	if err := workload.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("looking at the nodes: %w", err)
	}
	var ready []corev1.Node
	for _, node := range list.Items {
		for _, condition := range node.Status.Conditions {
			if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
				ready = append(ready, node)
			}
		}
	}
	return ready, nil
}

// reach returns a client of the cluster that was made.
func (d *Demo) reach(ctx context.Context) (client.Client, error) {
	if d.workload != nil {
		return d.workload, nil
	}
	kubeconfig := &corev1.Secret{}
	key := client.ObjectKey{Namespace: environment.Namespace, Name: secret.Name(d.name, secret.Kubeconfig)}
	if err := d.client.Get(ctx, key, kubeconfig); err != nil {
		return nil, fmt.Errorf("looking for the kubeconfig: %w", err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig.Data[secret.KubeconfigDataName])
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	if d.workload, err = client.New(config, client.Options{Scheme: d.client.Scheme()}); err != nil {
		return nil, fmt.Errorf("reaching the cluster: %w", err)
	}
	return d.workload, nil
}

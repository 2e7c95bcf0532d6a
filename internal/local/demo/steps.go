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
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/local/environment"
)

var nodeClaims = schema.GroupVersionKind{Group: "karpenter.sh", Version: "v1", Kind: "NodeClaimList"}

// step is a part of the cluster that must become ready.
type step struct {
	name string
	// check returns what the step waits for, or an empty string if it is done. It
	// does not wait.
	check func(context.Context) (pending string, err error)
	// log returns the path of a log with details.
	log func() string
}

// pending returns what the step waits for, or an empty string if it is done. Errors may
// be temporary, so the step waits for them to end.
func (s step) pending(ctx context.Context) string {
	pending, err := s.check(ctx)
	if err != nil {
		return err.Error()
	}
	return pending
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
			step{"Node for pending pods", d.podsRunning, d.logOf("karpenter-kwok")},
		)
	}
	return append(steps, step{"Cluster available", d.available, func() string { return d.environment.Log(environment.ClusterAPI) }})
}

// logOf returns a function for the path of the log of a program in the new cluster.
func (d *Demo) logOf(program string) func() string {
	return func() string {
		dirs, _ := filepath.Glob(filepath.Join(d.environment.Dir, "clusters", "*-"+d.name+"-*", "logs", program+".log"))
		if len(dirs) == 0 {
			return d.environment.Log(environment.Manager)
		}
		return dirs[0]
	}
}

// objectWithConditions is an object of CAPT or Cluster API.
type objectWithConditions interface {
	client.Object
	conditions.Getter
}

// conditionPending returns why a condition is not True, or an empty string if it is.
func conditionPending(object objectWithConditions, condition string) string {
	found := meta.FindStatusCondition(object.GetConditions(), condition)
	switch {
	case found == nil:
		return "no status yet"
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

// ofCluster returns the options to list the objects of the cluster.
func (d *Demo) ofCluster() []client.ListOption {
	return []client.ListOption{client.InNamespace(environment.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: d.name}}
}

func (d *Demo) network(ctx context.Context) (string, error) {
	var list infrav1.CAPTClusterList
	if err := d.client.List(ctx, &list, d.ofCluster()...); err != nil {
		return "", fmt.Errorf("reading the network: %w", err)
	}
	if len(list.Items) == 0 {
		return "Cluster API has not created the CAPTCluster yet", nil
	}
	return conditionPending(&list.Items[0], infrav1.ReadyCondition), nil
}

func (d *Demo) controlPlane(ctx context.Context) (string, error) {
	var list controlplanev1.CAPTControlPlaneList
	if err := d.client.List(ctx, &list, d.ofCluster()...); err != nil {
		return "", fmt.Errorf("reading the control plane: %w", err)
	}
	if len(list.Items) == 0 {
		return "Cluster API has not created the CAPTControlPlane yet", nil
	}
	return conditionPending(&list.Items[0], infrav1.ReadyCondition), nil
}

// workers checks the machine pools and their nodes in the cluster.
func (d *Demo) workers(ctx context.Context) (string, error) {
	var pools infrav1.CAPTMachinePoolList
	if err := d.client.List(ctx, &pools, d.ofCluster()...); err != nil {
		return "", fmt.Errorf("reading the workers: %w", err)
	}
	if len(pools.Items) == 0 {
		return "Cluster API has not created the CAPTMachinePool yet", nil
	}
	desired := 0
	for i := range pools.Items {
		if pending := conditionPending(&pools.Items[i], infrav1.ReadyCondition); pending != "" {
			return pending, nil
		}
		desired += len(pools.Items[i].Spec.ProviderIDList)
	}
	nodes, err := d.nodes(ctx)
	if err != nil {
		return "", err
	}
	if ready := len(nodes); ready < desired {
		return fmt.Sprintf("%d of %d nodes are ready", ready, desired), nil
	}
	return "", nil
}

// addon checks whether an add-on is ready in the cluster.
func (d *Demo) addon(name string) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		addon := &addonsv1.CAPTAddon{}
		if err := d.client.Get(ctx, client.ObjectKey{Namespace: environment.Namespace, Name: name}, addon); err != nil {
			return "", fmt.Errorf("reading add-on %s: %w", name, err)
		}
		status := addon.StatusIn(d.name)
		switch {
		case status == nil:
			return "CAPT has not observed the cluster yet", nil
		case ptr.Deref(status.Ready, false) && addon.Status.ObservedGeneration == addon.Generation:
			return "", nil
		}
		return firstLine(status.Reason + ": " + status.Message), nil
	}
}

// podsRunning creates the pods that need a node, and checks whether they run on a node
// that Karpenter has created.
func (d *Demo) podsRunning(ctx context.Context) (string, error) {
	workload, err := d.workloadClient(ctx)
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
		return "", fmt.Errorf("creating pods that need a node: %w", err)
	}
	desired := int32(1)
	if pods.Spec.Replicas != nil {
		desired = *pods.Spec.Replicas
	}
	if pods.Status.AvailableReplicas >= desired && pods.Status.ObservedGeneration == pods.Generation {
		return "", nil
	}
	var claims metav1.PartialObjectMetadataList
	claims.SetGroupVersionKind(nodeClaims)
	if err := workload.List(ctx, &claims); err != nil {
		return "", fmt.Errorf("listing Karpenter's nodes: %w", err)
	}
	return fmt.Sprintf("%d of %d pods are running, Karpenter has created %d NodeClaims", pods.Status.AvailableReplicas, desired, len(claims.Items)), nil
}

func (d *Demo) available(ctx context.Context) (string, error) {
	cluster := &clusterv1.Cluster{}
	if err := d.client.Get(ctx, client.ObjectKey{Namespace: environment.Namespace, Name: d.name}, cluster); err != nil {
		return "", fmt.Errorf("reading the cluster: %w", err)
	}
	return conditionPending(cluster, clusterv1.AvailableCondition), nil
}

// nodes returns the ready nodes of the cluster.
func (d *Demo) nodes(ctx context.Context) ([]corev1.Node, error) {
	workload, err := d.workloadClient(ctx)
	if err != nil {
		return nil, err
	}
	var list corev1.NodeList
	if err := workload.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("listing nodes: %w", err)
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

// workloadClient returns a client for the new cluster.
func (d *Demo) workloadClient(ctx context.Context) (client.Client, error) {
	if d.workload != nil {
		return d.workload, nil
	}
	kubeconfig := &corev1.Secret{}
	key := client.ObjectKey{Namespace: environment.Namespace, Name: secret.Name(d.name, secret.Kubeconfig)}
	if err := d.client.Get(ctx, key, kubeconfig); err != nil {
		return nil, fmt.Errorf("reading the kubeconfig Secret: %w", err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig.Data[secret.KubeconfigDataName])
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	if d.workload, err = client.New(config, client.Options{Scheme: d.client.Scheme()}); err != nil {
		return nil, fmt.Errorf("connecting to the cluster: %w", err)
	}
	return d.workload, nil
}

// Package node creates and deletes Node objects for simulated machines. KWOK simulates
// them; no kubelet runs.
package node

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// simulatedAnnotation makes KWOK simulate the node.
	simulatedAnnotation, simulatedValue = "kwok.x-k8s.io/node", "fake"
	// appliedAnnotation records the labels and taints of the last Apply, so that the
	// next one can remove them without touching those that others set.
	appliedAnnotation = "capt.appthrust.io/applied"
	// tagsAnnotation contains the tags of the machine. A Node has no field for them.
	tagsAnnotation = "capt.appthrust.io/tags"
)

// Node is a machine as a Terraform module describes it.
type Node struct {
	Name string `json:"name"`
	// ProviderID is immutable.
	ProviderID   string `json:"providerID"`
	Zone         string `json:"zone,omitempty"`
	InstanceType string `json:"instanceType,omitempty"`
	CapacityType string `json:"capacityType,omitempty"`
	// KubernetesVersion is the version of the simulated kubelet.
	KubernetesVersion string               `json:"kubernetesVersion,omitempty"`
	Labels            map[string]string    `json:"labels,omitempty"`
	Taints            []Taint              `json:"taints,omitempty"`
	Tags              map[string]string    `json:"tags,omitempty"`
	Addresses         []corev1.NodeAddress `json:"addresses,omitempty"`
}

// Taint is a taint with an optional value.
type Taint struct {
	Key    string             `json:"key"`
	Value  *string            `json:"value,omitempty"`
	Effect corev1.TaintEffect `json:"effect"`
}

// applied is the content of appliedAnnotation: the keys of labels, and taints as
// key:effect, which is unique in a node.
type applied struct {
	Labels []string `json:"labels,omitempty"`
	Taints []string `json:"taints,omitempty"`
}

// Parse decodes a node from JSON.
func Parse(text []byte) (*Node, error) {
	var node Node
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&node); err != nil {
		return nil, fmt.Errorf("reading the node: %w", err)
	}
	if node.Name == "" || node.ProviderID == "" {
		return nil, errors.New("name and providerID of the node are required")
	}
	return &node, nil
}

// labels returns the desired labels and those that a kubelet or a cloud would set.
func (n *Node) labels() map[string]string {
	labels := map[string]string{
		corev1.LabelHostname:           n.Name,
		corev1.LabelOSStable:           "linux",
		corev1.LabelArchStable:         "amd64",
		corev1.LabelTopologyZone:       n.Zone,
		corev1.LabelInstanceTypeStable: n.InstanceType,
		capacityTypeLabel:              n.CapacityType,
	}
	maps.DeleteFunc(labels, func(_, value string) bool { return value == "" })
	maps.Copy(labels, n.Labels)
	return labels
}

// capacityTypeLabel is a label that EKS sets on the nodes of a node group.
const capacityTypeLabel = "eks.amazonaws.com/capacityType"

func (t Taint) id() string { return t.Key + ":" + string(t.Effect) }

// merge sets the desired fields of a node and keeps what others have set.
func (n *Node) merge(into *corev1.Node) error {
	if into.Spec.ProviderID != "" && into.Spec.ProviderID != n.ProviderID {
		return fmt.Errorf("node %s belongs to another machine, %s: choose another name", n.Name, into.Spec.ProviderID)
	}
	into.Name, into.Spec.ProviderID = n.Name, n.ProviderID

	var previous applied
	if text := into.Annotations[appliedAnnotation]; text != "" {
		if err := json.Unmarshal([]byte(text), &previous); err != nil {
			return fmt.Errorf("reading annotation %s: %w", appliedAnnotation, err)
		}
	}
	labels := n.labels()
	for _, key := range previous.Labels {
		delete(into.Labels, key)
	}
	metav1.SetMetaDataLabel(&into.ObjectMeta, corev1.LabelHostname, n.Name)
	maps.Copy(into.Labels, labels)

	current := applied{Labels: slices.Sorted(maps.Keys(labels))}
	into.Spec.Taints = slices.DeleteFunc(into.Spec.Taints, func(taint corev1.Taint) bool {
		id := taint.Key + ":" + string(taint.Effect)
		return slices.Contains(previous.Taints, id) || slices.ContainsFunc(n.Taints, func(t Taint) bool { return t.id() == id })
	})
	for _, taint := range n.Taints {
		value := ""
		if taint.Value != nil {
			value = *taint.Value
		}
		into.Spec.Taints = append(into.Spec.Taints, corev1.Taint{Key: taint.Key, Value: value, Effect: taint.Effect})
		current.Taints = append(current.Taints, taint.id())
	}
	return n.annotate(into, current)
}

func (n *Node) annotate(into *corev1.Node, current applied) error {
	record, err := json.Marshal(current)
	if err != nil {
		return fmt.Errorf("encoding annotation %s: %w", appliedAnnotation, err)
	}
	metav1.SetMetaDataAnnotation(&into.ObjectMeta, simulatedAnnotation, simulatedValue)
	metav1.SetMetaDataAnnotation(&into.ObjectMeta, appliedAnnotation, string(record))
	delete(into.Annotations, tagsAnnotation)
	if len(n.Tags) > 0 {
		tags, err := json.Marshal(n.Tags)
		if err != nil {
			return fmt.Errorf("encoding the tags: %w", err)
		}
		metav1.SetMetaDataAnnotation(&into.ObjectMeta, tagsAnnotation, string(tags))
	}
	return nil
}

// mergeStatus sets what a kubelet would report about itself, except for the conditions,
// which KWOK sets.
func (n *Node) mergeStatus(into *corev1.Node) {
	info := &into.Status.NodeInfo
	info.OperatingSystem, info.Architecture = "linux", "amd64"
	info.OSImage, info.ContainerRuntimeVersion = "local", "kwok://"
	if version := strings.TrimPrefix(n.KubernetesVersion, "v"); version != "" {
		if strings.Count(version, ".") == 1 {
			version += ".0"
		}
		info.KubeletVersion = "v" + version
	}
	into.Status.Addresses = n.Addresses
	if len(into.Status.Capacity) == 0 {
		into.Status.Capacity = corev1.ResourceList{
			corev1.ResourceCPU:    resource.MustParse("4"),
			corev1.ResourceMemory: resource.MustParse("16Gi"),
			corev1.ResourcePods:   resource.MustParse("110"),
		}
	}
	into.Status.Allocatable = into.Status.Capacity
}

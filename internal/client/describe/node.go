// Package describe shows a Cluster as one tree: the objects of Cluster API and
// CAPT, Terraform runs, add-ons and the workload cluster, each with its status.
// Read gets the objects, Build builds the tree, and Render prints it.
package describe

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// State is the summary of a node's status.
type State string

// The states.
const (
	// StateReady means that the desired state is reached.
	StateReady State = "Ready"
	// StateWaiting means that work is in progress or waits for something else.
	StateWaiting State = "Waiting"
	// StateAttention means that nothing happens until a user acts.
	StateAttention State = "Attention"
	// StateFailed means that an operation failed.
	StateFailed State = "Failed"
	// StateUnknown means that no status is reported.
	StateUnknown State = "Unknown"
)

// Node is a line of the tree.
type Node struct {
	Kind string `json:"kind"`
	Name string `json:"name,omitempty"`
	// State is empty for a node that only groups its children.
	State State `json:"state,omitempty"`
	// Reason and Message come from the object's condition.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Since is the last transition of the condition.
	Since metav1.Time `json:"since,omitzero"`
	// Progress is set for a run in progress.
	Progress *Progress `json:"progress,omitempty"`
	Children []*Node   `json:"children,omitempty"`
}

// Progress is the progress of a run.
type Progress struct {
	Operation string `json:"operation"`
	Phase     string `json:"phase,omitempty"`
	Done      int32  `json:"done"`
	Total     int32  `json:"total"`
	// Current is the address of a resource that Terraform is working on, Action
	// what Terraform does with it, and CurrentSince when that started.
	Current      string      `json:"current,omitempty"`
	Action       string      `json:"action,omitempty"`
	CurrentSince metav1.Time `json:"currentSince,omitzero"`
}

// Ready reports whether a node and all of its descendants are ready.
func (n *Node) Ready() bool {
	if n.State != "" && n.State != StateReady {
		return false
	}
	for _, child := range n.Children {
		if !child.Ready() {
			return false
		}
	}
	return true
}

// title returns the kind and name of a node.
func (n *Node) title() string {
	if n.Name == "" {
		return n.Kind
	}
	return n.Kind + "/" + n.Name
}

// add appends a child unless it is nil.
func (n *Node) add(child *Node) {
	if child != nil {
		n.Children = append(n.Children, child)
	}
}

// Walk visits a node and its descendants in depth-first order, each with the branch characters
// to print before it.
func (n *Node) Walk(visit func(branches string, n *Node)) { n.walk("", "", visit) }

func (n *Node) walk(prefix, childPrefix string, visit func(string, *Node)) {
	visit(prefix, n)
	for i, child := range n.Children {
		if i == len(n.Children)-1 {
			child.walk(childPrefix+"└─", childPrefix+"  ", visit)
		} else {
			child.walk(childPrefix+"├─", childPrefix+"│ ", visit)
		}
	}
}

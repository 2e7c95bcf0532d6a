// Package describe shows a Cluster as one tree: the objects of Cluster API and
// of CAPT, their runs, the add-ons and the workload cluster, each with what it
// waits for and since when. Reading, building and printing are apart.
package describe

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// State is how a node of the tree is, in one word.
type State string

// The states.
const (
	// StateReady means that nothing is left to do.
	StateReady State = "Ready"
	// StateWaiting means that something goes on, or is waited for.
	StateWaiting State = "Waiting"
	// StateAttention means that a person has to act before it goes on.
	StateAttention State = "Attention"
	// StateFailed means that something went wrong.
	StateFailed State = "Failed"
	// StateUnknown means that nobody has said.
	StateUnknown State = "Unknown"
)

// Node is a line of the tree.
type Node struct {
	// Kind and Name say what it is.
	Kind string `json:"kind"`
	Name string `json:"name,omitempty"`
	// State is how it is; a node without one only gathers its children.
	State State `json:"state,omitempty"`
	// Reason and Message say what it waits for, or what there is to know.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Since is when the reason last changed.
	Since metav1.Time `json:"since,omitzero"`
	// Progress is how far a run is.
	Progress *Progress `json:"progress,omitempty"`
	Children []*Node   `json:"children,omitempty"`
}

// Progress is how far a run is.
type Progress struct {
	Operation string `json:"operation"`
	Phase     string `json:"phase,omitempty"`
	Done      int32  `json:"done"`
	Total     int32  `json:"total"`
	// Current is what is being made now, Action what is done to it, and
	// CurrentSince since when.
	Current      string      `json:"current,omitempty"`
	Action       string      `json:"action,omitempty"`
	CurrentSince metav1.Time `json:"currentSince,omitzero"`
}

// Ready tells whether a node and everything below it is ready.
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

// title is how the tree names a node.
func (n *Node) title() string {
	if n.Name == "" {
		return n.Kind
	}
	return n.Kind + "/" + n.Name
}

// add appends a child, if there is one.
func (n *Node) add(child *Node) {
	if child != nil {
		n.Children = append(n.Children, child)
	}
}

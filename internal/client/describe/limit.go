package describe

import (
	"errors"

	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
)

// maxNodes limits the size of the nodes of a workload cluster. Its API server may be one
// that a user wrote, and several users may share this process.
const maxNodes = 64 << 20

var errTooLarge = errors.New("the nodes of the workload cluster are too large to show")

// limitedNodes calls exceeded, once, if the nodes of a watch are larger than maxNodes.
type limitedNodes struct {
	next     toolscache.ResourceEventHandler
	exceeded func()

	size int
	over bool
}

// OnAdd implements ResourceEventHandler.
func (l *limitedNodes) OnAdd(obj any, initial bool) {
	l.count(sizeOf(obj))
	l.next.OnAdd(obj, initial)
}

// OnUpdate implements ResourceEventHandler.
func (l *limitedNodes) OnUpdate(before, after any) {
	l.count(sizeOf(after) - sizeOf(before))
	l.next.OnUpdate(before, after)
}

// OnDelete implements ResourceEventHandler.
func (l *limitedNodes) OnDelete(obj any) {
	if last, found := obj.(toolscache.DeletedFinalStateUnknown); found {
		obj = last.Obj
	}
	l.count(-sizeOf(obj))
	l.next.OnDelete(obj)
}

func (l *limitedNodes) count(change int) {
	l.size += change
	if l.size > maxNodes && !l.over {
		l.over = true
		l.exceeded()
	}
}

func sizeOf(obj any) int {
	if node, found := obj.(*corev1.Node); found {
		return node.Size()
	}
	return 0
}

package web

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// transform trims the objects of an informer. client-go passes some of them twice, and others
// may read these already.
func transform(obj any) (any, error) {
	if object, found := obj.(client.Object); found && len(object.GetManagedFields()) > 0 {
		trim(object)
	}
	return obj, nil
}

// trim removes what no view shows from an object.
func trim(obj client.Object) {
	obj.SetManagedFields(nil)
	obj.SetAnnotations(nil)
	switch obj := obj.(type) {
	case *corev1.Event:
		trimEvent(obj)
	case *clusterv1.Cluster:
		obj.Spec.Topology = clusterv1.Topology{ClassRef: obj.Spec.Topology.ClassRef, Version: obj.Spec.Topology.Version}
		obj.Status.Deprecated = nil
	case *clusterv1.MachineDeployment:
		obj.Status.Deprecated = nil
	case *clusterv1.MachineSet:
		obj.Status.Deprecated = nil
	case *clusterv1.Machine:
		obj.Status.Deprecated = nil
	case *clusterv1.MachinePool:
		obj.Status.Deprecated = nil
	case *infrav1.WorkspaceTemplateApply:
		obj.Spec = infrav1.WorkspaceTemplateApplySpec{TemplateRef: obj.Spec.TemplateRef}
	case *addonsv1.CAPTAddon:
		obj.Spec.Manifests, obj.Spec.Readiness = nil, nil
		if helm := obj.Spec.Helm; helm != nil {
			obj.Spec.Helm = &addonsv1.HelmRelease{Chart: helm.Chart}
		}
	}
}

// trimEvent removes what the feed does not show. Of events of objects that are not of
// Cluster API or CAPT, only the identity stays.
func trimEvent(event *corev1.Event) {
	before := *event
	*event = corev1.Event{ObjectMeta: metav1.ObjectMeta{
		Namespace: before.Namespace, Name: before.Name, UID: before.UID, ResourceVersion: before.ResourceVersion,
	}}
	if !isClusterAPI(before.InvolvedObject.APIVersion) {
		return
	}
	involved := before.InvolvedObject
	event.CreationTimestamp = before.CreationTimestamp
	event.InvolvedObject = corev1.ObjectReference{APIVersion: involved.APIVersion, Kind: involved.Kind, Name: involved.Name}
	event.Type, event.Reason, event.Message, event.Count, event.Series = before.Type, before.Reason, before.Message, before.Count, before.Series
	event.LastTimestamp, event.EventTime = before.LastTimestamp, before.EventTime
}

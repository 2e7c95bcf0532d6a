package doctor

import (
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	bootstrapv1 "github.com/appthrust/capt/api/bootstrap/v1beta1"
	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// longDeletion is how long a deletion may take before it is worth a word.
const longDeletion = 15 * time.Minute

// deletable are the kinds whose deletion may hang, by the name of their resource.
var deletable = []struct {
	resource string
	list     func() client.ObjectList
}{
	{"cluster", func() client.ObjectList { return &clusterv1.ClusterList{} }},
	{"machine.cluster.x-k8s.io", func() client.ObjectList { return &clusterv1.MachineList{} }},
	{"captcluster", func() client.ObjectList { return &infrav1.CAPTClusterList{} }},
	{"captcontrolplane", func() client.ObjectList { return &controlplanev1.CAPTControlPlaneList{} }},
	{"captmachine", func() client.ObjectList { return &infrav1.CAPTMachineList{} }},
	{"captmachineset", func() client.ObjectList { return &infrav1.CAPTMachineSetList{} }},
	{"captmachinedeployment", func() client.ObjectList { return &infrav1.CAPTMachineDeploymentList{} }},
	{"captmachinepool", func() client.ObjectList { return &infrav1.CAPTMachinePoolList{} }},
	{"captbootstrapconfig", func() client.ObjectList { return &bootstrapv1.CAPTBootstrapConfigList{} }},
	{"captaddon", func() client.ObjectList { return &addonsv1.CAPTAddonList{} }},
	{"workspacetemplateapply", func() client.ObjectList { return &infrav1.WorkspaceTemplateApplyList{} }},
	{"workspacetemplate", func() client.ObjectList { return &infrav1.WorkspaceTemplateList{} }},
	{"workspaceproviderconfig", func() client.ObjectList { return &infrav1.WorkspaceProviderConfigList{} }},
}

// deletions looks for deletions that do not end.
func (d *Doctor) deletions(ctx context.Context) ([]Result, error) {
	var found []Result
	for _, kind := range deletable {
		list := kind.list()
		if err := d.list(ctx, list); err != nil {
			return nil, err
		}
		err := meta.EachListItem(list, func(item runtime.Object) error {
			obj, ok := item.(client.Object)
			if !ok || obj.GetDeletionTimestamp().IsZero() {
				return nil
			}
			if age := d.Now().Sub(obj.GetDeletionTimestamp().Time); age > longDeletion {
				found = append(found, Result{
					Status: Warn, Object: nameOf(kindName(obj), obj),
					Message: fmt.Sprintf("its deletion goes on for %s; it is held by %s%s", ago(age), strings.Join(obj.GetFinalizers(), ", "), why(obj)),
					Mend:    fmt.Sprintf("kubectl describe -n %s %s %s, and mend what it waits for; a finalizer taken off by hand leaves what Terraform made", obj.GetNamespace(), kind.resource, obj.GetName()),
				})
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("reading %ss: %w", kind.resource, err)
		}
	}
	return orFine(found, "no deletion goes on for longer than %s", ago(longDeletion)), nil
}

func kindName(obj client.Object) string {
	name := fmt.Sprintf("%T", obj)
	return name[strings.LastIndex(name, ".")+1:]
}

// conditioned is an object with conditions.
type conditioned interface{ GetConditions() []metav1.Condition }

// why is what a condition says of the deletion, the one of destruction first.
func why(obj client.Object) string {
	c, ok := obj.(conditioned)
	if !ok {
		return ""
	}
	said := ""
	for _, condition := range c.GetConditions() {
		switch {
		case condition.Type == infrav1.DestroyedCondition && condition.Status != metav1.ConditionTrue && condition.Message != "":
			return ": " + condition.Message
		case condition.Type == infrav1.ReadyCondition && condition.Status != metav1.ConditionTrue && condition.Message != "":
			said = ": " + condition.Message
		}
	}
	return said
}

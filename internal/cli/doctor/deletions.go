package doctor

import (
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	bootstrapv1 "github.com/appthrust/capt/api/bootstrap/v1beta1"
	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/client/describe"
	"github.com/appthrust/capt/internal/kubernetes/object"
)

// maxDeletion is the duration of a deletion from which it is reported.
const maxDeletion = 15 * time.Minute

// kinds are the kinds that have finalizers of CAPT or Cluster API, with their resource names
// for kubectl. Those that refer to other namespaces are among them.
var kinds = []struct {
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

// deletions reports deletions that take too long.
func (d *Doctor) deletions(ctx context.Context) ([]Result, error) {
	return d.examineKinds(ctx, "no deletion takes longer than "+duration.HumanDuration(maxDeletion), func(obj client.Object, resource string) *Result {
		return deletionProblem(obj, resource, d.Now())
	})
}

// deletionProblem returns a result for an object whose deletion takes too long,
// else nil.
func deletionProblem(obj client.Object, resource string, now time.Time) *Result {
	deleted := obj.GetDeletionTimestamp()
	if deleted.IsZero() || now.Sub(deleted.Time) <= maxDeletion {
		return nil
	}
	message := fmt.Sprintf("deletion started %s ago; finalizers: %s", duration.HumanDuration(now.Sub(deleted.Time)), strings.Join(obj.GetFinalizers(), ", "))
	if cause := deletionMessage(obj); cause != "" {
		message += "; " + cause
	}
	return &Result{
		Status: Warn, Object: objectName(object.Kind(obj), obj), Message: message,
		Fix: fmt.Sprintf("kubectl describe -n %s %s %s, and fix what it waits for; if you remove a finalizer, the resources that Terraform created stay",
			obj.GetNamespace(), resource, obj.GetName()),
	}
}

// deletionMessage returns the message of the Destroyed condition, else that of the
// Ready condition, if the condition is not True.
func deletionMessage(obj client.Object) string {
	for _, name := range []string{infrav1.DestroyedCondition, infrav1.ReadyCondition} {
		if condition := meta.FindStatusCondition(describe.ConditionsOf(obj), name); condition != nil && condition.Status != metav1.ConditionTrue && condition.Message != "" {
			return condition.Message
		}
	}
	return ""
}

package doctor

import (
	"context"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/client/describe"
	"github.com/appthrust/capt/internal/kubernetes/object"
)

// grants reports references to other namespaces that no CAPTReferenceGrant covers.
func (d *Doctor) grants(ctx context.Context) ([]Result, error) {
	return d.examineKinds(ctx, "all references to other namespaces are granted", func(obj client.Object, _ string) *Result { return grantProblem(obj) })
}

// grantProblem returns a result for an object that waits for a grant, else nil. The conditions
// of Clusters and Machines repeat those of the objects of CAPT.
func grantProblem(obj client.Object) *Result {
	switch obj.(type) {
	case *clusterv1.Cluster, *clusterv1.Machine:
		return nil
	}
	_, isWorkspace := obj.(*infrav1.WorkspaceTemplateApply)
	for _, c := range describe.ConditionsOf(obj) {
		if c.Reason != infrav1.NotGrantedReason || c.Status == metav1.ConditionTrue || c.Type == infrav1.ReadyCondition && isWorkspace {
			continue
		}
		fix := "see docs/catalogue.md"
		if strings.Contains(c.Message, "CAPTReferenceGrant") {
			fix = "create the CAPTReferenceGrant in the namespace that the message names; " + fix
		}
		return &Result{Status: Fail, Object: objectName(object.Kind(obj), obj), Message: c.Message, Fix: fix}
	}
	return nil
}

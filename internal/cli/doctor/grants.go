package doctor

import (
	"context"
	"fmt"
	"regexp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/client/describe"
)

// granted are the kinds that refer to objects of other namespaces.
var granted = []struct {
	kind string
	list func() client.ObjectList
}{
	{"CAPTCluster", func() client.ObjectList { return &infrav1.CAPTClusterList{} }},
	{"CAPTControlPlane", func() client.ObjectList { return &controlplanev1.CAPTControlPlaneList{} }},
	{"CAPTMachine", func() client.ObjectList { return &infrav1.CAPTMachineList{} }},
	{"CAPTMachinePool", func() client.ObjectList { return &infrav1.CAPTMachinePoolList{} }},
	{"CAPTAddon", func() client.ObjectList { return &addonsv1.CAPTAddonList{} }},
	{"WorkspaceTemplateApply", func() client.ObjectList { return &infrav1.WorkspaceTemplateApplyList{} }},
}

// grants reports references to other namespaces that no CAPTReferenceGrant covers.
func (d *Doctor) grants(ctx context.Context) ([]Result, error) {
	var problems []Result
	for _, kind := range granted {
		err := d.each(ctx, kind.list(), func(obj client.Object) {
			if problem := grantProblem(kind.kind, obj); problem != nil {
				problems = append(problems, *problem)
			}
		})
		if err != nil {
			return nil, err
		}
	}
	return orOK(problems, "all references to other namespaces are granted"), nil
}

// notGranted matches the messages of the reason NotGranted.
var notGranted = regexp.MustCompile(`^(\w+) ([^/ ]+)/(\S+) is in another namespace and not granted to namespace ([^: ]+)`)

// grantProblem returns a result for an object that waits for a grant, else nil.
func grantProblem(kind string, obj client.Object) *Result {
	for _, c := range describe.ConditionsOf(obj) {
		if c.Reason != infrav1.NotGrantedReason || c.Status == metav1.ConditionTrue || c.Type == infrav1.ReadyCondition && kind == "WorkspaceTemplateApply" {
			continue
		}
		result := &Result{Status: Fail, Object: objectName(kind, obj), Message: c.Message, Fix: "see docs/catalogue.md"}
		if m := notGranted.FindStringSubmatch(c.Message); m != nil {
			result.Message = fmt.Sprintf("%s %s/%s is not granted to namespace %s", m[1], m[2], m[3], m[4])
			result.Fix = fmt.Sprintf("create a CAPTReferenceGrant in namespace %s with from: [{namespaces: [%s]}] and to: [{kind: %s, name: %s}]; see docs/catalogue.md", m[2], m[4], m[1], m[3])
		}
		return result
	}
	return nil
}

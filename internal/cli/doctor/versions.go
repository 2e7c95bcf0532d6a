package doctor

import (
	"context"
	"fmt"
	"time"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	"github.com/appthrust/capt/internal/kubernetes/kubeversion"
)

// versions reports control planes of EKS whose version leaves its standard support soon, or
// has left it.
func (d *Doctor) versions(ctx context.Context) ([]Result, error) {
	var found controlplanev1.CAPTControlPlaneList
	if err := d.list(ctx, &found); err != nil {
		return nil, err
	}
	var problems []Result
	for i := range found.Items {
		if problem := versionProblem(&found.Items[i], d.Now()); problem != nil {
			problems = append(problems, *problem)
		}
	}
	return orOK(problems, "no control plane is in extended support of EKS, or will be within %d days", int(kubeversion.EKSNotice.Hours()/24)), nil
}

// versionProblem returns a result for a control plane of EKS whose version has no standard
// support, or soon has none, else nil. The version that it serves counts: an upgrade may wait.
func versionProblem(c *controlplanev1.CAPTControlPlane, now time.Time) *Result {
	if config := c.Spec.Kubeconfig; config != nil && config.Source == controlplanev1.KubeconfigSourceOutput || !c.DeletionTimestamp.IsZero() {
		return nil
	}
	warning := kubeversion.EKSWarning(c.Status.Version, now)
	if warning == "" {
		return nil
	}
	return &Result{
		Status: Warn, Object: objectName("CAPTControlPlane", c), Message: warning,
		Fix: fmt.Sprintf("upgrade one minor version at a time, as docs/upgrade-cluster.md describes: kubectl -n %s edit captcontrolplane %s", c.Namespace, c.Name),
	}
}

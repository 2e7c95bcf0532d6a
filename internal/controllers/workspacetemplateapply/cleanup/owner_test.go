package cleanup

import (
	"context"
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/kubernetes/scheme"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// pagedReader returns one object for each page, as an API server with a limit may do.
type pagedReader struct {
	client.Reader

	lists int
}

func (r *pagedReader) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	r.lists++
	var options client.ListOptions
	options.ApplyOptions(opts)
	if options.Limit == 0 {
		return fmt.Errorf("listing all %T at once", list)
	}
	position := 0
	if options.Continue != "" {
		_, _ = fmt.Sscan(options.Continue, &position)
	}
	if err := r.Reader.List(ctx, list, client.InNamespace(options.Namespace)); err != nil {
		return err
	}
	found := list.(*metav1.PartialObjectMetadataList)
	if position+1 < len(found.Items) {
		found.Continue = fmt.Sprint(position + 1)
	}
	found.Items = found.Items[min(position, len(found.Items)):min(position+1, len(found.Items))]
	return nil
}

func heldBy(apiVersion, kind string, uid types.UID) *infrav1.WorkspaceTemplateApply {
	return &infrav1.WorkspaceTemplateApply{ObjectMeta: metav1.ObjectMeta{
		Namespace: "team", Name: "vpc", Finalizers: []string{infrav1.WorkspaceHeldFinalizer},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: "none", UID: uid, Controller: new(true)}},
	}}
}

// The garbage collector deletes a workspace if no owner has the name in its reference.
func TestWaitForOwner_findsTheOwnerByItsUID(t *testing.T) {
	owner := metav1.ObjectMeta{Namespace: "team", Name: "real", UID: "u"}
	other := metav1.ObjectMeta{Namespace: "team", Name: "other", UID: "v"}
	infrastructure, controlPlane := infrav1.GroupVersion.String(), controlplanev1.GroupVersion.String()
	for name, c := range map[string]struct {
		apiVersion, kind string
		objects          []client.Object
		held             bool
	}{
		"a cluster":        {infrastructure, "CAPTCluster", []client.Object{&infrav1.CAPTCluster{ObjectMeta: other}, &infrav1.CAPTCluster{ObjectMeta: owner}}, true},
		"a machine":        {infrastructure, "CAPTMachine", []client.Object{&infrav1.CAPTMachine{ObjectMeta: other}, &infrav1.CAPTMachine{ObjectMeta: owner}}, true},
		"a pool":           {infrastructure, "CAPTMachinePool", []client.Object{&infrav1.CAPTMachinePool{ObjectMeta: other}, &infrav1.CAPTMachinePool{ObjectMeta: owner}}, true},
		"a control plane":  {controlPlane, "CAPTControlPlane", []client.Object{&controlplanev1.CAPTControlPlane{ObjectMeta: other}, &controlplanev1.CAPTControlPlane{ObjectMeta: owner}}, true},
		"another object":   {infrastructure, "CAPTCluster", []client.Object{&infrav1.CAPTCluster{ObjectMeta: other}}, false},
		"deleted by force": {infrastructure, "CAPTCluster", nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			reader := &pagedReader{Reader: fake.NewClientBuilder().WithScheme(scheme.New()).WithObjects(c.objects...).Build()}
			apply := heldBy(c.apiVersion, c.kind, "u")
			err := WaitForOwner(t.Context(), reader, apply)
			_, waits := fault.AsWaiting(err)
			g.Expect(waits).To(Equal(c.held), "%v", err)
			g.Expect(controllerutil.ContainsFinalizer(apply, infrav1.WorkspaceHeldFinalizer)).To(Equal(c.held))
			g.Expect(reader.lists).To(Equal(max(1, len(c.objects))))
		})
	}
}

// Users write references to owners: ConfigMaps with long annotations would fill the memory.
func TestWaitForOwner_listsNoOtherKind(t *testing.T) {
	g := NewWithT(t)
	unrelated := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "real", UID: "u"}}
	reader := &pagedReader{Reader: fake.NewClientBuilder().WithScheme(scheme.New()).WithObjects(unrelated).Build()}
	apply := heldBy("v1", "ConfigMap", "u")
	g.Expect(WaitForOwner(t.Context(), reader, apply)).To(Succeed())
	g.Expect(controllerutil.ContainsFinalizer(apply, infrav1.WorkspaceHeldFinalizer)).To(BeFalse())
	g.Expect(reader.lists).To(BeZero())
}

func TestHeldFault(t *testing.T) {
	owner := &metav1.OwnerReference{Kind: "CAPTCluster", Name: "demo", UID: "u"}
	now := metav1.Now()
	tests := []struct {
		name  string
		found metav1.ObjectMeta
		want  string
	}{
		{"in use", metav1.ObjectMeta{Name: "demo", UID: "u"}, "CAPTCluster demo uses this workspace"},
		{"in use, with another name", metav1.ObjectMeta{Name: "real", UID: "u"}, "CAPTCluster real uses this workspace, whose owner reference has the name demo"},
		{"being deleted", metav1.ObjectMeta{Name: "demo", UID: "u", DeletionTimestamp: &now}, "CAPTCluster demo is being deleted"},
		{"another object of that name", metav1.ObjectMeta{UID: "other"}, "The owner of this workspace does not exist, but another CAPTCluster demo does"},
		{"another object of that name, being deleted", metav1.ObjectMeta{UID: "other", DeletionTimestamp: &now}, "The owner of this workspace does not exist"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			err := heldFault(owner, &metav1.PartialObjectMetadata{ObjectMeta: tt.found})
			waiting, ok := fault.AsWaiting(err)
			g.Expect(ok).To(BeTrue())
			g.Expect(waiting.Reason).To(Equal(infrav1.HeldByOwnerReason))
			g.Expect(waiting.RetryAfter).To(Equal(ownerCheckInterval))
			g.Expect(waiting.Message()).To(HavePrefix(tt.want))
		})
	}
}

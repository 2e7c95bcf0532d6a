package captcontrolplane

import (
	"errors"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/aws"
	"github.com/appthrust/capt/internal/kubernetes/scheme"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

func skipping(name string) func(*controlplanev1.CAPTControlPlane) {
	return func(c *controlplanev1.CAPTControlPlane) {
		c.Annotations = map[string]string{controlplanev1.SkipDeletionChecksAnnotation: name}
	}
}

func TestDeleteLeftovers(t *testing.T) {
	report := func(c *controlplanev1.CAPTControlPlane) {
		c.Spec.Deletion = &controlplanev1.DeletionPolicy{Leftovers: controlplanev1.LeftoversReport}
	}
	output := func(c *controlplanev1.CAPTControlPlane) {
		c.Spec.Kubeconfig = &controlplanev1.KubeconfigConfig{Source: controlplanev1.KubeconfigSourceOutput}
	}
	some := aws.Leftovers{Remaining: []string{"load balancer a"}, Retained: []string{"volume vol-1"}}
	for name, c := range map[string]struct {
		change        func(*controlplanev1.CAPTControlPlane)
		found         aws.Leftovers
		err           error
		want          string
		asked, delete bool
		never         bool
		note          note
	}{
		"none":          {asked: true, delete: true},
		"some":          {found: some, want: "wait " + infrav1.DeletingReason, asked: true, delete: true, note: note{controlplanev1.LeftoversReportedReason, "Left in the account: load balancer a, volume vol-1"}},
		"volumes":       {found: aws.Leftovers{Retained: []string{"volume vol-1"}}, asked: true, delete: true, note: note{controlplanev1.LeftoversReportedReason, "Left in the account: volume vol-1"}},
		"only a report": {change: report, found: some, asked: true, note: note{controlplanev1.LeftoversReportedReason, "Left in the account: load balancer a, volume vol-1"}},
		"another cloud": {change: output},
		"never created": {never: true, err: errors.New("no credentials")},
		"skipped":       {change: skipping("leftovers"), note: note{controlplanev1.StepSkippedReason, "Skipped: " + leaks[skipLeftovers]}},
		"no answer":     {err: errors.New("AWS does not respond"), want: "wait " + controlplanev1.LeftoversUnknownReason, asked: true, delete: true},
		"no permission": {err: fault.Wait(controlplanev1.LeftoversUnknownReason, "denied"), want: "wait " + controlplanev1.LeftoversUnknownReason, asked: true, delete: true},
		"a part is hidden": {
			found: aws.Leftovers{Unread: []string{"elasticloadbalancing:DescribeLoadBalancers: denied"}}, asked: true, delete: true,
			note: note{controlplanev1.LeftoversUnknownReason, "Not looked up: elasticloadbalancing:DescribeLoadBalancers: denied"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			cloud := &fakeCloud{leftovers: c.found, err: c.err}
			network := newWorkspace(map[string]string{"vpc_id": `"vpc-1"`, "load_balancer": `"arn:lb"`})
			network.Name, network.Labels = "production-vpc", map[string]string{clusterv1.ClusterNameLabel: "production"}
			foreign := newWorkspace(map[string]string{"vpc_id": `"vpc-9"`})
			foreign.Name = "foreign"
			r := reconciler(t, newTemplate(), network, foreign)
			r.Cloud = cloud
			s := newScope(func(c *controlplanev1.CAPTControlPlane) {
				c.Spec.Kubeconfig = &controlplanev1.KubeconfigConfig{Source: controlplanev1.KubeconfigSourceEKS, RoleARN: "arn:role"}
			})
			if c.change != nil {
				c.change(s.controlPlane)
			}
			s.cluster, s.infra = newCluster(), newInfra(func(i *infrav1.CAPTCluster) { i.Status.VPCID = "vpc-1" })
			s.apply = newWorkspace(map[string]string{
				"cluster_name": `"demo-in-eks"`, "security_group_ids": `["sg-1"]`, "nested": `{"a":["sg-2",3]}`, "cluster_endpoint": `"https://api.example.com"`,
			})
			if c.never {
				s.apply.Status.Outputs = nil
			}
			err := r.deleteLeftovers(t.Context(), s)
			g.Expect(result(err)).To(Equal(c.want), "%v", err)
			if waiting, ok := fault.AsWaiting(err); ok {
				g.Expect(waiting.RetryAfter).To(Equal(leftoversInterval))
			}
			if !c.asked {
				g.Expect(cloud.queries).To(BeEmpty())
			} else {
				g.Expect(cloud.queries).To(HaveExactElements(aws.LeftoverQuery{
					Cluster: "demo-in-eks", Endpoint: "api.example.com", RoleARN: "arn:role", VPC: "vpc-1", Delete: c.delete,
					Managed: []string{"demo-in-eks", "https://api.example.com", "sg-1", "sg-2"}, Protected: []string{"arn:lb", "vpc-1"},
				}))
			}
			g.Expect(s.noteOf(controlplanev1.LeftoversGoneCondition)).To(Equal(c.note))
		})
	}
}

// A step that a user skips keeps what it would have waited for.
func TestSkippedNote(t *testing.T) {
	g := NewWithT(t)
	s := newScope(skipping("nodes"), func(c *controlplanev1.CAPTControlPlane) {
		conditions.Set(c, metav1.Condition{
			Type: controlplanev1.NodesGoneCondition, Status: metav1.ConditionFalse, Reason: controlplanev1.DeadlineExceededReason,
			Message: "Not deleted after 15m0s: NodeClaim a [aws:///i-1]" + skipHint + ", set the annotation x",
		})
	})
	s.apply = newWorkspace(nil)
	g.Expect(s.deletionStep(skipNodes, controlplanev1.NodesGoneCondition, nil)).To(Succeed())
	want := note{controlplanev1.StepSkippedReason, "Skipped: " + leaks[skipNodes] + ". Before: Not deleted after 15m0s: NodeClaim a [aws:///i-1]"}
	g.Expect(s.noteOf(controlplanev1.NodesGoneCondition)).To(Equal(want))
	conditions.Set(s.controlPlane, metav1.Condition{Type: controlplanev1.NodesGoneCondition, Status: metav1.ConditionTrue, Reason: want.reason, Message: want.message})
	g.Expect(s.deletionStep(skipNodes, controlplanev1.NodesGoneCondition, nil)).To(Succeed())
	g.Expect(s.noteOf(controlplanev1.NodesGoneCondition)).To(Equal(want), "later reconciliations keep it")
}

func TestDestroy(t *testing.T) {
	g := NewWithT(t)
	cloud := &fakeCloud{leftovers: aws.Leftovers{Remaining: []string{"network interface eni-1"}}}
	workspaceOf := newWorkspace(map[string]string{"cluster_name": `"demo-in-eks"`, "cluster_endpoint": `"https://api.example.com"`})
	workspaceOf.Finalizers = []string{"other"}
	s := newScope(func(c *controlplanev1.CAPTControlPlane) {
		c.DeletionTimestamp = new(metav1.NewTime(noon))
		c.Status.WorkspaceRef = &infrav1.LocalReference{Name: workspaceOf.Name}
	})
	g.Expect(controllerutil.SetControllerReference(s.controlPlane, workspaceOf, scheme.New())).To(Succeed())
	r := reconciler(t, newTemplate(), workspaceOf)
	r.Cloud = cloud
	s.cluster, s.infra, s.apply = newCluster(), newInfra(), workspaceOf

	err := r.destroy(t.Context(), s)
	g.Expect(result(err)).To(Equal("wait " + infrav1.WaitingForWorkspaceReason))
	waiting, _ := fault.AsWaiting(err)
	g.Expect(waiting.RetryAfter).To(Equal(interfacesInterval))
	g.Expect(cloud.queries).To(HaveExactElements(And(HaveField("InterfacesOnly", true), HaveField("Cluster", "demo-in-eks"))), "nodes release network interfaces meanwhile")

	conditions.Set(s.controlPlane, metav1.Condition{
		Type: infrav1.DestroyedCondition, Status: metav1.ConditionFalse, Reason: "R", LastTransitionTime: metav1.NewTime(noon.Add(-61 * time.Minute)),
	})
	err = r.destroy(t.Context(), s)
	g.Expect(result(err)).To(Equal("wait " + controlplanev1.DeadlineExceededReason))
	g.Expect(err).To(MatchError(ContainSubstring("skip-deletion-checks: destroy")))

	skipping("destroy")(s.controlPlane)
	g.Expect(result(r.destroy(t.Context(), s))).To(HavePrefix("wait "))
	retained := &infrav1.WorkspaceTemplateApply{}
	g.Expect(r.Client.Get(t.Context(), client.ObjectKeyFromObject(workspaceOf), retained)).To(Succeed())
	g.Expect(retained.Spec.RetainWorkspaceOnDelete).To(BeTrue())

	retained.Finalizers = nil
	g.Expect(r.Client.Update(t.Context(), retained)).To(Succeed())
	g.Expect(r.destroy(t.Context(), s)).To(Succeed())
	g.Expect(s.noteOf(infrav1.DestroyedCondition).message).To(ContainSubstring(leaks[skipDestroy]))

	// The name of the EKS cluster is not known any more: another one may have that of
	// the Cluster.
	s.controlPlane.Annotations, s.apply, cloud.queries = nil, nil, nil
	g.Expect(r.destroy(t.Context(), s)).To(Succeed())
	g.Expect(cloud.queries).To(BeEmpty())
}

func volume(name string, policy corev1.PersistentVolumeReclaimPolicy) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			PersistentVolumeReclaimPolicy: policy, ClaimRef: &corev1.ObjectReference{Namespace: "default", Name: name},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "ebs.csi.aws.com", VolumeHandle: "vol-" + name}},
		},
		Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeBound},
	}
}

func pod(name, claim string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: corev1.PodSpec{
		NodeName: "node", Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
		}}},
	}}
}

func TestDeleteVolumes(t *testing.T) {
	g := NewWithT(t)
	directory := volume("directory", corev1.PersistentVolumeReclaimDelete)
	directory.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/data"}}
	claim := func(name string) *corev1.PersistentVolumeClaim {
		return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Finalizers: []string{"kubernetes.io/pvc-protection"}}}
	}
	waiting := pod("waiting", "scratch")
	waiting.Spec.NodeName = ""
	objects := workloadCluster(g, volume("scratch", corev1.PersistentVolumeReclaimDelete), volume("precious", corev1.PersistentVolumeReclaimRetain), directory,
		claim("scratch"), claim("precious"), claim("directory"), pod("writer", "scratch"), pod("reader", "precious"), waiting)
	r := reconciler(t, newTemplate())
	s := deletedScope(g, r, objects)

	g.Expect(r.deleteVolumes(t.Context(), s)).To(Succeed(), "by default all volumes stay")
	g.Expect(s.noteOf(controlplanev1.VolumesGoneCondition)).To(Equal(note{
		controlplanev1.VolumesRetainedReason, "These volumes stay in the cloud: PersistentVolume precious [vol-precious], PersistentVolume scratch [vol-scratch]",
	}))
	exists := func(obj client.Object, name string) bool {
		return objects.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: name}, obj) == nil && obj.GetDeletionTimestamp().IsZero()
	}
	g.Expect(exists(&corev1.PersistentVolumeClaim{}, "scratch")).To(BeTrue())

	s.controlPlane.Spec.Deletion = &controlplanev1.DeletionPolicy{Volumes: controlplanev1.VolumesDelete}
	err := r.deleteVolumes(t.Context(), s)
	g.Expect(err).To(MatchError(HaveSuffix("Waiting for the deletion of PersistentVolume scratch [vol-scratch]")))
	g.Expect(exists(&corev1.PersistentVolumeClaim{}, "scratch")).To(BeFalse())
	g.Expect(exists(&corev1.Pod{}, "writer")).To(BeFalse(), "a claim stays while a pod uses it")
	g.Expect(exists(&corev1.Pod{}, "waiting")).To(BeTrue(), "it is not scheduled any more")
	for _, name := range []string{"precious", "directory"} {
		g.Expect(exists(&corev1.PersistentVolumeClaim{}, name)).To(BeTrue(), name)
	}
	g.Expect(exists(&corev1.Pod{}, "reader")).To(BeTrue())

	g.Expect(objects.Delete(t.Context(), volume("scratch", ""))).To(Succeed())
	g.Expect(r.deleteVolumes(t.Context(), s)).To(Succeed())
	g.Expect(s.noteOf(controlplanev1.VolumesGoneCondition).message).To(Equal("These volumes stay in the cloud: PersistentVolume precious [vol-precious]"))
}

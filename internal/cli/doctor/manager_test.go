package doctor

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/appthrust/capt/internal/kubernetes/leader"
)

func deployment(arg string, replicas *int32, available int32) appsv1.Deployment {
	d := appsv1.Deployment{ObjectMeta: named("manager")}
	d.Spec.Replicas, d.Status.AvailableReplicas = replicas, available
	d.Spec.Template.Spec.Containers = []corev1.Container{{Args: []string{"--v=2", arg}}}
	return d
}

func lease(name, holder string, age time.Duration) coordinationv1.Lease {
	l := coordinationv1.Lease{ObjectMeta: named(name)}
	l.Spec.HolderIdentity, l.Spec.LeaseDurationSeconds = &holder, new(int32(15))
	l.Spec.RenewTime = &metav1.MicroTime{Time: now.Add(-age)}
	return l
}

func TestManagerResults(t *testing.T) {
	for name, tc := range map[string]struct {
		deployments []appsv1.Deployment
		leases      []coordinationv1.Lease
		served      string
		status      Status
		message     string
	}{
		"leader and pods":          {[]appsv1.Deployment{deployment("--executor=job", nil, 1)}, []coordinationv1.Lease{lease(leader.LeaseName(nil), "pod-1", 0)}, "", OK, "the leader is pod-1"},
		"leader out of cluster":    {nil, []coordinationv1.Lease{lease(leader.LeaseName(nil), "laptop", 0)}, "", OK, "the leader is laptop"},
		"no leader yet":            {[]appsv1.Deployment{deployment("--executor=job", nil, 1)}, nil, "", Warn, "no leader is elected yet"},
		"released lease":           {[]appsv1.Deployment{deployment("--executor=job", nil, 1)}, []coordinationv1.Lease{lease(leader.LeaseName(nil), "", 0)}, "", Warn, "no leader is elected yet"},
		"outside, serving":         {nil, nil, "127.0.0.1:9443", OK, "a manager outside of the cluster serves the webhooks at 127.0.0.1:9443"},
		"scaled to 0, old server":  {[]appsv1.Deployment{deployment("--executor=job", new(int32(0)), 0)}, nil, "127.0.0.1:9443", Fail, "scaled to 0"},
		"nothing":                  {nil, nil, "", Warn, "no manager found"},
		"other deployment, lease":  {[]appsv1.Deployment{deployment("--other", nil, 1)}, []coordinationv1.Lease{lease("other", "pod-1", 0)}, "", Warn, "no manager found"},
		"scaled to 0":              {[]appsv1.Deployment{deployment("--runner-image=a", new(int32(0)), 0)}, nil, "", Fail, "scaled to 0"},
		"no pod":                   {[]appsv1.Deployment{deployment("--executor=job", nil, 0)}, []coordinationv1.Lease{lease(leader.LeaseName(nil), "pod-1", 0)}, "", Fail, "0 of 1 pods are available"},
		"too few pods":             {[]appsv1.Deployment{deployment("--executor=job", new(int32(3)), 2)}, nil, "", Warn, "2 of 3 pods are available"},
		"renewed at the limit":     {nil, []coordinationv1.Lease{lease(leader.LeaseName(nil), "pod-1", 45*time.Second)}, "", OK, "the leader is pod-1"},
		"not renewed in time":      {nil, []coordinationv1.Lease{lease(leader.LeaseName(nil), "pod-1", 46*time.Second)}, "", Fail, "leader pod-1 has not renewed it for 46s"},
		"lease without renew time": {nil, []coordinationv1.Lease{{ObjectMeta: named(leader.LeaseName(nil)), Spec: coordinationv1.LeaseSpec{HolderIdentity: new("pod-1")}}}, "", OK, "the leader is pod-1"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			results := managerResults(tc.deployments, tc.leases, tc.served, now)
			g.Expect(results).To(HaveLen(1))
			g.Expect(results[0].Status).To(Equal(tc.status))
			g.Expect(results[0].Message).To(ContainSubstring(tc.message))
			g.Expect(results[0].Fix == "").To(Equal(tc.status == OK), "every problem has a fix")
		})
	}
}

// provider returns the Deployment of a provider that clusterctl installs, and its Lease.
func provider(name, lease string, renewed time.Duration) (appsv1.Deployment, coordinationv1.Lease) {
	d := appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{
		Namespace: "capt-" + name + "-system", Name: "capt-" + name + "-controller-manager",
		Labels: map[string]string{"cluster.x-k8s.io/provider": name + "-capt", "control-plane": "controller-manager"},
	}}
	d.Status.AvailableReplicas = 1
	d.Spec.Template.Spec.Containers = []corev1.Container{{Args: []string{"--leader-elect=true", "--providers=" + name}}}
	l := coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, Name: lease}}
	l.Spec.HolderIdentity, l.Spec.LeaseDurationSeconds = new(name+"-1"), new(int32(15))
	l.Spec.RenewTime = &metav1.MicroTime{Time: now.Add(-renewed)}
	return d, l
}

func TestManagerResults_everyProviderHasALeader(t *testing.T) {
	g := NewWithT(t)
	controlPlane, first := provider("control-plane", "capt-control-plane-leader", 0)
	addon, second := provider("addon", "capt-addon-leader", 0)
	deployments := []appsv1.Deployment{controlPlane, addon}
	g.Expect(managerResults(deployments, []coordinationv1.Lease{first, second}, "", now)).To(Equal([]Result{{Status: OK, Message: "the leaders are control-plane-1, addon-1"}}))

	results := managerResults(deployments, []coordinationv1.Lease{first}, "", now)
	g.Expect(results).To(HaveLen(1))
	g.Expect(results[0].Object).To(Equal("Deployment capt-addon-system/capt-addon-controller-manager"))
	g.Expect(results[0].Fix).To(HaveSuffix("kubectl logs -n capt-addon-system deployment/capt-addon-controller-manager --all-pods"))

	_, second = provider("addon", "capt-addon-leader", time.Hour)
	results = managerResults(deployments, []coordinationv1.Lease{first, second}, "", now)
	g.Expect(results).To(HaveLen(1))
	g.Expect(results[0].Object).To(Equal("Lease capt-addon-system/capt-addon-leader"))
	g.Expect(results[0].Fix).To(Equal("restart the manager: kubectl rollout restart -n capt-addon-system deployment/capt-addon-controller-manager"))
}

func TestManagerResults_withoutLeaderElection(t *testing.T) {
	d := deployment("--executor=job", nil, 1)
	d.Spec.Template.Spec.Containers[0].Args = append(d.Spec.Template.Spec.Containers[0].Args, "--leader-elect=false")
	NewWithT(t).Expect(managerResults([]appsv1.Deployment{d}, nil, "", now)).To(Equal([]Result{{Status: OK, Message: "the manager is running without leader election"}}))
}

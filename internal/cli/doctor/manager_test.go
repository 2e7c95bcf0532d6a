package doctor

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
		"leader and pods":          {[]appsv1.Deployment{deployment("--executor=job", nil, 1)}, []coordinationv1.Lease{lease(leaderLease, "pod-1", 0)}, "", OK, "the leader is pod-1"},
		"leader out of cluster":    {nil, []coordinationv1.Lease{lease(leaderLease, "laptop", 0)}, "", OK, "the leader is laptop"},
		"no leader yet":            {[]appsv1.Deployment{deployment("--executor=job", nil, 1)}, nil, "", Warn, "no leader is elected yet"},
		"released lease":           {[]appsv1.Deployment{deployment("--executor=job", nil, 1)}, []coordinationv1.Lease{lease(leaderLease, "", 0)}, "", Warn, "no leader is elected yet"},
		"outside, serving":         {nil, nil, "127.0.0.1:9443", OK, "a manager outside of the cluster serves the webhooks at 127.0.0.1:9443"},
		"scaled to 0, old server":  {[]appsv1.Deployment{deployment("--executor=job", new(int32(0)), 0)}, nil, "127.0.0.1:9443", Fail, "scaled to 0"},
		"nothing":                  {nil, nil, "", Warn, "no manager found"},
		"other deployment, lease":  {[]appsv1.Deployment{deployment("--other", nil, 1)}, []coordinationv1.Lease{lease("other", "pod-1", 0)}, "", Warn, "no manager found"},
		"scaled to 0":              {[]appsv1.Deployment{deployment("--runner-image=a", new(int32(0)), 0)}, nil, "", Fail, "scaled to 0"},
		"no pod":                   {[]appsv1.Deployment{deployment("--executor=job", nil, 0)}, []coordinationv1.Lease{lease(leaderLease, "pod-1", 0)}, "", Fail, "0 of 1 pods are available"},
		"too few pods":             {[]appsv1.Deployment{deployment("--executor=job", new(int32(3)), 2)}, nil, "", Warn, "2 of 3 pods are available"},
		"renewed at the limit":     {nil, []coordinationv1.Lease{lease(leaderLease, "pod-1", 45*time.Second)}, "", OK, "the leader is pod-1"},
		"not renewed in time":      {nil, []coordinationv1.Lease{lease(leaderLease, "pod-1", 46*time.Second)}, "", Fail, "leader pod-1 has not renewed it for 46s"},
		"lease without renew time": {nil, []coordinationv1.Lease{{ObjectMeta: named(leaderLease), Spec: coordinationv1.LeaseSpec{HolderIdentity: new("pod-1")}}}, "", OK, "the leader is pod-1"},
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

package doctor

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

func TestPolicies_reportsThoseThatNothingEnforces(t *testing.T) {
	policy := &infrav1.ClusterWorkspacePolicy{ObjectMeta: metav1.ObjectMeta{Name: "no-public-buckets"}}
	for name, tc := range map[string]struct {
		args   []string
		policy bool
		want   string
	}{
		"enforced":              {[]string{"--executor=job"}, true, "ok: 1 ClusterWorkspacePolicies are enforced"},
		"enforced by a flag":    {[]string{"--executor=job", "--namespace=a", "--cluster-policies=true"}, true, "ok: 1 ClusterWorkspacePolicies are enforced"},
		"not enforced":          {[]string{"--executor=job", "--cluster-policies=false"}, true, "fail: the manager team/manager runs with --cluster-policies=false and does not enforce it"},
		"not enforced any more": {[]string{"--executor=job", "--cluster-policies", "--cluster-policies=0"}, true, "fail: the manager team/manager runs with --cluster-policies=false and does not enforce it"},
		"another program":       {[]string{"--cluster-policies=false"}, true, "ok: 1 ClusterWorkspacePolicies are enforced"},
		"no policy":             {[]string{"--executor=job", "--cluster-policies=false"}, false, "ok: there are no ClusterWorkspacePolicies"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			manager := deployment("", nil, 1)
			manager.Spec.Template.Spec.Containers[0].Args = tc.args
			objects := []client.Object{&manager}
			if tc.policy {
				objects = append(objects, policy.DeepCopy())
			}
			d := &Doctor{Client: fake.NewClientBuilder().WithScheme(Scheme()).WithObjects(objects...).Build(), Namespace: "team"}
			results, err := d.policies(t.Context())
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(messages(results)).To(ConsistOf(tc.want))
			if results[0].Status == Fail {
				g.Expect(results[0].Object).To(Equal("ClusterWorkspacePolicy no-public-buckets"))
				g.Expect(results[0].Fix).NotTo(BeEmpty())
			}
		})
	}
}

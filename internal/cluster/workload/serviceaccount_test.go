package workload

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

func TestRequestToken_createsTheServiceAccountOnce(t *testing.T) {
	g := NewWithT(t)
	expires := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	c := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
		SubResourceCreate: func(_ context.Context, _ client.Client, subResource string, obj, request client.Object, _ ...client.SubResourceCreateOption) error {
			g.Expect(subResource).To(Equal("token"))
			asked, ok := request.(*authenticationv1.TokenRequest)
			g.Expect(ok).To(BeTrue())
			g.Expect(asked.Spec.ExpirationSeconds).To(HaveValue(BeNumerically(">", 24*3600)))
			asked.Status = authenticationv1.TokenRequestStatus{Token: "of-" + obj.GetName(), ExpirationTimestamp: metav1.NewTime(expires)}
			return nil
		},
	}).Build()
	for range 2 {
		g.Expect(RequestToken(t.Context(), c)).To(Equal(Token{Value: "of-capt-manager", ExpiresAt: expires}))
	}
	g.Expect(c.Get(t.Context(), client.ObjectKey{Namespace: "kube-system", Name: "capt-manager"}, &corev1.ServiceAccount{})).To(Succeed())
	binding := &rbacv1.ClusterRoleBinding{}
	g.Expect(c.Get(t.Context(), client.ObjectKey{Name: "capt-manager"}, binding)).To(Succeed())
	g.Expect(binding.RoleRef.Name).To(Equal("cluster-admin"))
	g.Expect(binding.Subjects).To(ConsistOf(rbacv1.Subject{Kind: "ServiceAccount", Namespace: "kube-system", Name: "capt-manager"}))
}

func TestRequestToken_reportsRejectedCredentials(t *testing.T) {
	for name, c := range map[string]struct {
		err      error
		rejected bool
	}{
		"unauthorized": {apierrors.NewUnauthorized("expired"), true},
		"forbidden":    {apierrors.NewForbidden(corev1.Resource("serviceaccounts"), "capt-manager", nil), true},
		"unreachable":  {context.DeadlineExceeded, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			workload := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
				Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error { return c.err },
			}).Build()
			_, err := RequestToken(t.Context(), workload)
			g.Expect(err).To(HaveOccurred())
			g.Expect(IsRejected(err)).To(Equal(c.rejected))
		})
	}
}

func TestWithToken_replacesAllCredentials(t *testing.T) {
	g := NewWithT(t)
	const bootstrap = `
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:6443", certificate-authority-data: Y2E=}}]
users: [{name: u, user: {client-certificate-data: Y2VydA==, client-key-data: a2V5, username: admin, password: s3cret}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
`
	content, err := WithToken([]byte(bootstrap), "t0ken")
	g.Expect(err).NotTo(HaveOccurred())
	config, err := parse(content)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(config.AuthInfos[name].Token).To(Equal("t0ken"))
	g.Expect(string(content)).NotTo(Or(ContainSubstring("s3cret"), ContainSubstring("a2V5"), ContainSubstring("Y2VydA==")))
	g.Expect(config.Clusters[name].Server).To(Equal("https://127.0.0.1:6443"))
	g.Expect(string(config.Clusters[name].CertificateAuthorityData)).To(Equal("ca"))
	g.Expect(WithToken([]byte("x"), "")).Error().To(HaveOccurred())
}

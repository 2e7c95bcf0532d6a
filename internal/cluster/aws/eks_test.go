package aws_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/appthrust/capt/internal/cluster/aws"
	"github.com/appthrust/capt/internal/cluster/aws/awstest"
	"github.com/appthrust/capt/internal/testenv"
)

// A real API server calls the fake authenticator, as EKS calls the real one.
func TestTokenKubeconfig_authenticatesToARealAPIServer(t *testing.T) {
	g := NewWithT(t)
	server := awstest.New(t)
	authenticator := awstest.NewAuthenticator(t, server, "demo")
	cluster := startAPIServer(t, authenticator)
	role := server.AddRole("deployer")
	user := load(g, server.Env(), aws.Options{})
	session := load(g, server.Env(), aws.Options{RoleARN: role})

	client := func(cfg aws.Config, name string, signed time.Time) *kubernetes.Clientset {
		token, err := aws.SignToken(t.Context(), cfg, name, at(signed))
		g.Expect(err).NotTo(HaveOccurred())
		text, err := aws.TokenKubeconfig(cluster, token)
		g.Expect(err).NotTo(HaveOccurred())
		config, err := clientcmd.RESTConfigFromKubeConfig(text)
		g.Expect(err).NotTo(HaveOccurred())
		clientset, err := kubernetes.NewForConfig(config)
		g.Expect(err).NotTo(HaveOccurred())
		return clientset
	}
	list := func(c *kubernetes.Clientset) error {
		_, err := c.CoreV1().Namespaces().List(context.Background(), metav1.ListOptions{})
		return err
	}
	last := func() awstest.Review {
		reviews := authenticator.Reviews()
		return reviews[len(reviews)-1]
	}
	now := time.Now()

	good := client(user, "demo", now)
	g.Expect(list(good)).To(Succeed())
	review, err := good.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(review.Status.UserInfo.Username).To(Equal(awstest.User))
	g.Expect(review.Status.UserInfo.Groups).To(ContainElement(awstest.Group))

	g.Expect(list(client(session, "demo", now))).To(Succeed())
	g.Expect(last()).To(Equal(awstest.Review{Accepted: true, ARN: sessionARN(server, "deployer")}))

	err = list(client(user, "demo", now.Add(-16*time.Minute)))
	g.Expect(apierrors.IsUnauthorized(err)).To(BeTrue(), "expired: %v", err)
	g.Expect(last().Reason).To(ContainSubstring("expired"))

	err = list(client(user, "other", now))
	g.Expect(apierrors.IsUnauthorized(err)).To(BeTrue(), "of another cluster: %v", err)
	g.Expect(last().Reason).To(ContainSubstring("SignatureDoesNotMatch"))

	authenticator.SetLifetime(time.Second)
	g.Eventually(func() bool { return apierrors.IsUnauthorized(list(good)) }).
		Should(BeTrue(), "an accepted token expires")
	authenticator.SetLifetime(time.Hour)
	g.Expect(list(client(user, "demo", time.Now()))).To(Succeed(), "the next token is accepted")
}

// startAPIServer starts an API server that accepts only the tokens of the
// authenticator, and returns its address.
func startAPIServer(t *testing.T, authenticator *awstest.Authenticator) aws.Cluster {
	t.Helper()
	g := NewWithT(t)
	assets, err := testenv.Assets()
	g.Expect(err).NotTo(HaveOccurred())
	file := filepath.Join(t.TempDir(), "authenticator.kubeconfig")
	g.Expect(authenticator.WriteKubeconfig(file)).To(Succeed())

	environment := &envtest.Environment{BinaryAssetsDirectory: assets, ControlPlaneStartTimeout: 2 * time.Minute, ControlPlaneStopTimeout: time.Minute}
	environment.ControlPlane.GetAPIServer().Configure().
		Append("authentication-token-webhook-config-file", file).
		Append("authentication-token-webhook-version", "v1").
		Append("authentication-token-webhook-cache-ttl", "1s")
	config, err := environment.Start()
	// After a failed start, some processes may be running as well.
	t.Cleanup(func() {
		if err := environment.Stop(); err != nil {
			t.Errorf("stopping the API server: %v", err)
		}
	})
	g.Expect(err).NotTo(HaveOccurred())
	return aws.Cluster{Name: "demo", Endpoint: config.Host, CA: string(config.CAData)}
}

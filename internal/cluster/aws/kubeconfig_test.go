package aws_test

import (
	"encoding/base64"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/appthrust/capt/internal/cluster/aws"
)

const ca = "-----BEGIN CERTIFICATE-----\nMIIBAA==\n-----END CERTIFICATE-----"

func TestTokenKubeconfig_isUsableByClusterAPI(t *testing.T) {
	for name, cluster := range map[string]aws.Cluster{
		"PEM":            {Name: "demo", Endpoint: "https://a.eks.amazonaws.com", CA: ca},
		"base64":         {Name: "demo", Endpoint: "a.eks.amazonaws.com", CA: base64.StdEncoding.EncodeToString([]byte(ca)) + "\n"},
		"trailing slash": {Name: "demo", Endpoint: "https://a.eks.amazonaws.com/", CA: ca + "\n"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)

			text, err := aws.TokenKubeconfig(cluster, aws.Token{Value: aws.NewSecret("k8s-aws-v1.x")})

			g.Expect(err).NotTo(HaveOccurred())
			content, err := clientcmd.Load(text)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(clientcmd.ConfirmUsable(*content, "")).To(Succeed())
			g.Expect(content.CurrentContext).To(Equal("demo"))
			g.Expect(content.Contexts["demo"].Cluster).To(Equal("demo"))
			user := content.AuthInfos[content.Contexts["demo"].AuthInfo]
			g.Expect(user.Token).To(Equal("k8s-aws-v1.x"))
			g.Expect(user.Exec).To(BeNil())
			g.Expect(content.Clusters["demo"].Server).To(Equal("https://a.eks.amazonaws.com"))
			g.Expect(string(content.Clusters["demo"].CertificateAuthorityData)).To(Equal(ca))
		})
	}
}

func TestUserKubeconfig_signsInWithTheUsersCredentials(t *testing.T) {
	g := NewWithT(t)
	cluster := aws.Cluster{Name: "demo", Endpoint: "https://a.eks.amazonaws.com", CA: ca}

	text, err := aws.UserKubeconfig(cluster, "eu-west-1")
	g.Expect(err).NotTo(HaveOccurred())
	content, err := clientcmd.Load(text)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(clientcmd.ConfirmUsable(*content, "")).To(Succeed())
	g.Expect(content.CurrentContext).To(Equal("demo"))
	user := content.AuthInfos[content.Contexts["demo"].AuthInfo]
	g.Expect(user.Token).To(BeEmpty())
	g.Expect(user.Exec.Command).To(Equal("aws"))
	g.Expect(user.Exec.Args).To(Equal([]string{"eks", "get-token", "--cluster-name", "demo", "--region", "eu-west-1", "--output", "json"}))
	g.Expect(user.Exec.APIVersion).To(Equal("client.authentication.k8s.io/v1beta1"))
	g.Expect(user.Exec.InteractiveMode).To(Equal(clientcmdapi.IfAvailableExecInteractiveMode))
	g.Expect(user.Exec.InstallHint).To(ContainSubstring("AWS CLI"))
}

func TestKubeconfig_rejectsInvalidArguments(t *testing.T) {
	token := aws.Token{Value: aws.NewSecret("hunter2")}
	good := aws.Cluster{Name: "demo", Endpoint: "https://a.eks.amazonaws.com", CA: ca}
	tests := []struct {
		name   string
		change func(*aws.Cluster)
		text   string
	}{
		{"no name", func(c *aws.Cluster) { c.Name = "" }, "has no name"},
		{"no endpoint", func(c *aws.Cluster) { c.Endpoint = "" }, "the endpoint is empty"},
		{"an endpoint without TLS", func(c *aws.Cluster) { c.Endpoint = "http://a" }, "the endpoint must be an address"},
		{"no CA", func(c *aws.Cluster) { c.CA = "" }, "certificate authority"},
		{"a CA that is not PEM", func(c *aws.Cluster) { c.CA = "aGVsbG8=" }, "certificate authority"},
		{"a key as CA", func(c *aws.Cluster) { c.CA = "-----BEGIN PRIVATE KEY-----\nMIIBAA==\n-----END PRIVATE KEY-----" }, "certificate authority"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			cluster := good
			tt.change(&cluster)

			_, err := aws.TokenKubeconfig(cluster, token)
			g.Expect(err).To(MatchError(ContainSubstring(tt.text)))
			g.Expect(aws.KindOf(err)).To(Equal(aws.KindInvalid))
			_, err = aws.UserKubeconfig(cluster, "eu-west-1")
			g.Expect(err).To(MatchError(ContainSubstring(tt.text)))
		})
	}
	g := NewWithT(t)
	_, err := aws.TokenKubeconfig(good, aws.Token{})
	g.Expect(err).To(MatchError(ContainSubstring("the token is empty")))
	_, err = aws.UserKubeconfig(good, "")
	g.Expect(err).To(MatchError(ContainSubstring("the region is not set")))
}

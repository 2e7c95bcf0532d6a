package runnertest

import (
	"context"
	"net"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"testing"

	"github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
	"github.com/appthrust/capt/internal/testenv/statetest"
)

// S3Env names the variable with the address of an S3 server, such as that of moto. It
// must accept any credentials.
const S3Env = "CAPT_TEST_S3"

// Backend is a backend under test. Its methods read the stored state without the
// tool.
type Backend interface {
	// config returns the backend of a request, and the environment that it needs.
	config() (terraform.Backend, map[string]string)
	// state returns the stored state, or nothing.
	state() []byte
	// locked reports whether the state is locked.
	locked() bool
}

// backends returns the backends of the suite by name. make test runs it with the default one
// only; make test-state and make test-job, which have a server of S3, run it with all.
func backends() map[string]func(t *testing.T, h Harness) Backend {
	all := map[string]func(t *testing.T, h Harness) Backend{"kubernetes": newKubernetes}
	if os.Getenv(S3Env) != "" {
		all["http"], all["s3"] = newHTTP, newS3
	}
	return all
}

// kubernetesBackend is the default backend.
type kubernetesBackend struct {
	*gomega.WithT
	client  client.Client
	backend terraform.Backend
}

func newKubernetes(t *testing.T, h Harness) Backend {
	return &kubernetesBackend{
		WithT: gomega.NewWithT(t), client: h.Client,
		backend: terraform.Backend{Type: terraform.BackendKubernetes, Namespace: h.Namespace, SecretSuffix: "conformance"},
	}
}

func (b *kubernetesBackend) config() (terraform.Backend, map[string]string) { return b.backend, nil }

func (b *kubernetesBackend) state() []byte {
	secret := &corev1.Secret{}
	err := b.client.Get(context.Background(), client.ObjectKey{Namespace: b.backend.Namespace, Name: b.backend.StateSecretName()}, secret)
	b.Expect(client.IgnoreNotFound(err)).To(gomega.Succeed())
	text, err := record.StateContent(secret)
	b.Expect(err).NotTo(gomega.HaveOccurred())
	return text
}

func (b *kubernetesBackend) locked() bool {
	lease := &coordinationv1.Lease{}
	b.Expect(b.client.Get(context.Background(), client.ObjectKey{Namespace: b.backend.Namespace, Name: b.backend.LeaseName()}, lease)).To(gomega.Succeed())
	return lease.Spec.HolderIdentity != nil
}

// httpBackend is a server of the http backend.
type httpBackend struct{ server *statetest.Server }

func newHTTP(t *testing.T, h Harness) Backend {
	return &httpBackend{server: statetest.NewAt(t, h.ListenAddress)}
}

func (b *httpBackend) config() (terraform.Backend, map[string]string) {
	return terraform.Backend{Type: "http", HCL: b.server.Configuration("conformance")}, nil
}

func (b *httpBackend) state() []byte { return b.server.State("conformance") }
func (b *httpBackend) locked() bool  { return b.server.Lock("conformance") != nil }

// s3Backend is a bucket of an S3 server.
type s3Backend struct {
	*gomega.WithT
	bucket *statetest.S3
}

const s3Key = "team-a/conformance.tfstate"

func newS3(t *testing.T, h Harness) Backend {
	b := &s3Backend{WithT: gomega.NewWithT(t)}
	b.bucket = &statetest.S3{Address: b.proxy(t, os.Getenv(S3Env), h.ListenAddress), Bucket: h.Namespace}
	b.Expect(b.bucket.CreateBucket(t.Context())).To(gomega.Succeed())
	return b
}

// proxy returns the address of a server that runs can connect to, which forwards
// requests to the S3 server.
func (b *s3Backend) proxy(t *testing.T, server, address string) string {
	target, err := url.Parse(server)
	b.Expect(err).NotTo(gomega.HaveOccurred())
	listener, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
	b.Expect(err).NotTo(gomega.HaveOccurred())
	proxy := httptest.NewUnstartedServer(httputil.NewSingleHostReverseProxy(target))
	b.Expect(proxy.Listener.Close()).To(gomega.Succeed())
	proxy.Listener = listener
	proxy.Start()
	t.Cleanup(proxy.Close)
	return proxy.URL
}

func (b *s3Backend) config() (terraform.Backend, map[string]string) {
	return terraform.Backend{Type: "s3", HCL: b.bucket.Configuration(s3Key)},
		map[string]string{"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test-secret"}
}

func (b *s3Backend) state() []byte { return b.get(s3Key) }
func (b *s3Backend) locked() bool  { return b.get(statetest.LockKey(s3Key)) != nil }

func (b *s3Backend) get(key string) []byte {
	content, err := b.bucket.Get(context.Background(), key)
	b.Expect(err).NotTo(gomega.HaveOccurred())
	return content
}

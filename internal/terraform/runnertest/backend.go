package runnertest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
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

// Backends returns the backends of the suite by name. S3 is one of them if there is a
// server.
func Backends() map[string]func(t *testing.T, h Harness) Backend {
	backends := map[string]func(t *testing.T, h Harness) Backend{"kubernetes": newKubernetes, "http": newHTTP}
	if os.Getenv(S3Env) != "" {
		backends["s3"] = newS3
	}
	return backends
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
	if len(secret.Data["tfstate"]) == 0 {
		return nil
	}
	text, err := record.Decompress(secret.Data["tfstate"])
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
	server, bucket string
}

const s3Key = "team-a/conformance.tfstate"

func newS3(t *testing.T, h Harness) Backend {
	b := &s3Backend{WithT: gomega.NewWithT(t), server: os.Getenv(S3Env), bucket: h.Namespace}
	b.call(http.MethodPut, "")
	return b
}

func (b *s3Backend) config() (terraform.Backend, map[string]string) {
	return terraform.Backend{Type: "s3", HCL: fmt.Sprintf(`
bucket                      = %q
key                         = %q
region                      = "us-east-1"
use_lockfile                = true
use_path_style              = true
skip_credentials_validation = true
skip_requesting_account_id  = true
skip_metadata_api_check     = true
endpoints                   = { s3 = %q }
`, b.bucket, s3Key, b.server)}, map[string]string{"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test-secret"}
}

func (b *s3Backend) state() []byte {
	_, body := b.call(http.MethodGet, "/"+s3Key)
	return body
}

func (b *s3Backend) locked() bool {
	found, _ := b.call(http.MethodGet, "/"+s3Key+".tflock")
	return found
}

func (b *s3Backend) call(method, path string) (found bool, body []byte) {
	request, err := http.NewRequestWithContext(context.Background(), method, b.server+"/"+b.bucket+path, http.NoBody)
	b.Expect(err).NotTo(gomega.HaveOccurred())
	// The server does not check the signature, but it rejects anonymous requests.
	request.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0")
	response, err := http.DefaultClient.Do(request)
	b.Expect(err).NotTo(gomega.HaveOccurred())
	defer response.Body.Close()
	body, err = io.ReadAll(response.Body)
	b.Expect(err).NotTo(gomega.HaveOccurred())
	if response.StatusCode == http.StatusNotFound {
		return false, nil
	}
	b.Expect(response.StatusCode).To(gomega.Equal(http.StatusOK), string(bytes.TrimSpace(body)))
	return true, body
}

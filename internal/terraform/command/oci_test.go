package command

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"
	. "github.com/onsi/gomega"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"

	"github.com/appthrust/capt/internal/terraform"
)

// ociRegistry is a registry over TLS that wants a password.
func ociRegistry(t *testing.T) *httptest.Server {
	t.Helper()
	return guarded(t, "u", registry.New(registry.Logger(log.New(io.Discard, "", 0))))
}

// pushModule pushes a module package of OpenTofu, and returns its digest.
func pushModule(t *testing.T, server *httptest.Server, tag, module string) string {
	t.Helper()
	g := NewWithT(t)
	var content bytes.Buffer
	archive := zip.NewWriter(&content)
	file, err := archive.Create("main.tf")
	g.Expect(err).NotTo(HaveOccurred())
	_, err = io.WriteString(file, module)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(archive.Close()).To(Succeed())
	target, err := remote.NewRepository(strings.TrimPrefix(server.URL, "https://") + "/modules/network")
	g.Expect(err).NotTo(HaveOccurred())
	target.Client = &auth.Client{Client: server.Client(), Credential: auth.StaticCredential(target.Reference.Registry, auth.Credential{Username: "u", Password: moduleToken})}
	layer, err := oras.PushBytes(t.Context(), target, "archive/zip", content.Bytes())
	g.Expect(err).NotTo(HaveOccurred())
	manifest, err := oras.PackManifest(t.Context(), target, oras.PackManifestVersion1_1, "application/vnd.opentofu.modulepkg", oras.PackManifestOptions{Layers: []ocispec.Descriptor{layer}})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(target.Tag(t.Context(), manifest, tag)).To(Succeed())
	return manifest.Digest.String()
}

func TestPrepare_fetchesFromAnOCIRegistry(t *testing.T) {
	g := NewWithT(t)
	server := ociRegistry(t)
	host := strings.TrimPrefix(server.URL, "https://")
	digest := pushModule(t, server, "1.0.0", `output "v" { value = "first" }`)
	encoded := base64.StdEncoding.EncodeToString([]byte("u:" + moduleToken))
	request := inline("")
	request.Module = terraform.Module{
		Source: terraform.SourceRemote, Address: "oci://" + host + "/modules/network?tag=1.0.0",
		Auth: []terraform.ModuleAuth{{Host: host, Registries: map[string]terraform.RegistryAuth{host: {Auth: encoded}}}},
	}
	w, _ := workdir(t, tofu(t))
	session, applied := apply(t, w, request)
	g.Expect(string(applied.Outputs["v"].Value)).To(Equal(`"first"`))
	expectNowhere(t, w.Dir, encoded)
	pin := *session.Content
	g.Expect(pin.Revision).To(Equal(digest), "the tag is resolved")
	g.Expect(pin.Immutable).To(BeFalse(), "a registry may delete it")
	g.Expect(w.ArchiveFile()).To(BeAnExistingFile(), "so the files are kept")

	moved := pushModule(t, server, "1.0.0", `output "v" { value = "second" }`)
	latest, _ := workdir(t, tofu(t))
	session, applied = apply(t, latest, request)
	g.Expect(string(applied.Outputs["v"].Value)).To(Equal(`"second"`))
	g.Expect(session.Content.Revision).To(Equal(moved))
	request.Module.Pin = &pin
	other, _ := workdir(t, tofu(t))
	_, applied = apply(t, other, request)
	g.Expect(string(applied.Outputs["v"].Value)).To(Equal(`"first"`), "a tag that moved is not applied instead")

	// A registry without digests: the tool resolves the tag, and the content is compared.
	request.Module.Pin = &terraform.ModuleContent{Digest: pin.Digest}
	unknown, _ := workdir(t, tofu(t))
	_, err := Prepare(context.Background(), unknown, request)
	g.Expect(err).To(MatchError(ContainSubstring("Module changed")))

	request.Module.Pin, request.Module.Address = nil, "oci://"+host+"/modules/network?digest="+digest
	fixed, _ := workdir(t, tofu(t))
	session, applied = apply(t, fixed, request)
	g.Expect(string(applied.Outputs["v"].Value)).To(Equal(`"first"`))
	g.Expect(session.Content.Immutable).To(BeTrue())
	g.Expect(session.Content.Revision).To(Equal(digest))
}

func TestPrepare_fetchesATagWithoutItsDigest(t *testing.T) {
	g := NewWithT(t)
	server := ociRegistry(t)
	host := strings.TrimPrefix(server.URL, "https://")
	pushModule(t, server, "1.0.0", `output "v" { value = "first" }`)
	// The first request is that for the digest.
	var asked atomic.Bool
	images := server.Config.Handler
	server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked.CompareAndSwap(false, true) {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		images.ServeHTTP(w, r)
	})
	request := inline("")
	request.Module = terraform.Module{
		Source: terraform.SourceRemote, Address: "oci://" + host + "/modules/network?tag=1.0.0",
		Auth: []terraform.ModuleAuth{{Host: host, Registries: map[string]terraform.RegistryAuth{host: {Auth: base64.StdEncoding.EncodeToString([]byte("u:" + moduleToken))}}}},
	}
	w, log := workdir(t, tofu(t))
	session, applied := apply(t, w, request)
	g.Expect(string(applied.Outputs["v"].Value)).To(Equal(`"first"`))
	g.Expect(session.Content.Revision).To(BeEmpty())
	g.Expect(log.String()).To(And(ContainSubstring("Warning: the revision of the module is unknown"), Not(ContainSubstring(moduleToken))))
}

func TestOCIRevision_usesTheProxyOfTheTool(t *testing.T) {
	g := NewWithT(t)
	var asked atomic.Pointer[string]
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Store(&r.Host)
		w.WriteHeader(http.StatusBadGateway)
	}))
	t.Cleanup(proxy.Close)
	module := terraform.Module{Address: "oci://registry.example.com/modules/network?tag=1.0.0"}
	_, err := ociRevision(t.Context(), module, toolTransport([]string{"HTTPS_PROXY=" + proxy.URL, "NO_PROXY=other.example.com"}, ""))
	g.Expect(err).To(HaveOccurred())
	g.Expect(asked.Load()).To(HaveValue(Equal("registry.example.com:443")))
}

func TestToolTransport_trustsTheCertificatesOfTheTool(t *testing.T) {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	dir := t.TempDir()
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	NewWithT(t).Expect(os.WriteFile(filepath.Join(dir, "ca.pem"), certificate, 0o600)).To(Succeed())
	for _, env := range []string{"SSL_CERT_FILE=" + filepath.Join(dir, "ca.pem"), "SSL_CERT_FILE=ca.pem", "SSL_CERT_DIR=/missing:" + dir} {
		response, err := (&http.Client{Transport: toolTransport([]string{env}, dir)}).Get(server.URL)
		NewWithT(t).Expect(err).NotTo(HaveOccurred(), env)
		NewWithT(t).Expect(response.Body.Close()).To(Succeed())
	}
	system, err := x509.SystemCertPool()
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	for _, file := range []string{"missing.pem", "/dev/zero"} {
		NewWithT(t).Expect(toolCertificates(dir, file, "").Equal(system)).To(BeTrue(), "the certificates of the system stay trusted")
	}
}

func TestPinOCI(t *testing.T) {
	g := NewWithT(t)
	digest := "sha256:" + strings.Repeat("a", 64)
	for address, want := range map[string]string{
		"oci://h/r?tag=1":               "oci://h/r?digest=" + digest,
		"oci://h/r":                     "oci://h/r?digest=" + digest,
		"oci://h/r//sub?tag=1":          "oci://h/r//sub?digest=" + digest,
		"oci://h/r?digest=sha256:other": "oci://h/r?digest=" + digest,
	} {
		got, _ := pinAddress(terraform.Module{Address: address, Pin: &terraform.ModuleContent{Revision: digest}})
		g.Expect(got).To(Equal(want), address)
	}
}

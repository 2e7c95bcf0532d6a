package command

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
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
	images := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "u" || password != moduleToken {
			w.Header().Set("WWW-Authenticate", `Basic realm="registry"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		images.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	trust(t, server)
	return server
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
	config := fmt.Sprintf(`{"auths":{%q:{"auth":%q}}}`, host, base64.StdEncoding.EncodeToString([]byte("u:"+moduleToken)))
	request := inline("")
	request.Module = terraform.Module{
		Source: terraform.SourceRemote, Address: "oci://" + host + "/modules/network?tag=1.0.0",
		Auth: &terraform.ModuleAuth{Method: terraform.AuthOCI, Host: host, DockerConfig: config},
	}
	w, _ := workdir(t, tofu(t))
	session, applied := apply(t, w, request)
	g.Expect(string(applied.Outputs["v"].Value)).To(Equal(`"first"`))
	expectNowhere(t, w.Dir, base64.StdEncoding.EncodeToString([]byte("u:"+moduleToken)))
	pin := *session.Content
	g.Expect(pin.Immutable).To(BeFalse(), "a tag can move")
	g.Expect(w.ArchiveFile()).To(BeAnExistingFile(), "so the files are kept")

	pushModule(t, server, "1.0.0", `output "v" { value = "second" }`)
	request.Module.Pin = &pin
	other, _ := workdir(t, tofu(t))
	_, err := Prepare(context.Background(), other, request)
	g.Expect(err).To(MatchError(ContainSubstring("Module changed")), "a tag that moved is not applied instead")

	request.Module.Pin, request.Module.Address = nil, "oci://"+host+"/modules/network?digest="+digest
	fixed, _ := workdir(t, tofu(t))
	session, applied = apply(t, fixed, request)
	g.Expect(string(applied.Outputs["v"].Value)).To(Equal(`"first"`))
	g.Expect(session.Content.Immutable).To(BeTrue())
}

package engine

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"io"
	"log"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"
	. "github.com/onsi/gomega"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/registry/remote"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/appthrust/capt/internal/message"
	"github.com/appthrust/capt/internal/testenv"
)

// fluxEnv is set if source-controller is built: its build takes longer than that of all
// programs of make test.
const fluxEnv = "CAPT_TEST_FLUX"

// sourceController is Flux's source-controller for the sources of one namespace.
type sourceController struct {
	w       *harness
	storage string
	// address is where it serves artifacts.
	address string
	cmd     *exec.Cmd
	log     bytes.Buffer
}

// newSourceController returns a namespace with a manager and a source-controller that is
// running.
func newSourceController(t *testing.T) (*harness, *sourceController) {
	t.Helper()
	if os.Getenv(fluxEnv) == "" {
		t.Skip("set " + fluxEnv + "=1 to run Flux's source-controller: use `make test-flux`")
	}
	c := &sourceController{address: freeAddress(t)}
	c.w = newHarnessWithManager(t, "--artifact-hosts="+c.address)
	installKinds(c.w)
	c.start()
	t.Cleanup(func() {
		c.stop()
		if t.Failed() {
			t.Logf("source-controller:\n%s", message.Tail(c.log.String(), 12000))
		}
	})
	return c.w, c
}

// start starts source-controller with an empty storage, as a new pod has it.
func (c *sourceController) start() {
	c.w.t.Helper()
	program, err := testenv.Part("source-controller")
	c.w.Expect(err).NotTo(HaveOccurred())
	c.storage = c.w.t.TempDir()
	c.cmd = exec.Command(program, "--watch-all-namespaces=false", "--storage-path="+c.storage, "--storage-addr="+c.address, "--storage-adv-addr="+c.address,
		// Old artifacts are deleted at once.
		"--artifact-retention-ttl=1s", "--artifact-retention-records=1",
		"--metrics-addr="+freeAddress(c.w.t), "--health-addr="+freeAddress(c.w.t))
	c.cmd.Env = append(os.Environ(), "KUBECONFIG="+env.Kubeconfig, "RUNTIME_NAMESPACE="+c.w.namespace)
	c.cmd.Stdout, c.cmd.Stderr = &c.log, &c.log
	c.w.Expect(c.cmd.Start()).To(Succeed())
}

// stop stops source-controller, unless it was stopped.
func (c *sourceController) stop() {
	if c.cmd == nil {
		return
	}
	_ = c.cmd.Process.Signal(syscall.SIGKILL)
	_ = c.cmd.Wait()
	c.cmd = nil
}

// artifact returns a field of the artifact of a source, or an empty string.
func (c *sourceController) artifact(kind, name, field string) string {
	obj := c.w.sourceKey(kind, name)
	c.w.Expect(env.Client.Get(c.w.ctx, client.ObjectKeyFromObject(obj), obj)).To(Succeed())
	text, _, err := unstructured.NestedString(obj.Object, "status", "artifact", field)
	c.w.Expect(err).NotTo(HaveOccurred())
	return text
}

// patch changes a source.
func (c *sourceController) patch(kind, name, patch string) {
	c.w.t.Helper()
	c.w.Expect(env.Client.Patch(c.w.ctx, c.w.sourceKey(kind, name), client.RawPatch("application/merge-patch+json", []byte(patch)))).To(Succeed())
}

// repository is a Git repository that is served over HTTP.
type repository struct {
	w        *harness
	dir, url string
}

func newRepository(w *harness) *repository {
	w.t.Helper()
	git, err := exec.LookPath("git")
	w.Expect(err).NotTo(HaveOccurred())
	root := w.t.TempDir()
	server := httptest.NewServer(&cgi.Handler{
		Path: git, Args: []string{"http-backend"}, Env: []string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1"}, Stderr: io.Discard,
	})
	w.t.Cleanup(server.Close)
	r := &repository{w: w, dir: filepath.Join(root, "infra"), url: server.URL + "/infra"}
	w.Expect(os.Mkdir(r.dir, 0o700)).To(Succeed())
	w.git(r.dir, "init", "-q", "-b", "main")
	return r
}

// commit commits the files and returns the revision, as Flux writes it.
func (r *repository) commit(files map[string]string) string {
	r.w.t.Helper()
	for name, text := range files {
		path := filepath.Join(r.dir, filepath.FromSlash(name))
		r.w.Expect(os.MkdirAll(filepath.Dir(path), 0o700)).To(Succeed())
		r.w.Expect(os.WriteFile(path, []byte(text), 0o600)).To(Succeed())
	}
	r.w.git(r.dir, "add", ".")
	r.w.git(r.dir, "-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "-qm", "x")
	cmd := exec.Command("git", "rev-parse", "HEAD")
	cmd.Dir = r.dir
	out, err := cmd.Output()
	r.w.Expect(err).NotTo(HaveOccurred())
	return "main@sha1:" + strings.TrimSpace(string(out))
}

// images is a registry of OCI artifacts.
type images struct {
	w    *harness
	host string
}

func newImages(w *harness) *images {
	w.t.Helper()
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	w.t.Cleanup(server.Close)
	return &images{w: w, host: strings.TrimPrefix(server.URL, "http://")}
}

// fluxLayer is the media type of the files that `flux push artifact` pushes.
const fluxLayer = "application/vnd.cncf.flux.content.v1.tar+gzip"

// push pushes the files with the tag latest, as `flux push artifact` does, and returns the
// revision.
func (i *images) push(files map[string]string) string {
	i.w.t.Helper()
	target, err := remote.NewRepository(i.host + "/infra")
	i.w.Expect(err).NotTo(HaveOccurred())
	target.PlainHTTP = true
	layer, err := oras.PushBytes(i.w.ctx, target, fluxLayer, archiveOf(i.w, files))
	i.w.Expect(err).NotTo(HaveOccurred())
	config, err := oras.PushBytes(i.w.ctx, target, "application/vnd.cncf.flux.config.v1+json", []byte("{}"))
	i.w.Expect(err).NotTo(HaveOccurred())
	manifest, err := oras.PackManifest(i.w.ctx, target, oras.PackManifestVersion1_1, "", oras.PackManifestOptions{ConfigDescriptor: &config, Layers: []ocispec.Descriptor{layer}})
	i.w.Expect(err).NotTo(HaveOccurred())
	i.w.Expect(target.Tag(i.w.ctx, manifest, "latest")).To(Succeed())
	return "latest@" + manifest.Digest.String()
}

// archiveOf returns a compressed tar with the files.
func archiveOf(w *harness, files map[string]string) []byte {
	var content bytes.Buffer
	zip := gzip.NewWriter(&content)
	archive := tar.NewWriter(zip)
	for name, text := range files {
		w.Expect(archive.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(text))})).To(Succeed())
		w.Expect(io.WriteString(archive, text)).Error().NotTo(HaveOccurred())
	}
	w.Expect(archive.Close()).To(Succeed())
	w.Expect(zip.Close()).To(Succeed())
	return content.Bytes()
}

// status returns the status code of a GET.
func (w *harness) status(url string) int {
	response, err := http.Get(url)
	if err != nil {
		return 0
	}
	_ = response.Body.Close()
	return response.StatusCode
}

package command

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"golang.org/x/net/http/httpproxy"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/credentials"

	"github.com/appthrust/capt/internal/terraform"
)

const (
	ociScheme = "oci://"
	// ociTimeout is how long the search for the digest of a tag may take.
	ociTimeout = 30 * time.Second
)

// ociDigest matches the revision of a module in an OCI registry.
var ociDigest = regexp.MustCompile(`^sha(256:[0-9a-f]{64}|512:[0-9a-f]{128})$`)

// ociRevision returns the digest of a module in an OCI registry, to which its tag points
// now. The tool does not report the one that it has fetched.
func ociRevision(ctx context.Context, module terraform.Module, transport http.RoundTripper) (string, error) {
	base, query, _ := strings.Cut(strings.TrimPrefix(module.Address, ociScheme), "?")
	values, err := url.ParseQuery(query)
	if err != nil {
		return "", fmt.Errorf("parsing the address of the module: %w", err)
	}
	if digest := values.Get("digest"); digest != "" {
		return digest, nil
	}
	reference, _, _ := strings.Cut(base, "//")
	repository, err := remote.NewRepository(reference)
	if err != nil {
		return "", fmt.Errorf("parsing the address of the module: %w", err)
	}
	client := &auth.Client{Client: &http.Client{Transport: transport, Timeout: ociTimeout}}
	if config := dockerConfig(module.Auth); config != nil {
		store, err := credentials.NewMemoryStoreFromDockerConfig(config)
		if err != nil {
			return "", fmt.Errorf("reading the credentials of the module: %w", err)
		}
		client.Credential = credentials.Credential(store)
	}
	repository.Client = client
	ctx, cancel := context.WithTimeout(ctx, ociTimeout)
	defer cancel()
	tag := cmp.Or(values.Get("tag"), "latest")
	found, err := repository.Resolve(ctx, tag)
	if err != nil {
		return "", fmt.Errorf("finding the digest of tag %s: %w", tag, err)
	}
	return found.Digest.String(), nil
}

// Limits of the certificates that the environment of the tool names: the size of a file, and
// the files of a directory.
const (
	maxCertificates     = 4 << 20
	maxCertificateFiles = 1000
)

// toolTransport returns a transport with the proxy and the certificates that the
// environment of the tool names.
func toolTransport(env []string, dir string) *http.Transport {
	variable := func(names ...string) string {
		for _, name := range names {
			for _, entry := range env {
				if value, found := strings.CutPrefix(entry, name+"="); found && value != "" {
					return value
				}
			}
		}
		return ""
	}
	transport := http.DefaultTransport.(*http.Transport).Clone() //nolint:forcetypeassert // Nothing replaces it.
	proxy := (&httpproxy.Config{
		HTTPProxy: variable("HTTP_PROXY", "http_proxy"), HTTPSProxy: variable("HTTPS_PROXY", "https_proxy"), NoProxy: variable("NO_PROXY", "no_proxy"),
	}).ProxyFunc()
	transport.Proxy = func(request *http.Request) (*url.URL, error) { return proxy(request.URL) }
	if certificates := toolCertificates(dir, variable("SSL_CERT_FILE"), variable("SSL_CERT_DIR")); certificates != nil {
		transport.TLSClientConfig = &tls.Config{RootCAs: certificates, MinVersion: tls.VersionTLS12}
	}
	return transport
}

// toolCertificates returns the certificates of the system with those that the environment of
// the tool names, relative to its directory, or nil if it names none.
func toolCertificates(dir, file, dirs string) *x509.CertPool {
	if file == "" && dirs == "" {
		return nil
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	var paths []string
	if file != "" {
		paths = []string{file}
	}
	for _, path := range filepath.SplitList(dirs) {
		entries, _ := os.ReadDir(inDir(dir, path))
		for _, entry := range entries[:min(len(entries), maxCertificateFiles)] {
			paths = append(paths, filepath.Join(path, entry.Name()))
		}
	}
	for _, path := range paths {
		path = inDir(dir, path)
		if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() || info.Size() > maxCertificates {
			continue
		}
		if content, err := os.ReadFile(path); err == nil {
			pool.AppendCertsFromPEM(content)
		}
	}
	return pool
}

// inDir returns a path that may be relative to a directory.
func inDir(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

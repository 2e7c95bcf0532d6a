package command

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

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
func ociRevision(ctx context.Context, module terraform.Module) (string, error) {
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
	client := &auth.Client{Client: &http.Client{Timeout: ociTimeout}}
	if module.Auth != nil && module.Auth.DockerConfig != "" {
		store, err := credentials.NewMemoryStoreFromDockerConfig([]byte(module.Auth.DockerConfig))
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

// pinOCI returns the address of a module in an OCI registry with a digest instead of a tag.
func pinOCI(address, digest string) string {
	base, query, _ := strings.Cut(address, "?")
	values, err := url.ParseQuery(query)
	if err != nil {
		return address
	}
	values.Del("tag")
	values.Set("digest", digest)
	// The tool does not accept an encoded colon.
	return base + "?" + strings.ReplaceAll(values.Encode(), "%3A", ":")
}

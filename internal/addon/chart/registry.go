package chart

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/errcode"

	"github.com/appthrust/capt/internal/addon/render"
)

// maxManifest limits the size of an OCI manifest.
const maxManifest = 64 << 10

// pull returns a chart from an OCI registry: the one that the reference names, or the version.
func (s source) pull(ctx context.Context, f Fetcher, reference string) (*Chart, error) {
	repository, err := remote.NewRepository(reference)
	if err != nil {
		return nil, fmt.Errorf("%s is not an OCI repository: write it as oci://HOST/PATH", reference)
	}
	repository.PlainHTTP = s.insecure
	repository.Client = &auth.Client{Client: f.client(), Cache: auth.NewCache()}
	version := cmp.Or(repository.Reference.Reference, s.version)
	manifest, err := findManifest(ctx, repository, version)
	if err != nil {
		return nil, err
	}
	for _, layer := range manifest.Layers {
		if layer.MediaType != render.ChartMediaType {
			continue
		}
		if layer.Size > maxArchive {
			return nil, tooLarge(maxArchive)
		}
		data, err := content.FetchAll(ctx, repository.Blobs(), layer)
		if err != nil {
			return nil, fmt.Errorf("reading the chart layer: %w", explain(err))
		}
		return unpack(bytes.NewReader(data))
	}
	return nil, fmt.Errorf("%s:%s is not a Helm chart", reference, version)
}

// findManifest returns the manifest of a version, whose tag may have a leading v
// or not.
func findManifest(ctx context.Context, repository *remote.Repository, version string) (*ocispec.Manifest, error) {
	for _, spelling := range versions(version) {
		// A tag cannot contain a plus sign.
		descriptor, err := repository.Resolve(ctx, strings.ReplaceAll(spelling, "+", "_"))
		switch {
		case errors.Is(err, errdef.ErrNotFound):
			continue
		case err != nil:
			return nil, explain(err)
		case descriptor.Size > maxManifest:
			return nil, tooLarge(maxManifest)
		}
		text, err := content.FetchAll(ctx, repository, descriptor)
		if err != nil {
			return nil, fmt.Errorf("reading the manifest: %w", explain(err))
		}
		var manifest ocispec.Manifest
		if err := json.Unmarshal(text, &manifest); err != nil {
			return nil, fmt.Errorf("reading the manifest: %w", err)
		}
		return &manifest, nil
	}
	return nil, fmt.Errorf("the registry has no version %s of %s", version, repository.Reference.Repository)
}

// explain shortens an error response of a registry to one line.
func explain(err error) error {
	var answer *errcode.ErrorResponse
	switch {
	case !errors.As(err, &answer):
		return err
	case answer.StatusCode == http.StatusUnauthorized || answer.StatusCode == http.StatusForbidden:
		return errors.New("the registry requires credentials: only public charts are supported")
	default:
		return fmt.Errorf("the registry returned %d %s", answer.StatusCode, http.StatusText(answer.StatusCode))
	}
}

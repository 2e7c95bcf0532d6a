package chart

import (
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
)

// chartLayer is the media type of a chart's archive.
const chartLayer = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"

// maxManifest is the greatest OCI manifest that is read.
const maxManifest = 1 << 20

// pull reads a chart from an OCI registry.
func (s source) pull(ctx context.Context, reference, version string) (*Chart, error) {
	repository, err := remote.NewRepository(reference)
	if err != nil {
		return nil, fmt.Errorf("%s is no OCI repository: write it as oci://HOST/PATH", reference)
	}
	repository.PlainHTTP = s.insecure
	repository.Client = &auth.Client{Client: &http.Client{Transport: transport()}, Cache: auth.NewCache()}
	manifest, err := findManifest(ctx, repository, version)
	if err != nil {
		return nil, err
	}
	for _, layer := range manifest.Layers {
		if layer.MediaType != chartLayer {
			continue
		}
		if layer.Size > maxArchive {
			return nil, tooLarge(maxArchive)
		}
		data, err := content.FetchAll(ctx, repository.Blobs(), layer)
		if err != nil {
			return nil, fmt.Errorf("reading the chart's layer: %w", explain(err))
		}
		return unpack(data, 0)
	}
	return nil, fmt.Errorf("%s:%s holds no Helm chart", reference, version)
}

// findManifest reads the manifest of a version, which a tag may write in several
// ways.
func findManifest(ctx context.Context, repository *remote.Repository, version string) (*ocispec.Manifest, error) {
	for _, written := range versions(version) {
		// A tag cannot hold a plus.
		descriptor, err := repository.Resolve(ctx, strings.ReplaceAll(written, "+", "_"))
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
	return nil, fmt.Errorf("the registry has no version %s: look for the versions that %s has", version, repository.Reference.Repository)
}

// explain shortens a registry's refusal to one line.
func explain(err error) error {
	var answer *errcode.ErrorResponse
	switch {
	case !errors.As(err, &answer):
		return err
	case answer.StatusCode == http.StatusUnauthorized || answer.StatusCode == http.StatusForbidden:
		return errors.New("the registry asks for credentials: only public charts can be read")
	default:
		return fmt.Errorf("the registry answers %d %s", answer.StatusCode, http.StatusText(answer.StatusCode))
	}
}

package chart

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/appthrust/capt/internal/message"
)

// download returns a chart from a Helm repository.
func (s source) download(ctx context.Context, f Fetcher) (*Chart, error) {
	body, err := f.open(ctx, s.repository+"/index.yaml")
	if err != nil {
		return nil, err
	}
	defer body.Close()
	entries, err := f.readIndex(body, s.name)
	if err != nil {
		return nil, fmt.Errorf("reading index.yaml of %s: %w", s.repository, err)
	}
	found, err := findVersion(entries, s.version)
	if err != nil {
		return nil, err
	}
	address, err := resolve(s.repository, found.URLs[0])
	if err != nil {
		return nil, err
	}
	if reference, isOCI := strings.CutPrefix(address, "oci://"); isOCI {
		return s.pull(ctx, f, reference)
	}
	archive, err := f.open(ctx, address)
	if err != nil {
		return nil, err
	}
	defer archive.Close()
	data, err := readLimited(archive, maxArchive)
	if err != nil {
		return nil, fmt.Errorf("reading the archive: %w", err)
	}
	sum := sha256.Sum256(data)
	if want := strings.TrimPrefix(found.Digest, "sha256:"); want != "" && hex.EncodeToString(sum[:]) != want {
		return nil, errors.New("the digest of the archive differs from that in index.yaml")
	}
	return unpack(bytes.NewReader(data))
}

// findVersion returns the entry of a version.
func findVersion(entries []entry, version string) (entry, error) {
	for _, spelling := range versions(version) {
		for _, e := range entries {
			if e.Version == spelling && len(e.URLs) > 0 {
				return e, nil
			}
		}
	}
	available := make([]string, len(entries))
	for i, e := range entries {
		available[i] = e.Version
	}
	return entry{}, missing("version "+version, version, available)
}

func missing(what, name string, known []string) error {
	if nearest, found := message.Nearest(name, known); found {
		return fmt.Errorf("the repository has no %s: did you mean %s?", what, nearest)
	}
	return fmt.Errorf("the repository has no %s: it has %s", what, message.List(known, maxListed))
}

// resolve returns the absolute URL of a chart.
func resolve(repository, reference string) (string, error) {
	base, err := url.Parse(repository + "/")
	if err != nil {
		return "", fmt.Errorf("parsing the URL of the repository: %w", err)
	}
	resolved, err := base.Parse(reference)
	if err != nil {
		return "", fmt.Errorf("parsing the URL of the chart in index.yaml: %w", err)
	}
	return resolved.String(), nil
}

// open returns the content at a URL as a stream.
func (f Fetcher) open(ctx context.Context, address string) (io.ReadCloser, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := f.client().Do(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		return nil, errors.Join(fmt.Errorf("%s returned %d %s", request.URL.Redacted(), response.StatusCode, http.StatusText(response.StatusCode)), response.Body.Close())
	}
	return response.Body, nil
}

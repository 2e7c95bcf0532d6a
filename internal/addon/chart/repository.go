package chart

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/appthrust/capt/internal/message"
)

// maxIndex limits the size of index.yaml.
const maxIndex = 64 << 20

// index is the index.yaml of a Helm repository.
type index struct {
	Entries map[string][]entry `json:"entries"`
}

// entry is one version of a chart.
type entry struct {
	Version string   `json:"version"`
	URLs    []string `json:"urls"`
	Digest  string   `json:"digest"`
}

// download returns a chart from a Helm repository.
func (s source) download(ctx context.Context) (*Chart, error) {
	text, err := get(ctx, s.repository+"/index.yaml", maxIndex)
	if err != nil {
		return nil, err
	}
	var i index
	if err := yaml.Unmarshal(text, &i); err != nil {
		return nil, fmt.Errorf("reading index.yaml: %w", err)
	}
	found, err := i.find(s.name, s.version)
	if err != nil {
		return nil, err
	}
	address, err := resolve(s.repository, found.URLs[0])
	if err != nil {
		return nil, err
	}
	if reference, isOCI := strings.CutPrefix(address, "oci://"); isOCI {
		repository, tag := cutTag(reference)
		if tag == "" {
			tag = s.version
		}
		return s.pull(ctx, repository, tag)
	}
	data, err := get(ctx, address, maxArchive)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(data)
	if want := strings.TrimPrefix(found.Digest, "sha256:"); want != "" && hex.EncodeToString(sum[:]) != want {
		return nil, errors.New("the digest of the archive differs from that in index.yaml")
	}
	return unpack(data, 0)
}

func (i index) find(name, version string) (entry, error) {
	entries, known := i.Entries[name]
	if !known {
		return entry{}, missing("chart "+name, name, slices.Sorted(maps.Keys(i.Entries)))
	}
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
	relative, err := url.Parse(reference)
	if err != nil {
		return "", fmt.Errorf("parsing the URL of the chart in index.yaml: %w", err)
	}
	return base.ResolveReference(relative).String(), nil
}

// cutTag splits an OCI reference into repository and tag.
func cutTag(reference string) (repository, tag string) {
	colon := strings.LastIndex(reference, ":")
	if colon < strings.LastIndex(reference, "/") {
		return reference, ""
	}
	return reference[:colon], reference[colon+1:]
}

// get returns the content at a URL.
func get(ctx context.Context, address string, limit int64) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := (&http.Client{Transport: transport()}).Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s returned %s", request.URL.Redacted(), response.Status)
	}
	data, err := readLimited(response.Body, limit)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", request.URL.Redacted(), err)
	}
	return data, nil
}

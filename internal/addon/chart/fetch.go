package chart

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/appthrust/capt/internal/kubernetes/dial"
	"github.com/appthrust/capt/internal/kubernetes/manifest"
)

// fetchTimeout limits the time to fetch a chart by default.
const fetchTimeout = time.Minute

// Fetcher fetches charts. The zero value fetches from all addresses.
type Fetcher struct {
	// Policy restricts the addresses.
	Policy *dial.Policy
	// MaxIndex limits the size of index.yaml. The default is 64 MiB.
	MaxIndex int64
	// Timeout limits the time of a fetch. The default is a minute.
	Timeout time.Duration
}

// Fetch returns a chart from a Helm repository (https://, http://) or an OCI
// registry (oci://). It uses no credentials. With insecure it connects to an OCI
// registry with plain HTTP. It blocks for up to the timeout.
func (f Fetcher) Fetch(ctx context.Context, repository, name, version string, insecure bool) (*Chart, error) {
	f.MaxIndex, f.Timeout = cmp.Or(f.MaxIndex, maxIndex), cmp.Or(f.Timeout, fetchTimeout)
	ctx, cancel := context.WithTimeout(ctx, f.Timeout)
	defer cancel()
	s := source{repository: strings.TrimSuffix(repository, "/"), name: name, version: version, insecure: insecure}
	c, err := s.fetch(ctx, f)
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("%s did not respond within %s", s.repository, f.Timeout)
	}
	if err != nil {
		return nil, fmt.Errorf("fetching chart %s %s from %s: %w", name, version, repository, err)
	}
	// The version in Chart.yaml may differ from the published one.
	c.Version = version
	return c, nil
}

// source identifies a version of a chart in a repository.
type source struct {
	repository, name, version string
	insecure                  bool
}

func (s source) fetch(ctx context.Context, f Fetcher) (*Chart, error) {
	scheme, _, _ := strings.Cut(s.repository, "://")
	switch scheme {
	case "oci":
		return s.pull(ctx, f, strings.TrimPrefix(s.repository, "oci://")+"/"+s.name)
	case "http", "https":
		return s.download(ctx, f)
	default:
		return nil, errors.New("the repository must start with oci://, https:// or http://")
	}
}

// versions returns the spellings of a version, with and without a leading v. The
// given one comes first.
func versions(version string) []string {
	if plain, prefixed := strings.CutPrefix(version, "v"); prefixed {
		return []string{version, plain}
	}
	return []string{version, "v" + version}
}

// client returns a client without keep-alive, because each repository is rarely used
// twice.
func (f Fetcher) client() *http.Client {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.DisableKeepAlives = true
	t.ResponseHeaderTimeout = f.Timeout / 2
	return &http.Client{Transport: f.Policy.Transport(t)}
}

// unpack returns the chart of an archive.
func unpack(from io.Reader) (*Chart, error) {
	collected := &collector{files: files{}}
	if err := collected.unpack(from, ""); err != nil {
		return nil, err
	}
	return assemble(collected.files, &manifest.Budget{})
}

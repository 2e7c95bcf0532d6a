package chart

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// fetchTimeout limits the time to fetch a chart.
const fetchTimeout = time.Minute

// Fetch returns a chart from a Helm repository (https://, http://) or an OCI
// registry (oci://). It uses no credentials. With insecure it connects to an OCI
// registry with plain HTTP. It blocks for up to a minute.
func Fetch(ctx context.Context, repository, name, version string, insecure bool) (*Chart, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	s := source{repository: strings.TrimSuffix(repository, "/"), name: name, version: version, insecure: insecure}
	c, err := s.fetch(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("%s did not respond within %s", s.repository, fetchTimeout)
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

func (s source) fetch(ctx context.Context) (*Chart, error) {
	scheme, _, _ := strings.Cut(s.repository, "://")
	switch scheme {
	case "oci":
		return s.pull(ctx, strings.TrimPrefix(s.repository, "oci://")+"/"+s.name, s.version)
	case "http", "https":
		return s.download(ctx)
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

// transport returns a transport without keep-alive, because each repository is
// rarely used twice.
func transport() *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.DisableKeepAlives = true
	t.ResponseHeaderTimeout = fetchTimeout / 2
	return t
}

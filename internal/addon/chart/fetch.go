package chart

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// fetchTimeout is how long a chart may take to arrive.
const fetchTimeout = time.Minute

// Fetch reads a chart from a Helm repository (https://, http://) or an OCI
// registry (oci://), without credentials. Insecure has an OCI registry asked by
// plain HTTP. It blocks until the chart is there, a minute at most.
func Fetch(ctx context.Context, repository, name, version string, insecure bool) (*Chart, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	s := source{repository: strings.TrimSuffix(repository, "/"), name: name, version: version, insecure: insecure}
	c, err := s.fetch(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("%s did not answer within %s", s.repository, fetchTimeout)
	}
	if err != nil {
		return nil, fmt.Errorf("fetching chart %s %s from %s: %w", name, version, repository, err)
	}
	// Some charts are published under a version that their Chart.yaml lacks.
	c.Version = version
	return c, nil
}

// source is where one version of a chart comes from.
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
		return nil, errors.New("write a repository that starts with oci://, https:// or http://")
	}
}

// versions are the ways in which a version may be written, as given first.
func versions(version string) []string {
	if plain, prefixed := strings.CutPrefix(version, "v"); prefixed {
		return []string{version, plain}
	}
	return []string{version, "v" + version}
}

// transport has connections that end with the request, so that nothing stays
// open for repositories that are asked once.
func transport() *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.DisableKeepAlives = true
	t.ResponseHeaderTimeout = fetchTimeout / 2
	return t
}

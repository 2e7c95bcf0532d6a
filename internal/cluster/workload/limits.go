package workload

import (
	"errors"
	"io"
	"net/http"
	"strings"

	"k8s.io/client-go/rest"
)

const (
	// maxResponse limits a response of an API server: the manager reads it into memory.
	maxResponse = 16 << 20
	// maxEvent limits an event of a watch. API servers store objects of up to 1.5 MiB.
	maxEvent = 4 << 20
	// maxPage limits a page of a list. The decoded objects need much more memory.
	maxPage = 8 << 20
)

// ErrTooLarge is why a response is not read to its end.
var ErrTooLarge = errors.New("the API server answers with more than the manager reads into memory")

// LimitPages makes a configuration of LastingConfig accept only the pages of lists.
func LimitPages(config *rest.Config) {
	if transport, ok := config.Transport.(limited); ok {
		transport.limit = maxPage
		config.Transport = transport
	}
}

// limited limits the size of responses. A watch may last, but each event is limited.
type limited struct {
	next  http.RoundTripper
	limit int64
}

// RoundTrip implements http.RoundTripper.
func (l limited) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := l.next.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	watch := request.URL.Query().Get("watch")
	switch isJSON := strings.Contains(response.Header.Get("Content-Type"), "json"); {
	case watch != "true" && watch != "1":
		response.Body = &limitedBody{ReadCloser: response.Body, limit: l.limit}
	case isJSON:
		response.Body = &limitedEvents{ReadCloser: response.Body, limit: maxEvent}
	default:
		// The client itself limits the events of other formats, which name their size.
	}
	return response, nil
}

// limitedBody is a response that fails if it is too large.
type limitedBody struct {
	io.ReadCloser

	limit, size int64
}

// Read implements io.Reader.
func (b *limitedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.size += int64(n); b.size > b.limit {
		return 0, ErrTooLarge
	}
	return n, err
}

// limitedEvents is a sequence of JSON objects that fails if one of them is too large.
type limitedEvents struct {
	io.ReadCloser

	limit, size int64
	// depth is that of objects and lists. InText is set within a string, and escaped after
	// a backslash in it.
	depth           int
	inText, escaped bool
}

// Read implements io.Reader.
func (e *limitedEvents) Read(p []byte) (int, error) {
	n, err := e.ReadCloser.Read(p)
	for _, b := range p[:n] {
		e.size++
		switch {
		case e.escaped:
			e.escaped = false
		case e.inText && b == '\\':
			e.escaped = true
		case b == '"':
			e.inText = !e.inText
		case e.inText:
		case b == '{', b == '[':
			e.depth++
		case b == '}', b == ']':
			if e.depth--; e.depth <= 0 {
				e.depth, e.size = 0, 0
			}
		}
		if e.size > e.limit {
			return 0, ErrTooLarge
		}
	}
	return n, err
}

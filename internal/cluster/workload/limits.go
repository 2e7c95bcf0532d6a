package workload

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/appthrust/capt/internal/elements"
)

const (
	// maxAnswer limits a response of an API server, a page of a list or an event of a watch: the
	// manager reads it into memory. API servers store objects of up to 1.5 MiB.
	maxAnswer = 8 << 20
	// maxMemory limits what it needs when it is decoded, which is much more for lists of empty
	// objects.
	maxMemory = 24 << 20
	// maxOther limits a response that is not JSON, such as that of a health check. What it needs
	// when it is decoded is not known.
	maxOther = 16 << 10
)

// isTooLarge reports whether an answer exceeds the limits.
func isTooLarge(c *elements.Counter) bool { return c.Size > maxAnswer || c.Memory() > maxMemory }

// ErrTooLarge is why a response is not read to its end.
var ErrTooLarge = errors.New("the API server answers with more than the manager reads into memory")

// limited limits responses. A watch may last, but each event is limited.
type limited struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (l limited) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := l.next.RoundTrip(acceptJSON(request))
	if err != nil {
		return nil, err
	}
	watch := request.URL.Query().Get("watch")
	switch events := watch == "true" || watch == "1"; {
	case !isJSON(response):
		// An event, too, is decoded as its response says.
		response.Body = &limitedBody{ReadCloser: response.Body, exceeds: func(c *elements.Counter) bool { return c.Size > maxOther }}
	case events:
		response.Body = &limitedEvents{ReadCloser: response.Body}
	default:
		response.Body = &limitedBody{ReadCloser: response.Body, exceeds: isTooLarge}
	}
	return response, nil
}

// isJSON reports whether a client decodes a response as JSON. What it does without a content
// type depends on the client.
func isJSON(response *http.Response) bool {
	kind, _, err := mime.ParseMediaType(response.Header.Get("Content-Type"))
	return err == nil && kind == runtime.ContentTypeJSON
}

// acceptJSON returns a request that accepts JSON only. The clients of metadata prefer another
// format, whatever their configuration says.
func acceptJSON(request *http.Request) *http.Request {
	accepted := strings.Split(request.Header.Get("Accept"), ",")
	inJSON := slices.DeleteFunc(slices.Clone(accepted), func(kind string) bool {
		return !strings.HasPrefix(strings.TrimSpace(kind), runtime.ContentTypeJSON)
	})
	if len(inJSON) == 0 || len(inJSON) == len(accepted) {
		return request
	}
	changed := request.Clone(request.Context())
	changed.Header.Set("Accept", strings.Join(inJSON, ","))
	return changed
}

// limitedBody is a response that fails if it is too large.
type limitedBody struct {
	io.ReadCloser

	exceeds func(*elements.Counter) bool
	counter elements.Counter
}

// Read implements io.Reader.
func (b *limitedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	_, _ = b.counter.Write(p[:n])
	if b.exceeds(&b.counter) {
		return 0, ErrTooLarge
	}
	return n, err
}

// limitedEvents is a sequence of JSON objects that fails if one of them is too large.
type limitedEvents struct {
	io.ReadCloser

	counter elements.Counter
}

// Read implements io.Reader.
func (e *limitedEvents) Read(p []byte) (int, error) {
	n, err := e.ReadCloser.Read(p)
	for _, b := range p[:n] {
		depth := e.counter.Depth
		e.counter.Add(b)
		if depth != 1 || e.counter.Depth != 0 {
			continue
		}
		if isTooLarge(&e.counter) {
			return 0, ErrTooLarge
		}
		e.counter.Reset()
	}
	if isTooLarge(&e.counter) {
		return 0, ErrTooLarge
	}
	return n, err
}

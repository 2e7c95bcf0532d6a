package workload

import (
	"errors"
	"io"
	"math"
	"mime"
	"net/http"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/appthrust/capt/internal/elements"
)

// limit limits a text of an API server: its bytes, and what it needs in memory when it is
// decoded, which is much more for lists of empty objects.
type limit struct{ size, memory int }

var (
	// responseLimit limits a response of an API server: the manager reads it into memory.
	responseLimit = limit{size: 16 << 20, memory: 32 << 20}
	// eventLimit limits an event of a watch. API servers store objects of up to 1.5 MiB.
	eventLimit = limit{size: 4 << 20, memory: 12 << 20}
	// pageLimit limits a page of a list.
	pageLimit = limit{size: 8 << 20, memory: 16 << 20}
	// otherLimit limits a response that is not JSON, such as that of a health check. What it
	// needs when it is decoded is not known.
	otherLimit = limit{size: 16 << 10, memory: math.MaxInt}
)

func (l limit) allows(c *elements.Counter) bool { return c.Size <= l.size && c.Memory() <= l.memory }

// and returns what both limits allow.
func (l limit) and(other limit) limit {
	return limit{size: min(l.size, other.size), memory: min(l.memory, other.memory)}
}

// ErrTooLarge is why a response is not read to its end.
var ErrTooLarge = errors.New("the API server answers with more than the manager reads into memory")

// limited limits responses. A watch may last, but each event is limited.
type limited struct {
	next  http.RoundTripper
	limit limit
}

// RoundTrip implements http.RoundTripper.
func (l limited) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := l.next.RoundTrip(acceptJSON(request))
	if err != nil {
		return nil, err
	}
	query := request.URL.Query()
	watch := query.Get("watch")
	switch events := watch == "true" || watch == "1"; {
	case !isJSON(response):
		// An event, too, is decoded as its response says.
		response.Body = &limitedBody{ReadCloser: response.Body, limit: otherLimit}
	case events:
		response.Body = &limitedEvents{ReadCloser: response.Body, limit: eventLimit}
	case query.Has("limit"):
		response.Body = &limitedBody{ReadCloser: response.Body, limit: l.limit.and(pageLimit)}
	default:
		response.Body = &limitedBody{ReadCloser: response.Body, limit: l.limit}
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

	limit   limit
	counter elements.Counter
}

// Read implements io.Reader.
func (b *limitedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	_, _ = b.counter.Write(p[:n])
	if !b.limit.allows(&b.counter) {
		return 0, ErrTooLarge
	}
	return n, err
}

// limitedEvents is a sequence of JSON objects that fails if one of them is too large.
type limitedEvents struct {
	io.ReadCloser

	limit   limit
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
		if !e.limit.allows(&e.counter) {
			return 0, ErrTooLarge
		}
		e.counter.Reset()
	}
	if !e.limit.allows(&e.counter) {
		return 0, ErrTooLarge
	}
	return n, err
}

package workload

import (
	"errors"
	"io"
	"net/http"
)

// maxAnswer limits a response of an API server, a page of a list or an event of a watch: the
// manager reads it into memory. API servers store objects of up to 1.5 MiB.
const maxAnswer = 8 << 20

// ErrTooLarge is why a response is not read to its end.
var ErrTooLarge = errors.New("the API server answers with more than the manager reads into memory")

// limited limits responses. A watch may last, but each event is limited.
type limited struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (l limited) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := l.next.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	watch := request.URL.Query().Get("watch")
	response.Body = &limitedBody{ReadCloser: response.Body, events: watch == "true" || watch == "1"}
	return response, nil
}

// limitedBody is a response that fails if it is too large, or, with events, a sequence of JSON
// objects that fails if one of them is too large.
type limitedBody struct {
	io.ReadCloser

	events bool
	// size is that of the response so far, or of the event.
	size int
	// depth is that of the lists and objects of the event which have not ended.
	depth             int
	inString, escaped bool
}

// Read implements io.Reader.
func (b *limitedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.size += n
	if b.events {
		b.follow(p[:n])
	}
	if b.size > maxAnswer {
		return 0, ErrTooLarge
	}
	return n, err
}

// follow finds the ends of events.
func (b *limitedBody) follow(text []byte) {
	for i, c := range text {
		switch {
		case b.escaped:
			b.escaped = false
		case b.inString && c == '\\':
			b.escaped = true
		case c == '"':
			b.inString = !b.inString
		case b.inString:
		case c == '[' || c == '{':
			b.depth++
		case c == ']' || c == '}':
			if b.depth--; b.depth <= 0 {
				b.depth, b.size = 0, len(text)-i-1
			}
		}
	}
}

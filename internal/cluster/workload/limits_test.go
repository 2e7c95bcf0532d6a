package workload

import (
	"io"
	"net/http"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

type answer struct{ contentType, body string }

func (a answer) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {a.contentType}}, Body: io.NopCloser(strings.NewReader(a.body))}, nil
}

func TestLimited_limitsResponsesAndEvents(t *testing.T) {
	event := `{"type":"ADDED","object":{"text":"a \"quoted\" } {"}}` + "\n"
	large := `{"object":{"text":"` + strings.Repeat("\n ", maxEvent/2) + `"}}`
	for name, tc := range map[string]struct {
		query, contentType, body string
		limit                    int64
		fails                    bool
	}{
		"a response":                 {body: "0123456789", limit: 10},
		"a large response":           {body: "0123456789a", limit: 10, fails: true},
		"a long watch":               {query: "watch=true", contentType: "application/json", body: strings.Repeat(event, 10*maxEvent/len(event)), limit: 10},
		"a long watch of an old way": {query: "watch=1", contentType: "application/json;stream=watch", body: strings.Repeat(event, 100), limit: 10},
		"a large event":              {query: "watch=true", contentType: "application/json", body: event + large, limit: 10, fails: true},
		"an event that never ends":   {query: "watch=true", contentType: "application/json", body: "{" + strings.Repeat(" \n", maxEvent), limit: 10, fails: true},
		"space that never ends":      {query: "watch=true", contentType: "application/json", body: strings.Repeat(" \n", maxEvent), limit: 10, fails: true},
		"not a watch":                {query: "watch=false", contentType: "application/json", body: event, limit: 10, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://example.com/api/v1/nodes?"+tc.query, http.NoBody)
			g.Expect(err).NotTo(HaveOccurred())
			response, err := limited{next: answer{tc.contentType, tc.body}, limit: tc.limit}.RoundTrip(request)
			g.Expect(err).NotTo(HaveOccurred())
			defer func() { _ = response.Body.Close() }()
			n, err := io.Copy(io.Discard, response.Body)
			if tc.fails {
				g.Expect(err).To(MatchError(ErrTooLarge))
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(n).To(BeEquivalentTo(len(tc.body)))
		})
	}
}

package workload

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

type answer struct{ contentType, body string }

func (a answer) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {a.contentType}}, Body: io.NopCloser(strings.NewReader(a.body))}, nil
}

func TestLimited_limitsResponsesAndEvents(t *testing.T) {
	const inJSON = "application/json"
	event := `{"type":"ADDED","object":{"text":"a \"quoted\" } {"}}` + "\n"
	large := `{"object":{"text":"` + strings.Repeat("\n ", maxAnswer/2+64<<10) + `"}}`
	for name, tc := range map[string]struct {
		query, contentType, body string
		fails                    bool
	}{
		"a response":                 {contentType: inJSON, body: "0123456789"},
		"a large response":           {contentType: inJSON, body: strings.Repeat(" ", maxAnswer+1), fails: true},
		"a list":                     {contentType: inJSON, body: `{"items":[` + strings.Repeat(`{"name":"n"},`, 5_000) + `{}]}`},
		"a health check":             {contentType: "text/plain; charset=utf-8", body: strings.Repeat("[+]ping ok\n", 100)},
		"a long watch":               {query: "watch=true", contentType: inJSON, body: strings.Repeat(event, 2*maxAnswer/len(event))},
		"a long watch of an old way": {query: "watch=1", contentType: "application/json;stream=watch", body: strings.Repeat(event, 100)},
		"a large event":              {query: "watch=true", contentType: inJSON, body: event + large, fails: true},
		"an event that never ends":   {query: "watch=true", contentType: inJSON, body: "{" + strings.Repeat(" \n", maxAnswer), fails: true},
		"space that never ends":      {query: "watch=true", contentType: inJSON, body: strings.Repeat(" \n", maxAnswer), fails: true},
		"not a watch":                {query: "watch=false", contentType: inJSON, body: strings.Repeat(event, 2*maxAnswer/len(event)), fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://example.com/api/v1/nodes?"+tc.query, http.NoBody)
			g.Expect(err).NotTo(HaveOccurred())
			response, err := limited{next: answer{tc.contentType, tc.body}}.RoundTrip(request)
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

// pages is a reader of nodes in pages, which must be small.
type pages struct {
	client.Reader

	nodes, largest int
	requests       []string
}

func (p *pages) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	var options client.ListOptions
	options.ApplyOptions(opts)
	p.requests = append(p.requests, fmt.Sprintf("%d of %s", options.Limit, options.Continue))
	from, _ := strconv.Atoi(options.Continue)
	until := min(from+int(options.Limit), p.nodes)
	if until-from > p.largest {
		return fmt.Errorf("listing: %w", ErrTooLarge)
	}
	nodes := list.(*corev1.NodeList)
	for i := from; i < until; i++ {
		nodes.Items = append(nodes.Items, corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: strconv.Itoa(i)}})
	}
	if until < p.nodes {
		nodes.Continue = strconv.Itoa(until)
	}
	return nil
}

func TestEachPage_readsSmallerPagesOfLargeObjects(t *testing.T) {
	g := NewWithT(t)
	list := func() *corev1.NodeList { return &corev1.NodeList{} }
	reader := &pages{nodes: 130, largest: 60}
	var names []string
	keep := func(page *corev1.NodeList) error {
		for i := range page.Items {
			names = append(names, page.Items[i].Name)
		}
		return nil
	}
	g.Expect(EachPage(t.Context(), reader, list, keep)).To(Succeed())
	g.Expect(names).To(HaveLen(130))
	g.Expect(reader.requests).To(HaveExactElements("100 of ", "50 of ", "50 of 50", "50 of 100"))

	reader = &pages{nodes: 130, largest: 0}
	g.Expect(EachPage(t.Context(), reader, list, keep)).To(MatchError(ErrTooLarge), "a single object")
	reader = &pages{nodes: 1 << 20, largest: 100}
	g.Expect(EachPage(t.Context(), reader, list, func(*corev1.NodeList) error { return ErrStop })).To(Succeed())
	g.Expect(reader.requests).To(HaveLen(1))
	reader = &pages{nodes: 1 << 20, largest: 1}
	g.Expect(EachPage(t.Context(), reader, list, func(*corev1.NodeList) error { return nil })).To(MatchError(ContainSubstring("more than 10000 pages")))
}

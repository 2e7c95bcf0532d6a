package workload

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	goruntime "runtime"
	"strconv"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/appthrust/capt/internal/elements"
)

type answer struct{ contentType, body string }

func (a answer) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {a.contentType}}, Body: io.NopCloser(strings.NewReader(a.body))}, nil
}

func TestLimited_limitsResponsesAndEvents(t *testing.T) {
	const inJSON = "application/json"
	event := `{"type":"ADDED","object":{"text":"a \"quoted\" } {"}}` + "\n"
	large := `{"object":{"text":"` + strings.Repeat("\n ", maxAnswer/2) + `"}}`
	wide := `{"object":{"spec":{"containers":[` + strings.Repeat("{},", 20<<10) + `{}]}}}`
	for name, tc := range map[string]struct {
		query, contentType, body string
		fails                    bool
	}{
		"a response":                 {contentType: inJSON, body: "0123456789"},
		"a large response":           {contentType: inJSON, body: strings.Repeat(" ", maxAnswer+1), fails: true},
		"an unknown response":        {body: strings.Repeat("\n\x00", 10<<10), fails: true},
		"a list":                     {contentType: inJSON, body: `{"items":[` + strings.Repeat(`{"name":"n"},`, 5_000) + `{}]}`},
		"a list of empty objects":    {contentType: inJSON, body: `{"items":[` + strings.Repeat("{},", 50_000) + `{}]}`, fails: true},
		"a list of nothing":          {contentType: inJSON, body: `{"items":[` + strings.Repeat("null,", 50_000) + `{}]}`, fails: true},
		"lists in a list":            {contentType: inJSON, body: `{"values":[` + strings.Repeat("[],", 300_000) + `{}]}`, fails: true},
		"maps in maps":               {contentType: inJSON, body: strings.Repeat(`{"":`, 40_000), fails: true},
		"a health check":             {contentType: "text/plain; charset=utf-8", body: strings.Repeat("[+]ping ok\n", 100)},
		"protobuf":                   {contentType: "application/vnd.kubernetes.protobuf", body: strings.Repeat("\n\x00", 10<<10), fails: true},
		"YAML that looks like JSON":  {contentType: "application/yaml;a=json", body: strings.Repeat("- {}\n", 10<<10), fails: true},
		"a watch of protobuf":        {query: "watch=true", contentType: "application/vnd.kubernetes.protobuf;stream=watch", body: strings.Repeat("\n\x00", 10<<10), fails: true},
		"a long watch":               {query: "watch=true", contentType: inJSON, body: strings.Repeat(event, 2*maxAnswer/len(event))},
		"a long watch of an old way": {query: "watch=1", contentType: "application/json;stream=watch", body: strings.Repeat(event, 100)},
		"a large event":              {query: "watch=true", contentType: inJSON, body: event + large, fails: true},
		"an event of empty objects":  {query: "watch=true", contentType: inJSON, body: event + wide + event, fails: true},
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

// The clients of metadata ask for protobuf, whose elements cannot be counted.
func TestLimited_acceptsOnlyJSON(t *testing.T) {
	g := NewWithT(t)
	var accepted []string
	pod := `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","uid":"u"},"spec":{"containers":[` + strings.Repeat("{},", 1_000) + `{}]}}`
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		accepted = append(accepted, r.Header.Get("Accept"))
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(pod))
	}))
	t.Cleanup(server.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	settings, err := Connector{}.LastingConfig(config(server.URL, ca))
	g.Expect(err).NotTo(HaveOccurred())
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Pod"), meta.RESTScopeNamespace)
	c, err := client.New(settings, client.Options{Mapper: mapper})
	g.Expect(err).NotTo(HaveOccurred())
	metadata := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}}
	untyped := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod"}}
	for _, obj := range []client.Object{metadata, untyped, &corev1.Pod{}} {
		g.Expect(c.Get(t.Context(), client.ObjectKey{Namespace: "n", Name: "p"}, obj)).To(Succeed())
		g.Expect(obj.GetUID()).To(BeEquivalentTo("u"))
	}
	g.Expect(accepted).To(HaveLen(3))
	g.Expect(accepted).NotTo(ContainElement(ContainSubstring("protobuf")))
	g.Expect(accepted[0]).To(ContainSubstring("as=PartialObjectMetadata"))
}

// The estimate must not be less than what the worst objects need.
func TestLimits_areThoseOfTheMemory(t *testing.T) {
	node := `{"metadata":{"name":"n","labels":{"a":"b"}},"status":{"images":[{"names":["a"],"sizeBytes":1}]}},`
	chain := strings.Repeat(`{"":`, 9_000) + "1" + strings.Repeat("}", 9_000)
	limits := `{"resources":{"limits":{"":1},"requests":{"":1}}},`
	for name, tc := range map[string]struct {
		entry string
		count int
		into  func() any
	}{
		"empty nodes":       {"{},", 3_000, func() any { return &corev1.NodeList{} }},
		"no nodes":          {"null,", 3_000, func() any { return &corev1.NodeList{} }},
		"nodes":             {node, 1_000, func() any { return &corev1.NodeList{} }},
		"pods":              {"null,", 3_000, func() any { return &corev1.PodList{} }},
		"containers":        {`{"spec":{"containers":[` + strings.Repeat("null,", 100) + `{}]}},`, 100, func() any { return &corev1.PodList{} }},
		"kinds":             {"{},", 3_000, func() any { return &metav1.APIResourceList{} }},
		"lists in values":   {`{"spec":{"values":[` + strings.Repeat("[],", 1_000) + `[]]}},`, 10, func() any { return &map[string]any{} }},
		"values":            {`{"a":"b"},`, 3_000, func() any { return &map[string]any{} }},
		"chains of maps":    {`{"spec":{"values":` + chain + `}},`, 10, func() any { return &map[string]any{} }},
		"many small maps":   {`{"spec":{"values":{` + keys(1_000, `{"":1}`) + `}}},`, 10, func() any { return &map[string]any{} }},
		"maps of 9 keys":    {`{"spec":{"values":{` + keys(300, "{"+keys(9, `""`)+"}") + `}}},`, 10, func() any { return &map[string]any{} }},
		"maps of 15 keys":   {`{"spec":{"values":{` + keys(300, "{"+keys(15, `""`)+"}") + `}}},`, 10, func() any { return &map[string]any{} }},
		"many keys":         {`{"spec":{"values":{` + keys(30_000, `""`) + `}}},`, 1, func() any { return &map[string]any{} }},
		"resources":         {`{"spec":{"containers":[` + strings.Repeat(limits, 100) + `{}]}},`, 10, func() any { return &corev1.PodList{} }},
		"labels":            {`{"metadata":{"labels":{"":""},"annotations":{"":""}}},`, 1_000, func() any { return &corev1.PodList{} }},
		"many small values": {`[` + strings.Repeat(`"a",`, 1_000) + `"b"],`, 10, func() any { return &map[string]any{} }},
	} {
		g := NewWithT(t)
		entries := strings.TrimSuffix(strings.Repeat(tc.entry, tc.count), ",")
		text := []byte(`{"items":[` + entries + `]}`)
		if name == "kinds" {
			text = []byte(`{"resources":[` + entries + `]}`)
		}
		var counter elements.Counter
		_, _ = counter.Write(text)
		into := tc.into()
		before := live()
		g.Expect(json.Unmarshal(text, into)).To(Succeed())
		grown := live() - before
		t.Logf("%s: %d KiB, estimated as %d KiB", name, grown>>10, counter.Memory()>>10)
		g.Expect(counter.Memory()).To(BeNumerically(">", grown), name)
		goruntime.KeepAlive(into)
	}
}

// keys returns entries of an object with short keys.
func keys(count int, value string) string {
	entries := make([]string, count)
	for i := range entries {
		entries[i] = fmt.Sprintf(`"%s":%s`, strconv.FormatInt(int64(i), 36), value)
	}
	return strings.Join(entries, ",")
}

// live returns how many bytes are in use.
func live() int {
	goruntime.GC()
	var stats goruntime.MemStats
	goruntime.ReadMemStats(&stats)
	return int(stats.HeapAlloc)
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

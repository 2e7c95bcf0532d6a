package connection

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// lists is an API server with ConfigMaps. It streams the lines, or lists four objects.
type lists struct {
	text  string
	lines chan string
	pages chan string
}

// ServeHTTP implements http.Handler.
func (s *lists) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	w.Header().Set("Content-Type", "application/json")
	switch {
	case r.URL.Path == "/api":
		_ = json.NewEncoder(w).Encode(metav1.APIVersions{Versions: []string{"v1"}})
	case r.URL.Path == "/api/v1":
		_ = json.NewEncoder(w).Encode(metav1.APIResourceList{GroupVersion: "v1", APIResources: []metav1.APIResource{{Name: "configmaps", Kind: "ConfigMap", Namespaced: true}}})
	case r.URL.Path != "/api/v1/configmaps":
		_, _ = w.Write([]byte("{}"))
	case query.Get("sendInitialEvents") == "true" && s.lines == nil:
		w.WriteHeader(http.StatusUnprocessableEntity)
	case query.Get("watch") != "":
		s.pages <- query.Get("labelSelector") + " " + query.Get("sendInitialEvents")
		_ = http.NewResponseController(w).Flush()
		for {
			select {
			case line := <-s.lines:
				_, _ = fmt.Fprintln(w, line)
				_ = http.NewResponseController(w).Flush()
			case <-r.Context().Done():
				return
			}
		}
	default:
		limit, _ := strconv.Atoi(query.Get("limit"))
		from, _ := strconv.Atoi(query.Get("continue"))
		next, items := "", []string{}
		for i := from; i < 4 && i < from+limit; i++ {
			items = append(items, configMap(fmt.Sprintf("n%d", i), "1", `"a":"`+s.text+`"`))
		}
		if from+limit < 4 {
			next = strconv.Itoa(from + limit)
		}
		s.pages <- fmt.Sprintf("%d of %d", limit, from)
		fmt.Fprintf(w, `{"apiVersion":"v1","kind":"ConfigMapList","metadata":{"resourceVersion":"1","continue":%q},"items":[%s]}`, next, strings.Join(items, ","))
	}
}

func configMap(name, version, annotations string) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"a","name":%q,"resourceVersion":%q,"annotations":{%s}},"data":{"a":"b"}}`, name, version, annotations)
}

func sent(kind, name, version, annotations string) string {
	return fmt.Sprintf(`{"type":%q,"object":%s}`, kind, configMap(name, version, annotations))
}

// newLists returns a connection to the server, whose cache removes annotations.
func newLists(t *testing.T, s *lists) (*fixture, *connection) {
	t.Helper()
	s.pages = make(chan string, 100)
	f := newFixture(t)
	f.cache.options.ByObject = map[client.Object]cache.ByObject{&corev1.ConfigMap{}: {Label: labels.SelectorFromSet(labels.Set{"app": "x"})}}
	f.cache.options.Transform = func(in any) (any, error) {
		in.(client.Object).SetAnnotations(nil)
		return in, nil
	}
	f.server.Config.Handler = s
	f.Expect(f.client.Create(t.Context(), f.server.kubeconfig("first"))).To(Succeed())
	opened, err := f.cache.connectFirst(t.Context(), key)
	f.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(opened.stop)
	return f, opened
}

func (s *lists) send(lines ...string) {
	for _, line := range lines {
		s.lines <- line
	}
}

// An API server sends the objects that exist as events, and a bookmark after them.
func TestObjects_readsAStreamedList(t *testing.T) {
	s := &lists{lines: make(chan string)}
	f, opened := newLists(t, s)
	go s.send(sent("ADDED", "one", "1", `"long":"text"`), sent("ADDED", "two", "2", ""), sent("BOOKMARK", "", "2", `"k8s.io/initial-events-end":"true"`))
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMapList"))
	f.Expect(opened.objects.List(t.Context(), list)).To(Succeed())
	f.Expect(list.Items).To(HaveLen(2))
	f.Expect(list.Items[0].GetAnnotations()).To(BeEmpty(), "they are removed")
	f.Expect(s.pages).To(Receive(Equal("app=x true")))

	s.send(sent("DELETED", "two", "3", ""))
	f.Eventually(func(g Gomega) {
		g.Expect(opened.objects.List(t.Context(), list)).To(Succeed())
		g.Expect(list.Items).To(HaveLen(1))
	}).Should(Succeed())
	f.Expect(list.Items[0].GetName()).To(Equal("one"))
	f.Expect(s.pages).NotTo(Receive(), "the list and the watch are one request")
}

func TestObjects_readsLargeObjectsInSmallPages(t *testing.T) {
	s := &lists{text: strings.Repeat("x", 3<<20)}
	f, opened := newLists(t, s)
	var list corev1.ConfigMapList
	f.Expect(opened.objects.List(t.Context(), &list)).To(Succeed())
	f.Expect(list.Items).To(HaveLen(4))
	f.Expect(list.Items[0].Annotations).To(BeEmpty())
	for _, page := range []string{"100 of 0", "50 of 0", "25 of 0", "12 of 0", "6 of 0", "3 of 0", "1 of 0", "1 of 1", "1 of 2", "1 of 3", "app=x "} {
		f.Eventually(s.pages).Should(Receive(Equal(page)))
	}
}

// A controller waits for a kind with a context that does not end with the connection.
func TestObjects_endsWaitsWithTheConnection(t *testing.T) {
	s := &lists{lines: make(chan string)}
	f, opened := newLists(t, s)
	lasting := context.WithoutCancel(t.Context())
	i, err := opened.objects.GetInformer(lasting, &corev1.ConfigMap{})
	f.Expect(err).NotTo(HaveOccurred())
	_, err = i.AddEventHandler(toolscache.ResourceEventHandlerFuncs{})
	f.Expect(err).NotTo(HaveOccurred())
	synced := make(chan bool, 1)
	go func() { synced <- opened.objects.WaitForCacheSync(lasting) }()
	f.Eventually(s.pages).Should(Receive(Equal("app=x true")))
	f.Expect(synced).NotTo(Receive(), "the list has not ended")
	opened.stop()
	f.Eventually(synced).Should(Receive(BeFalse()))

	i, err = opened.objects.GetInformer(lasting, &corev1.Node{})
	f.Expect(err).NotTo(HaveOccurred(), "a controller would ask again and again")
	_, err = i.AddEventHandler(toolscache.ResourceEventHandlerFuncs{})
	f.Expect(err).NotTo(HaveOccurred())
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	f.Expect(opened.cached.List(ctx, &corev1.ConfigMapList{})).NotTo(Succeed(), "it is not known to be empty")
}

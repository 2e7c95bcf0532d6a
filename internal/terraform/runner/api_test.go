package runner

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/appthrust/capt/internal/terraform/record"
)

// api is a fake of the part of the API server that a runner uses. The conformance
// tests use the real one; this one can be made to fail.
type api struct {
	mu      sync.Mutex
	objects map[string]map[string]any
	version int
	// intercept, if set, may answer a request with a status.
	intercept func(method, path string, body []byte) *metav1.Status
	// requests lists the methods and paths of the requests.
	requests []string
}

func newAPI(t *testing.T) (*api, *Runner) {
	t.Helper()
	a := &api{objects: map[string]map[string]any{}}
	server := httptest.NewServer(a)
	t.Cleanup(server.Close)
	kube, err := newKube(&rest.Config{Host: server.URL})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return a, newRunner(Config{Namespace: "n", RunID: "hello-r2"}, kube)
}

func status(code int32, reason metav1.StatusReason) *metav1.Status {
	return &metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure,
		Code: code, Reason: reason, Message: "rejected: " + string(reason),
	}
}

var (
	unavailable    = status(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable)
	entityTooLarge = status(http.StatusRequestEntityTooLarge, metav1.StatusReasonRequestEntityTooLarge)
	denied         = status(http.StatusForbidden, metav1.StatusReasonForbidden)
)

// refuse answers requests with a status, until intercept is reset: those of a method, or all
// if it is empty, whose path ends with a suffix.
func (a *api) refuse(method, suffix string, answer *metav1.Status) {
	a.intercept = func(m, path string, _ []byte) *metav1.Status {
		if (method == "" || m == method) && strings.HasSuffix(path, suffix) {
			return answer
		}
		return nil
	}
}

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	body, _ := io.ReadAll(r.Body)
	a.requests = append(a.requests, r.Method+" "+r.URL.Path)
	if a.intercept != nil {
		if status := a.intercept(r.Method, r.URL.Path, body); status != nil {
			respond(w, int(status.Code), status)
			return
		}
	}
	var sent map[string]any
	if len(body) > 0 && json.Unmarshal(body, &sent) != nil {
		respond(w, http.StatusBadRequest, status(http.StatusBadRequest, metav1.StatusReasonBadRequest))
		return
	}
	code, object := a.serve(r.Method, r.URL.Path, sent)
	respond(w, code, object)
}

func (a *api) serve(method, path string, sent map[string]any) (int, any) {
	if method == http.MethodPost {
		path += "/" + metadata(sent)["name"].(string)
	}
	found, exists := a.objects[path]
	sentVersion, _ := metadata(sent)["resourceVersion"].(string)
	sentUID, _ := metadata(sent)["uid"].(string)
	switch {
	case method == http.MethodPost && exists:
		return http.StatusConflict, status(http.StatusConflict, metav1.StatusReasonAlreadyExists)
	case method != http.MethodPost && !exists:
		return http.StatusNotFound, status(http.StatusNotFound, metav1.StatusReasonNotFound)
	case method == http.MethodGet:
		return http.StatusOK, found
	case exists && sentVersion != "" && sentVersion != metadata(found)["resourceVersion"]:
		return http.StatusConflict, status(http.StatusConflict, metav1.StatusReasonConflict)
	case exists && sentUID != "" && sentUID != metadata(found)["uid"]:
		return http.StatusUnprocessableEntity, status(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid)
	case method == http.MethodPatch:
		merge(found, sent)
	default:
		found = sent
	}
	a.put(path, found)
	return http.StatusOK, found
}

func (a *api) put(path string, object map[string]any) {
	a.version++
	metadata(object)["resourceVersion"] = strconv.Itoa(a.version)
	a.objects[path] = object
}

// store stores an object without a request.
func (a *api) store(g Gomega, path string, object metav1.Object) {
	text, err := json.Marshal(object)
	g.Expect(err).NotTo(HaveOccurred())
	var fields map[string]any
	g.Expect(json.Unmarshal(text, &fields)).To(Succeed())
	a.mu.Lock()
	defer a.mu.Unlock()
	a.put(path+"/"+object.GetName(), fields)
}

func (a *api) secret(g Gomega, name string) *corev1.Secret {
	a.mu.Lock()
	defer a.mu.Unlock()
	text, err := json.Marshal(a.objects[secretsPath+"/"+name])
	g.Expect(err).NotTo(HaveOccurred())
	secret := &corev1.Secret{}
	g.Expect(json.Unmarshal(text, secret)).To(Succeed())
	return secret
}

const (
	secretsPath = "/api/v1/namespaces/n/secrets"
	leasesPath  = "/apis/coordination.k8s.io/v1/namespaces/n/leases"
)

// count returns the number of requests with a method.
func (a *api) count(method string) (n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, request := range a.requests {
		if strings.HasPrefix(request, method+" ") {
			n++
		}
	}
	return n
}

func metadata(object map[string]any) map[string]any {
	fields, _ := object["metadata"].(map[string]any)
	if fields == nil && object != nil {
		fields = map[string]any{}
		object["metadata"] = fields
	}
	return fields
}

func merge(target, change map[string]any) {
	for key, value := range change {
		inner, isMap := value.(map[string]any)
		into, hasMap := target[key].(map[string]any)
		switch {
		case value == nil:
			delete(target, key)
		case isMap && hasMap:
			merge(into, inner)
		default:
			target[key] = value
		}
	}
}

func respond(w http.ResponseWriter, code int, object any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(object)
}

// storeRun stores the Secret of a run.
func (a *api) storeRun(g Gomega, runID string) {
	secret, err := record.NewRun(request(), metav1.ObjectMeta{Namespace: "n"})
	g.Expect(err).NotTo(HaveOccurred())
	secret.Name = record.SecretName(runID)
	a.store(g, secretsPath, secret)
}

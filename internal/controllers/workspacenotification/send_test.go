package workspacenotification

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/kubernetes/dial"
)

// secretPath must not appear in any error.
const secretPath = "/services/T0/B0/hunter2"

// local allows the server of a test.
func local() *dial.Policy {
	return &dial.Policy{Allowed: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
}

// received is a request to a receiver.
type received struct {
	path   string
	header http.Header
	body   []byte
}

// receiver is a real HTTPS server that accepts messages.
type receiver struct {
	*httptest.Server
	mu       sync.Mutex
	requests []received
	// status is the status of the answers, 204 by default, and retryAfter their header.
	status     int
	retryAfter string
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{status: http.StatusNoContent}
	r.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		body, _ := io.ReadAll(request.Body)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.requests = append(r.requests, received{request.URL.Path, request.Header, body})
		if r.status == http.StatusFound {
			w.Header().Set("Location", "https://169.254.169.254/latest")
		}
		if r.retryAfter != "" {
			w.Header().Set("Retry-After", r.retryAfter)
		}
		w.WriteHeader(r.status)
		_, _ = io.WriteString(w, "hunter2 is the answer")
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) answer(status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status = status
}

func (r *receiver) all() []received {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]received(nil), r.requests...)
}

// data returns the Secret of the destination.
func (r *receiver) data() map[string][]byte {
	return map[string][]byte{
		"address": []byte(r.URL + secretPath + "\n"),
		"ca.crt":  pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: r.Certificate().Raw}),
	}
}

func destinationOf(g Gomega, data map[string][]byte) *destination {
	d, problem := readDestination(&corev1.Secret{Data: data})
	g.Expect(problem).To(BeEmpty())
	return d
}

func TestSend_signsMessages(t *testing.T) {
	key := []byte("0123456789abcdef0123")
	for name, stored := range map[string]string{"raw": string(key), "of Standard Webhooks": "whsec_" + base64.StdEncoding.EncodeToString(key)} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			server := newReceiver(t)
			data := server.data()
			data["token"], data["signingKey"] = []byte("abc\n"), []byte(stored)
			r := &Reconciler{Network: local(), Now: func() time.Time { return time.Unix(1700000000, 0) }}

			g.Expect(r.send(t.Context(), destinationOf(g, data), infrav1.NotificationGeneric, message{ID: "m1"})).To(Succeed())

			g.Expect(server.all()).To(HaveLen(1))
			got := server.all()[0]
			g.Expect(got.path).To(Equal(secretPath))
			g.Expect(got.header.Get("Authorization")).To(Equal("Bearer abc"))
			g.Expect(got.header.Get("Content-Type")).To(Equal("application/json"))
			g.Expect(got.header.Get("Webhook-Id")).To(Equal("m1"))
			g.Expect(got.header.Get("Webhook-Timestamp")).To(Equal("1700000000"))
			mac := hmac.New(sha256.New, key)
			mac.Write(append([]byte("m1.1700000000."), got.body...))
			g.Expect(got.header.Get("Webhook-Signature")).To(Equal("v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))))
		})
	}
}

func TestSend_reportsFailuresWithoutTheAddress(t *testing.T) {
	closed := httptest.NewTLSServer(http.NotFoundHandler())
	closed.Close()
	tests := []struct {
		name    string
		prepare func(server *receiver, data map[string][]byte)
		network *dial.Policy
		want    string
	}{
		{name: "an error of the server", prepare: func(s *receiver, _ map[string][]byte) { s.answer(503) }, want: "the destination answered HTTP 503"},
		{name: "a redirect", prepare: func(s *receiver, _ map[string][]byte) { s.answer(http.StatusFound) }, want: "redirects (HTTP 302), which is not followed"},
		{name: "a message that is refused", prepare: func(s *receiver, _ map[string][]byte) { s.answer(400) }, want: "refused the message with HTTP 400: check spec.format"},
		{name: "an unknown certificate", prepare: func(_ *receiver, data map[string][]byte) { delete(data, "ca.crt") }, want: "is not trusted for its host: set ca.crt"},
		{name: "a denied address", network: &dial.Policy{}, want: "the manager does not connect to this address: an administrator allows it with"},
		{name: "a denied host", network: &dial.Policy{Hosts: []string{"hooks.slack.com"}}, want: "the manager does not connect to this address"},
		{name: "no server", prepare: func(_ *receiver, data map[string][]byte) { data["address"] = []byte(closed.URL + secretPath) }, want: "the connection to the destination failed, or it did not answer within 10s"},
		{name: "an unknown host", prepare: func(_ *receiver, data map[string][]byte) {
			data["address"] = []byte("https://hunter2.invalid/" + secretPath)
		}, want: "cannot be resolved"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			server := newReceiver(t)
			data := server.data()
			if tt.prepare != nil {
				tt.prepare(server, data)
			}
			if tt.network == nil {
				tt.network = local()
			}

			err := (&Reconciler{Network: tt.network, Now: time.Now}).send(t.Context(), destinationOf(g, data), infrav1.NotificationSlack, message{ID: "m1"})

			g.Expect(err).To(MatchError(ContainSubstring(tt.want)))
			g.Expect(err.Error()).NotTo(Or(ContainSubstring("hunter2"), ContainSubstring("127.0.0.1")))
		})
	}
}

func TestReadDestination_saysWhatToWriteInstead(t *testing.T) {
	address := "https://hooks.example.com/hunter2"
	tests := []struct {
		name string
		data map[string]string
		want string
	}{
		{"no address", map[string]string{"url": address}, "the key address is missing"},
		{"plain HTTP", map[string]string{"address": "http://hooks.example.com/hunter2"}, "starts with https://"},
		{"no URL", map[string]string{"address": "hunter2\x01%%"}, "starts with https://"},
		{"a token with two lines", map[string]string{"address": address, "token": "hunter2\r\nHost: x"}, "one line"},
		{"a short key", map[string]string{"address": address, "signingKey": "hunter2"}, "at least 16 random bytes"},
		{"a key that is not base64", map[string]string{"address": address, "signingKey": "whsec_hunter2!"}, "not base64"},
		{"no certificate", map[string]string{"address": address, "ca.crt": "hunter2"}, "no certificate in PEM"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			data := map[string][]byte{}
			for key, value := range tt.data {
				data[key] = []byte(value)
			}
			_, problem := readDestination(&corev1.Secret{Data: data})
			g.Expect(problem).To(ContainSubstring(tt.want))
			g.Expect(strings.Contains(problem, "hunter2")).To(BeFalse())
		})
	}
}

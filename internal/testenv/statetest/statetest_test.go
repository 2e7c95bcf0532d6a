package statetest

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"

	. "github.com/onsi/gomega"
)

func TestGate_refusesExpiredCredentials(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	gate := &Gate{Handler: NewServer()}
	server := httptest.NewServer(gate)
	defer server.Close()
	get := func() (int, string) {
		response, err := http.Get(server.URL + "/key")
		g.Expect(err).NotTo(HaveOccurred())
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		g.Expect(err).NotTo(HaveOccurred())
		return response.StatusCode, string(body)
	}
	renewOne, renewOther := gate.Expire(), gate.Expire()
	code, body := get()
	g.Expect(code).To(Equal(http.StatusForbidden))
	g.Expect(body).To(ContainSubstring("ExpiredToken"))
	renewOne()
	g.Expect(gate.Expired()).To(BeTrue())
	renewOther()
	code, _ = get()
	g.Expect(code).To(Equal(http.StatusNotFound))
}

func TestServer_setsAFreeLock(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	server := NewServer()
	g.Expect(server.SetLock("key", []byte("a"))).To(BeTrue())
	g.Expect(server.SetLock("key", []byte("b"))).To(BeFalse())
	g.Expect(server.Lock("key")).To(Equal([]byte("a")))
}

func TestS3_storesObjects(t *testing.T) {
	t.Parallel()
	address := os.Getenv("CAPT_TEST_S3")
	if address == "" {
		t.Skip("CAPT_TEST_S3 has no address of an S3 server: use `make test-state`")
	}
	g, ctx := NewWithT(t), t.Context()
	bucket := &S3{Address: address, Bucket: "statetest"}
	g.Expect(bucket.CreateBucket(ctx)).To(Succeed())
	g.Expect(bucket.Get(ctx, "a/key")).To(BeNil())
	g.Expect(bucket.Create(ctx, "a/key", []byte("1"))).To(Succeed())
	g.Expect(errors.Is(bucket.Create(ctx, "a/key", []byte("2")), ErrExists)).To(BeTrue())
	g.Expect(bucket.Put(ctx, "a/key", []byte("3"))).To(Succeed())
	g.Expect(bucket.Get(ctx, "a/key")).To(Equal([]byte("3")))
	g.Expect(bucket.Delete(ctx, "a/key")).To(Succeed())
	g.Expect(bucket.Get(ctx, "a/key")).To(BeNil())
}

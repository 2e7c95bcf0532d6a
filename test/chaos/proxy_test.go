package main

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

func TestProxy(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	var executed atomic.Int32
	var user, token, body atomic.Value
	started := make(chan struct{}, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		executed.Add(1)
		user.Store(r.Header.Get("Impersonate-User"))
		token.Store(r.Header.Get("Authorization"))
		text, _ := io.ReadAll(r.Body)
		body.Store(string(text))
		if r.URL.Path == "/watch" {
			w.WriteHeader(http.StatusOK)
			w.(http.Flusher).Flush()
			started <- struct{}{}
			<-r.Context().Done()
		}
	}))
	t.Cleanup(server.Close)
	p, err := newProxy(filepath.Join(t.TempDir(), "kubeconfig"), &rest.Config{Host: server.URL, Impersonate: rest.ImpersonationConfig{UserName: "manager"}})
	g.Expect(err).NotTo(HaveOccurred())
	config, err := clientcmd.BuildConfigFromFlags("", p.kubeconfig)
	g.Expect(err).NotTo(HaveOccurred())

	request := func(method, path, bearer string) (int, error) {
		r, err := http.NewRequestWithContext(t.Context(), method, config.Host+path, strings.NewReader("content"))
		g.Expect(err).NotTo(HaveOccurred())
		if bearer != "" {
			r.Header.Set("Authorization", bearer)
		}
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			return 0, err
		}
		_, err = io.ReadAll(response.Body)
		return response.StatusCode, errors.Join(err, response.Body.Close())
	}
	count := func(f fault, method string) (status map[int]int, failed, sent int) {
		defer p.begin(f)()
		executed.Store(0)
		status = map[int]int{}
		for range 2 * proxyShare {
			code, err := request(method, "/", "")
			if err != nil {
				failed++
			} else {
				status[code]++
			}
		}
		return status, failed, int(executed.Load())
	}

	g.Expect(request(http.MethodPost, "/", "")).To(Equal(http.StatusOK))
	g.Expect([]any{user.Load(), token.Load(), body.Load()}).To(Equal([]any{"manager", "", "content"}), "the manager has its account")
	g.Expect(request(http.MethodPost, "/", "Bearer x")).To(Equal(http.StatusOK))
	g.Expect([]any{user.Load(), token.Load()}).To(Equal([]any{"", "Bearer x"}), "a run has its own")

	status, failed, sent := count(loseResponses, http.MethodPost)
	g.Expect([]int{status[http.StatusOK], failed, sent}).To(Equal([]int{6, 2, 8}), "all are executed")
	status, failed, sent = count(repeatRequests, http.MethodPost)
	g.Expect([]int{status[http.StatusOK], failed, sent}).To(Equal([]int{8, 0, 10}), "two are executed twice")
	g.Expect(body.Load()).To(Equal("content"))
	status, failed, sent = count(failRequests, http.MethodGet)
	g.Expect([]int{status[http.StatusOK], status[http.StatusInternalServerError], failed, sent}).To(Equal([]int{6, 2, 0, 6}), "two are not executed")
	_, failed, sent = count(partitionManager, http.MethodGet)
	g.Expect([]int{failed, sent}).To(Equal([]int{8, 0}), "none is executed")

	ended := make(chan error, 1)
	go func() { _, err := request(http.MethodGet, "/watch", ""); ended <- err }()
	g.Eventually(started, testTimeout).Should(Receive())
	end := p.begin(partitionManager)
	g.Eventually(ended, testTimeout).Should(Receive(HaveOccurred()), "a watch ends")
	end()
	g.Expect(request(http.MethodGet, "/", "")).To(Equal(http.StatusOK))
}

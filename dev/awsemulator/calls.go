package main

import (
	"bytes"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
)

// calls records the API calls, in the spelling of IAM's actions, such as
// ec2:DescribeVpcs. So a test can compare them with a policy.
type calls struct {
	// eks returns the action of a request of EKS.
	eks func(*http.Request) string

	mutex sync.Mutex
	seen  map[string]bool
}

// record returns a handler that records each call.
func (c *calls) record(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if action := c.actionOf(r); action != "" {
			c.mutex.Lock()
			c.seen[action] = true
			c.mutex.Unlock()
		}
		next.ServeHTTP(w, r)
	})
}

// list returns the actions, sorted.
func (c *calls) list() []string {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return slices.Sorted(maps.Keys(c.seen))
}

// prefixes are the services whose actions have another prefix than the scope of their
// signature.
var prefixes = map[string]string{"tagging": "tag", "monitoring": "cloudwatch"}

// testKey is the access key with which tests ask about the account themselves.
const testKey = "test"

// actionOf returns the action of a call, or an empty string for calls of moto's and the
// emulator's own API, and for those of tests. It keeps the body readable.
func (c *calls) actionOf(r *http.Request) string {
	service := scopeOf(r).service
	if service == "" || strings.Contains(r.Header.Get("Authorization"), "Credential="+testKey+"/") {
		return ""
	}
	name := ""
	switch target := r.Header.Get("X-Amz-Target"); {
	case target != "":
		name = target[strings.LastIndex(target, ".")+1:]
	case service == "eks":
		name = c.eks(r)
	case service == "s3":
		name = s3Action(r.Method, r.URL.Path)
	default:
		name = formAction(r)
	}
	if name == "" {
		name = r.Method + " " + r.URL.Path
	}
	if prefix, other := prefixes[service]; other {
		service = prefix
	}
	return service + ":" + name
}

// formAction returns the action in the query or the form of a request.
func formAction(r *http.Request) string {
	if action := r.URL.Query().Get("Action"); action != "" || r.Body == nil {
		return action
	}
	text, err := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(text))
	if err != nil {
		return ""
	}
	form, err := url.ParseQuery(string(text))
	if err != nil {
		return ""
	}
	return form.Get("Action")
}

// s3Action returns the action of a request of S3, whose path is the bucket and the key.
func s3Action(method, path string) string {
	_, key, _ := strings.Cut(strings.Trim(path, "/"), "/")
	switch {
	case key == "" && (method == http.MethodGet || method == http.MethodHead):
		return "ListBucket"
	case key == "":
		return ""
	case method == http.MethodHead:
		method = http.MethodGet
	}
	return map[string]string{http.MethodGet: "GetObject", http.MethodPut: "PutObject", http.MethodDelete: "DeleteObject"}[method]
}

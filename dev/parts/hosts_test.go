package main

import (
	"errors"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A host is tried again as soon as the user has changed how it is reached.
func TestHosts_rememberTheRoute(t *testing.T) {
	file := filepath.Join(t.TempDir(), "unreachable.json")
	address := &url.URL{Scheme: "https", Host: "example.com", Path: "/tool"}
	via := func(proxy string) func(*http.Request) (*url.URL, error) {
		return func(*http.Request) (*url.URL, error) {
			if proxy == "" {
				return nil, nil
			}
			return url.Parse(proxy)
		}
	}
	known := func(proxy string) bool { return newHosts(file, via(proxy)).known(address) != nil }
	t.Setenv("SSL_CERT_FILE", "")
	_ = newHosts(file, via("")).failed(address, errors.New("no route"))
	if !known("") || known("http://user:secret@proxy:3128") {
		t.Errorf("without proxy: %v, with one: %v", known(""), known("http://user:secret@proxy:3128"))
	}
	_ = newHosts(file, via("http://user:secret@proxy:3128")).failed(address, errors.New("unknown authority"))
	if !known("") || !known("http://user:secret@proxy:3128") {
		t.Error("one of two routes is forgotten")
	}
	if text, err := os.ReadFile(file); err != nil || strings.Contains(string(text), "secret") {
		t.Errorf("%v: %s", err, text)
	}
	t.Setenv("SSL_CERT_FILE", "/etc/proxy.pem")
	if known("http://user:secret@proxy:3128") {
		t.Error("not tried again with other certificates")
	}
}

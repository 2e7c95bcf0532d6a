package workload

import (
	"crypto/sha256"
	"errors"
	"net/http"
	"sync/atomic"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Renew makes the requests of a configuration of LastingConfig or OwnConfig use the token
// of another kubeconfig. Open watches continue. It changes nothing and reports false if
// the kubeconfigs differ in more than the token.
func Renew(config *rest.Config, kubeconfig []byte) bool {
	transport, ok := config.Transport.(limited)
	if !ok {
		return false
	}
	current, ok := transport.next.(*renewable)
	if !ok {
		return false
	}
	token, rest, err := splitToken(kubeconfig)
	if err != nil || rest != current.rest {
		return false
	}
	current.token.Store(&token)
	return true
}

// splitToken returns the token of a kubeconfig, and a digest of everything else.
func splitToken(kubeconfig []byte) (token string, rest [sha256.Size]byte, err error) {
	config, err := parse(kubeconfig)
	if err != nil {
		return "", rest, err
	}
	user := config.AuthInfos[name]
	token, user.Token = user.Token, ""
	text, err := clientcmd.Write(*config)
	if err != nil {
		return "", rest, errors.New("the kubeconfig cannot be encoded")
	}
	return token, sha256.Sum256(text), nil
}

// setLasting makes a configuration use a transport for connections that stay open, whose
// token can be renewed.
func (c Connector) setLasting(config *rest.Config, kubeconfig []byte) error {
	token, rest, err := splitToken(kubeconfig)
	if err != nil {
		return err
	}
	if err := c.setTransport(config, lasting()); err != nil {
		return err
	}
	transport, ok := config.Transport.(limited)
	if !ok {
		return errors.New("the transport has no limit")
	}
	with := &renewable{next: transport.next, rest: rest}
	with.token.Store(&token)
	transport.next = with
	config.Transport, config.BearerToken = transport, ""
	return nil
}

// renewable adds the current token to requests.
type renewable struct {
	next  http.RoundTripper
	token atomic.Pointer[string]
	// rest is the digest of the kubeconfig without the token.
	rest [sha256.Size]byte
}

// RoundTrip implements http.RoundTripper.
func (r *renewable) RoundTrip(request *http.Request) (*http.Response, error) {
	if token := *r.token.Load(); token != "" && request.Header.Get("Authorization") == "" {
		request = utilnet.CloneRequest(request)
		request.Header.Set("Authorization", "Bearer "+token)
	}
	return r.next.RoundTrip(request)
}

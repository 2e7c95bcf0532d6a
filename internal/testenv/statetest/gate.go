package statetest

import (
	"net/http"
	"sync/atomic"
)

// expired is how S3 reports expired credentials.
const expired = `<?xml version="1.0" encoding="UTF-8"?>
<Error><Code>ExpiredToken</Code><Message>The provided token has expired.</Message></Error>
`

// Gate is a handler that refuses all requests while their credentials are expired.
type Gate struct {
	http.Handler
	expirations atomic.Int32
}

// Expire makes the gate refuse requests until the returned function is called.
func (g *Gate) Expire() (renew func()) {
	g.expirations.Add(1)
	return func() { g.expirations.Add(-1) }
}

// Expired reports whether the gate refuses requests.
func (g *Gate) Expired() bool { return g.expirations.Load() > 0 }

// ServeHTTP implements http.Handler.
func (g *Gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if g.Expired() {
		w.Header().Set("Content-Type", "application/xml")
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write([]byte(expired))
		return
	}
	g.Handler.ServeHTTP(w, r)
}

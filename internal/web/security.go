package web

import (
	"context"
	"mime"
	"net/http"
	"strings"
	"time"
)

// contentSecurityPolicy allows the files of the page and requests to this server,
// and nothing else.
const contentSecurityPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"font-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// setSecurityHeaders sets the headers that every response has.
func setSecurityHeaders(h http.Header) {
	h.Set("Content-Security-Policy", contentSecurityPolicy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
}

// isAPI reports whether a request is for data instead of the page.
func isAPI(r *http.Request) bool { return strings.HasPrefix(r.URL.Path, apiPrefix) }

// secure refuses requests that do not come from the page itself: requests to another
// host name (DNS rebinding), from another origin, and without a session.
func (s *Server) secure(next http.Handler) http.Handler {
	protected := http.NewCrossOriginProtection().Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		setSecurityHeaders(w.Header())
		if r.ContentLength != 0 {
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(s.bodyTimeout))
		}
		if !isAPI(r) || r.URL.Path == sessionPath {
			// These need no session, so a client without one could keep them open.
			_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(pageTimeout))
		}
		if s.local == nil {
			w.Header().Set("Strict-Transport-Security", "max-age=31536000")
		}
		if !s.access.host(r) {
			fail(w, http.StatusForbidden, Problem{Error: "This server accepts requests only at its own address."})
			return
		}
		if origin := r.Header.Get("Origin"); origin != "" && !s.access.origin(r, origin) {
			fail(w, http.StatusForbidden, Problem{Error: "Requests from other origins are refused."})
			return
		}
		if !isAPI(r) {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Cache-Control", "no-store")
		if r.Method == http.MethodPost {
			if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
				fail(w, http.StatusUnsupportedMediaType, Problem{Error: "The content type must be application/json."})
				return
			}
			r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		}
		if r.URL.Path == sessionPath {
			protected.ServeHTTP(w, r)
			return
		}
		granted := s.access.identify(r)
		if granted == nil {
			fail(w, http.StatusUnauthorized, Problem{Error: "The session has ended."})
			return
		}
		defer granted.done()
		// Streams end with the session.
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		defer context.AfterFunc(granted.ctx, cancel)() //nolint:contextcheck // It is that of the session.
		protected.ServeHTTP(w, withIdentity(r.WithContext(ctx), granted.user))
	})
}

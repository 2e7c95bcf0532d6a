package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"strings"
)

// values is a JSON object of the API of EKS.
type values = map[string]any

// newServer returns a handler that handles calls of EKS and forwards all others to
// moto. The scope of the signature contains the service.
func newServer(moto string, eks *eks, log io.Writer) http.Handler {
	others := newSpotRequests(nameImages(nameSpotRole(fillGaps(moto, httputil.NewSingleHostReverseProxy(mustParse(moto))))))
	routes, action := eks.handler()
	seen := &calls{eks: action, seen: map[string]bool{}}
	return seen.record(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/emulator/objects":
			reply(w, http.StatusOK, eks.remaining())
		case r.URL.Path == "/emulator/calls":
			reply(w, http.StatusOK, seen.list())
		case scopeOf(r).service == "eks":
			fmt.Fprintln(log, "eks:", r.Method, r.URL.RequestURI())
			routes.ServeHTTP(w, r)
		default:
			others.ServeHTTP(w, r)
		}
	}))
}

// scope is the scope of a signature.
type scope struct{ region, service string }

// scopeOf reads the signature's scope, KEY/DAY/REGION/SERVICE/aws4_request. The
// signature itself is not checked.
func scopeOf(r *http.Request) scope {
	_, rest, _ := strings.Cut(r.Header.Get("Authorization"), "Credential=")
	credential, _, _ := strings.Cut(rest, ",")
	parts := strings.Split(credential, "/")
	if len(parts) != 5 {
		return scope{}
	}
	return scope{region: parts[2], service: parts[3]}
}

// refusal is an error of the API of EKS.
type refusal struct {
	status  int
	code    string
	message string
}

// Error implements error.
func (r *refusal) Error() string { return r.code + ": " + r.message }

func notFound(format string, args ...any) error {
	return &refusal{http.StatusNotFound, "ResourceNotFoundException", fmt.Sprintf(format, args...)}
}

func inUse(format string, args ...any) error {
	return &refusal{http.StatusConflict, "ResourceInUseException", fmt.Sprintf(format, args...)}
}

func invalid(format string, args ...any) error {
	return &refusal{http.StatusBadRequest, "InvalidParameterException", fmt.Sprintf(format, args...)}
}

// call is one request.
type call struct {
	*http.Request
	region string
	body   values
}

// text returns a string of the body, or "".
func (c *call) text(name string) string { return text(c.body, name) }

func text(of values, name string) string {
	value, _ := of[name].(string)
	return value
}

func child(of values, name string) values {
	value, _ := of[name].(values)
	return value
}

// handle returns a handler that calls a function with the parsed request. Calls are
// serialized.
func (e *eks) handle(respond func(*call) (values, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c := &call{Request: r, region: scopeOf(r).region, body: values{}}
		if err := json.NewDecoder(r.Body).Decode(&c.body); err != nil && !errors.Is(err, io.EOF) {
			fail(w, invalid("the body is not a JSON object: %v", err))
			return
		}
		e.mutex.Lock()
		defer e.mutex.Unlock()
		out, err := respond(c)
		if err != nil {
			fail(w, err)
			return
		}
		reply(w, http.StatusOK, out)
	}
}

func fail(w http.ResponseWriter, err error) {
	refused, known := errors.AsType[*refusal](err)
	if !known {
		refused = &refusal{http.StatusInternalServerError, "ServerException", err.Error()}
	}
	w.Header().Set("X-Amzn-Errortype", refused.code)
	reply(w, refused.status, values{"message": refused.message})
}

func reply(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

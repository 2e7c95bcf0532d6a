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

// object is a thing of EKS as its API writes it.
type object = map[string]any

// newServer answers calls of EKS itself and hands all others to moto. Which
// service is meant stands in the signature.
func newServer(moto string, eks *eks, log io.Writer) http.Handler {
	others := nameSpotRole(fillGaps(moto, httputil.NewSingleHostReverseProxy(mustParse(moto))))
	calls := eks.routes()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/emulator/left":
			reply(w, http.StatusOK, eks.left())
		case scopeOf(r).service == "eks":
			fmt.Fprintln(log, "eks:", r.Method, r.URL.RequestURI())
			calls.ServeHTTP(w, r)
		default:
			others.ServeHTTP(w, r)
		}
	})
}

// scope is what a signature is for.
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

// refusal is an error that the API of EKS has.
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
	body   object
}

// text returns a string of the body, or nothing.
func (c *call) text(name string) string { return text(c.body, name) }

func text(of object, name string) string {
	value, _ := of[name].(string)
	return value
}

func child(of object, name string) object {
	value, _ := of[name].(object)
	return value
}

// handle makes a handler of a function that answers or refuses. One call is
// answered at a time.
func (e *eks) handle(answer func(*call) (object, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c := &call{Request: r, region: scopeOf(r).region, body: object{}}
		if err := json.NewDecoder(r.Body).Decode(&c.body); err != nil && !errors.Is(err, io.EOF) {
			fail(w, invalid("the body is no JSON object: %v", err))
			return
		}
		e.mutex.Lock()
		defer e.mutex.Unlock()
		out, err := answer(c)
		if err != nil {
			fail(w, err)
			return
		}
		reply(w, http.StatusOK, out)
	}
}

func fail(w http.ResponseWriter, err error) {
	no, known := errors.AsType[*refusal](err)
	if !known {
		no = &refusal{http.StatusInternalServerError, "ServerException", err.Error()}
	}
	w.Header().Set("X-Amzn-Errortype", no.code)
	reply(w, no.status, object{"message": no.message})
}

func reply(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

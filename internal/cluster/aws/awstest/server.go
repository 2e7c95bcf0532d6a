// Package awstest is a fake of AWS for tests: an HTTP server that implements a few
// actions of STS, IAM, EC2 and EKS in AWS's own protocols, and a fake of EKS's
// authenticator. It verifies signatures as AWS does. Its objects are in memory, and
// only those exist that a test or a request has created.
package awstest

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Region is the region of the settings that Env returns.
const Region = "eu-west-1"

// eksService is the service whose protocol is JSON over paths.
const eksService = "eks"

// Server is a fake of one AWS account. It is safe for concurrent use.
type Server struct {
	// URL is the address of every service.
	URL string
	// Account is the id of the account. Each server has a different one.
	Account string

	http *httptest.Server
	user Keys

	mu       sync.Mutex
	now      func() time.Time
	keys     map[string]Keys
	calls    map[string]int
	agents   map[string]bool
	denied   map[string]bool
	failures map[string][]*failure
	before   func(action string)

	roles           map[string]bool
	assumable       map[string]bool
	verifyToken     func(token string) bool
	sessionDuration time.Duration

	clusters map[string]string
	vpcs     []VPC
	subnets  []Subnet
	tables   []RouteTable
	pageSize int
}

// New starts a server, and stops it when the test ends.
func New(t testing.TB) *Server {
	t.Helper()
	s := Start()
	t.Cleanup(s.Close)
	return s
}

// Start starts a server. The caller must close it.
func Start() *Server {
	s := &Server{
		Account:   digits(12),
		now:       time.Now,
		keys:      map[string]Keys{},
		calls:     map[string]int{},
		agents:    map[string]bool{},
		denied:    map[string]bool{},
		failures:  map[string][]*failure{},
		roles:     map[string]bool{},
		assumable: map[string]bool{},
		clusters:  map[string]string{},
	}
	s.user = s.issue("arn:aws:iam::"+s.Account+":user/capt", "AKIA", 0)
	s.http = httptest.NewServer(http.HandlerFunc(s.serve))
	s.URL = s.http.URL
	return s
}

// Close stops the server.
func (s *Server) Close() { s.http.Close() }

// Env returns the environment variables that a provider config would pass to a run:
// the address of the server and the keys of a user.
func (s *Server) Env() map[string]string {
	return map[string]string{
		"AWS_ENDPOINT_URL":      s.URL,
		"AWS_ACCESS_KEY_ID":     s.user.AccessKeyID,
		"AWS_SECRET_ACCESS_KEY": s.user.SecretAccessKey,
		"AWS_REGION":            Region,
	}
}

// SetClock replaces the server's clock.
func (s *Server) SetClock(now func() time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = now
}

// Calls returns how many requests with valid keys an action, such as GetRole, has
// received.
func (s *Server) Calls(action string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[action]
}

// UserAgents returns the user agents of all requests.
func (s *Server) UserAgents() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.agents))
}

// Deny removes the permission for an action.
func (s *Server) Deny(action string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.denied[action] = true
}

// Fail makes the next calls of an action fail with an error of AWS.
func (s *Server) Fail(action string, times, status int, code, message string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for range times {
		s.failures[action] = append(s.failures[action], &failure{status, code, message})
	}
}

// Before makes every accepted call wait for a function.
func (s *Server) Before(wait func(action string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before = wait
}

// failure is an error response.
type failure struct {
	status  int
	code    string
	message string
}

// Error implements error.
func (f *failure) Error() string { return f.code + ": " + f.message }

func refuse(status int, code, format string, args ...any) error {
	return &failure{status, code, fmt.Sprintf(format, args...)}
}

// call is a request with a valid signature.
type call struct {
	service string
	action  string
	caller  Keys
	form    url.Values
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	c, err := s.accept(r, body)
	var response any
	if err == nil {
		response, err = s.handle(c)
	}
	status := http.StatusOK
	if err != nil {
		status, response = errorResponse(c.service, err)
	}
	var out bytes.Buffer
	encode, kind := xml.NewEncoder(&out).Encode, "text/xml"
	if c.service == eksService {
		encode, kind = json.NewEncoder(&out).Encode, "application/json"
		if f, ok := errors.AsType[*failure](err); ok {
			w.Header().Set("X-Amzn-Errortype", f.code+":http://internal.amazon.com/coral/com.amazonaws/")
		}
	}
	if err := encode(response); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(status)
	_, _ = w.Write(out.Bytes())
}

// accept authenticates a request and returns it as a call.
func (s *Server) accept(r *http.Request, body []byte) (call, error) {
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return call{}, refuse(http.StatusBadRequest, "MalformedQueryString", "the body is not a query")
	}
	c := call{form: form, action: form.Get("Action"), service: "sts"}
	if c.action != "AssumeRoleWithWebIdentity" {
		if c.caller, c.service, err = s.authenticate(r, body); err != nil {
			return c, err
		}
	}
	if c.service == eksService {
		c.action, c.form = eksCall(r)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.agents[r.UserAgent()] = true
	s.calls[c.action]++
	return c, nil
}

func (s *Server) handle(c call) (any, error) {
	s.mu.Lock()
	before := s.before
	s.mu.Unlock()
	if before != nil {
		before(c.action)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if queue := s.failures[c.action]; len(queue) > 0 {
		s.failures[c.action] = queue[1:]
		return nil, queue[0]
	}
	if s.denied[c.action] {
		return nil, denied(c, "*")
	}
	actions := map[string]func(call) (any, error){
		"sts:GetCallerIdentity":         s.getCallerIdentity,
		"sts:AssumeRole":                s.assumeRole,
		"sts:AssumeRoleWithWebIdentity": s.assumeRoleWithWebIdentity,
		"iam:GetRole":                   s.getRole,
		"iam:CreateServiceLinkedRole":   s.createServiceLinkedRole,
		"eks:DescribeCluster":           s.describeCluster,
		"ec2:DescribeVpcs":              s.describeVPCs,
		"ec2:DescribeSubnets":           s.describeSubnets,
		"ec2:DescribeRouteTables":       s.describeRouteTables,
	}
	action, found := actions[c.service+":"+c.action]
	if !found && slices.Contains(emptyLists, c.service+":"+c.action) {
		return emptyList(c.action), nil
	}
	if !found {
		return nil, refuse(http.StatusBadRequest, "InvalidAction", "the fake of %s has no action %s", c.service, c.action)
	}
	return action(c)
}

// emptyLists are actions that return an empty list: the account has none of these.
var emptyLists = []string{
	"ec2:DescribeInstances", "ec2:DescribeNetworkInterfaces", "ec2:DescribeSecurityGroups", "ec2:DescribeLaunchTemplates", "ec2:DescribeVolumes",
	"iam:ListInstanceProfiles", "elasticloadbalancing:DescribeLoadBalancers", "elasticloadbalancing:DescribeTargetGroups", "elasticloadbalancing:DescribeTags",
}

// emptyList returns a response without items.
func emptyList(action string) any {
	return struct {
		XMLName xml.Name
		Result  struct{ XMLName xml.Name }
	}{xml.Name{Local: action + "Response"}, struct{ XMLName xml.Name }{xml.Name{Local: action + "Result"}}}
}

func denied(c call, resource string) error {
	code, text := "AccessDenied", fmt.Sprintf("User: %s is not authorized to perform: %s:%s on resource: %s", c.caller.ARN, c.service, c.action, resource)
	if c.service == "ec2" {
		code, text = "UnauthorizedOperation", "You are not authorized to perform this operation. "+text+" Encoded authorization failure message: "+strings.Repeat("x", 400)
	}
	return refuse(http.StatusForbidden, code, "%s", text)
}

type errorItem struct {
	Type    string `xml:"Type,omitempty"`
	Code    string
	Message string
}

// errorResponse returns the status and the body of an error in the protocol of the
// service.
func errorResponse(service string, err error) (int, any) {
	var f *failure
	if !errors.As(err, &f) {
		f = &failure{http.StatusInternalServerError, "InternalFailure", err.Error()}
	}
	if service == eksService {
		return f.status, map[string]any{"message": f.message}
	}
	item := errorItem{Code: f.code, Message: f.message}
	if service == "ec2" {
		return f.status, struct {
			XMLName   xml.Name    `xml:"Response"`
			Errors    []errorItem `xml:"Errors>Error"`
			RequestID string
		}{Errors: []errorItem{item}, RequestID: requestID}
	}
	item.Type = "Sender"
	return f.status, struct {
		XMLName   xml.Name `xml:"ErrorResponse"`
		Error     errorItem
		RequestID string `xml:"RequestId"`
	}{Error: item, RequestID: requestID}
}

// requestID is part of every response, so that tests can check that no error text
// contains it.
const requestID = "7a62c49f-347e-4fc4-9331-6e8eEXAMPLE0"

// digits returns a random number with n digits.
func digits(n int64) string {
	limit := new(big.Int).Exp(big.NewInt(10), big.NewInt(n), nil)
	number, err := rand.Int(rand.Reader, limit)
	if err != nil {
		panic(err)
	}
	return fmt.Sprintf("%0*d", int(n), number)
}

func random(bytes int) string {
	b := make([]byte, bytes)
	// Read never fails.
	_, _ = rand.Read(b)
	return hex.EncodeToString(b)
}

package awstest_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	sdkaws "github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/cluster/aws/awstest"
)

func keysOf(env map[string]string) sdkaws.Credentials {
	return sdkaws.Credentials{AccessKeyID: env["AWS_ACCESS_KEY_ID"], SecretAccessKey: env["AWS_SECRET_ACCESS_KEY"]}
}

func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// send signs a request as a client of a service does, calls change with the signed
// request, sends it, and returns status and body.
func send(g *WithT, server *awstest.Server, keys sdkaws.Credentials, service, form string, change func(*http.Request)) (int, string) {
	request, err := http.NewRequest(http.MethodPost, server.URL+"/", strings.NewReader(form))
	g.Expect(err).NotTo(HaveOccurred())
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	g.Expect(v4.NewSigner().SignHTTP(context.Background(), keys, request, hash(form), service, awstest.Region, time.Now())).To(Succeed())
	if change != nil {
		change(request)
	}
	response, err := http.DefaultClient.Do(request)
	g.Expect(err).NotTo(HaveOccurred())
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	g.Expect(err).NotTo(HaveOccurred())
	return response.StatusCode, string(body)
}

func TestServer_verifiesSignatures(t *testing.T) {
	server := awstest.New(t)
	good := keysOf(server.Env())
	const form = "Action=GetCallerIdentity&Version=2011-06-15"
	tests := []struct {
		name    string
		keys    sdkaws.Credentials
		service string
		change  func(*http.Request)
		code    string
	}{
		{name: "a good one", keys: good, service: "sts"},
		{name: "an unknown key", keys: sdkaws.Credentials{AccessKeyID: "AKIAX", SecretAccessKey: good.SecretAccessKey}, service: "sts", code: "InvalidClientTokenId"},
		{name: "a wrong secret", keys: sdkaws.Credentials{AccessKeyID: good.AccessKeyID, SecretAccessKey: "x"}, service: "sts", code: "SignatureDoesNotMatch"},
		{name: "a session that does not exist", keys: sdkaws.Credentials{AccessKeyID: good.AccessKeyID, SecretAccessKey: good.SecretAccessKey, SessionToken: "x"}, service: "sts", code: "InvalidClientTokenId"},
		{name: "another body", keys: good, service: "sts", code: "SignatureDoesNotMatch", change: func(r *http.Request) {
			const other = "Action=GetCallerIdentity&Version=2011-06-16"
			r.Body = io.NopCloser(bytes.NewReader([]byte(other)))
		}},
		{name: "another header", keys: good, service: "sts", code: "SignatureDoesNotMatch", change: func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") }},
		{name: "another day", keys: good, service: "sts", code: "IncompleteSignature", change: func(r *http.Request) { r.Header.Set("X-Amz-Date", "20200101T000000Z") }},
		{name: "no signature", keys: good, service: "sts", code: "MissingAuthenticationToken", change: func(r *http.Request) { r.Header.Del("Authorization") }},
		{name: "an action of another service", keys: good, service: "ec2", code: "InvalidAction"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)

			status, body := send(g, server, tt.keys, tt.service, form, tt.change)

			if tt.code == "" {
				g.Expect(status).To(Equal(http.StatusOK), body)
				g.Expect(body).To(ContainSubstring("<Account>" + server.Account + "</Account>"))
				return
			}
			g.Expect(status).To(BeNumerically(">=", 400))
			g.Expect(body).To(ContainSubstring("<Code>" + tt.code + "</Code>"))
		})
	}
	NewWithT(t).Expect(server.Calls("GetCallerIdentity")).To(Equal(2), "unauthenticated requests do not count")
}

func TestServer_expiresSessions(t *testing.T) {
	g := NewWithT(t)
	server := awstest.New(t)
	role := server.AddRole("r")
	status, body := send(g, server, keysOf(server.Env()), "sts", url.Values{"Action": {"AssumeRole"}, "RoleArn": {role}, "RoleSessionName": {"s"}, "DurationSeconds": {"900"}}.Encode(), nil)
	g.Expect(status).To(Equal(http.StatusOK), body)
	field := func(name string) string {
		_, rest, _ := strings.Cut(body, "<"+name+">")
		value, _, _ := strings.Cut(rest, "</")
		return value
	}
	session := sdkaws.Credentials{AccessKeyID: field("AccessKeyId"), SecretAccessKey: field("SecretAccessKey"), SessionToken: field("SessionToken")}
	whoami := func() (int, string) { return send(g, server, session, "sts", "Action=GetCallerIdentity", nil) }

	status, answer := whoami()
	g.Expect(status).To(Equal(http.StatusOK), answer)
	g.Expect(answer).To(ContainSubstring("assumed-role/r/s"))

	server.SetClock(func() time.Time { return time.Now().Add(16 * time.Minute) })
	status, answer = whoami()
	g.Expect(status).To(Equal(http.StatusForbidden))
	g.Expect(answer).To(ContainSubstring("ExpiredToken"))
}

func TestServer_createsARoleOnce(t *testing.T) {
	g := NewWithT(t)
	server := awstest.New(t)
	const callers = 20
	statuses := make([]int, callers)
	bodies := make([]string, callers)
	var arrived, wait sync.WaitGroup
	arrived.Add(callers)
	server.Before(func(string) { arrived.Done(); arrived.Wait() })
	for i := range callers {
		wait.Go(func() {
			statuses[i], bodies[i] = send(g, server, keysOf(server.Env()), "iam", "Action=CreateServiceLinkedRole&AWSServiceName=spot.amazonaws.com", nil)
		})
	}
	wait.Wait()

	created := 0
	for i, status := range statuses {
		if status == http.StatusOK {
			created++
			continue
		}
		g.Expect(bodies[i]).To(And(ContainSubstring("<Code>InvalidInput</Code>"), ContainSubstring("has been taken in this account")))
	}
	g.Expect(created).To(Equal(1))
}

func TestServer_rejectsUnknownFilters(t *testing.T) {
	g := NewWithT(t)
	server := awstest.New(t)
	server.AddVPC(awstest.VPC{ID: "vpc-1"}, []awstest.Subnet{{ID: "a", Tags: map[string]string{"k": "v"}}, {ID: "b", Tags: map[string]string{"k": "w"}}}, nil)
	describe := func(filter string) string {
		_, body := send(g, server, keysOf(server.Env()), "ec2", "Action=DescribeSubnets&Filter.1.Name="+filter, nil)
		return body
	}
	g.Expect(describe("zone&Filter.1.Value.1=a")).To(ContainSubstring("InvalidParameterValue"))
	g.Expect(describe("tag:k&Filter.1.Value.1=v")).To(And(ContainSubstring("<subnetId>a<"), Not(ContainSubstring("<subnetId>b<"))))
	g.Expect(describe("tag:k&Filter.1.Value.1=v&Filter.1.Value.2=w")).To(And(ContainSubstring("<subnetId>a<"), ContainSubstring("<subnetId>b<")))
	g.Expect(describe("vpc-id&Filter.1.Value.1=vpc-2")).NotTo(ContainSubstring("<subnetId>"))
}

// signed are the parts of a token, each of which a test can change.
type signed struct {
	address string
	query   url.Values
	headers http.Header
	service string
	prefix  string
	date    time.Time
}

func (s signed) token(g *WithT, keys sdkaws.Credentials) string {
	request, err := http.NewRequest(http.MethodGet, s.address+"?"+s.query.Encode(), http.NoBody)
	g.Expect(err).NotTo(HaveOccurred())
	request.Header = s.headers
	text, _, err := v4.NewSigner().PresignHTTP(context.Background(), keys, request, hash(""), s.service, awstest.Region, s.date)
	g.Expect(err).NotTo(HaveOccurred())
	return s.prefix + base64.RawURLEncoding.EncodeToString([]byte(text))
}

func TestAuthenticator_acceptsTheSameTokensAsEKS(t *testing.T) {
	server := awstest.New(t)
	now := time.Now()
	tests := []struct {
		name   string
		change func(*signed)
		reason string
	}{
		{name: "a good one", change: func(*signed) {}},
		{name: "an STS of the region", change: func(s *signed) { s.address = "https://sts.eu-west-1.amazonaws.com/" }},
		{name: "an STS of another region", change: func(s *signed) { s.address = "https://sts.us-east-1.amazonaws.com/" }, reason: "unexpected address"},
		{name: "an STS without TLS", change: func(s *signed) { s.address = "http://sts.eu-west-1.amazonaws.com/" }, reason: "unexpected address"},
		{name: "another host", change: func(s *signed) { s.address = "https://sts.eu-west-1.amazonaws.com.example.com/" }, reason: "unexpected address"},
		{name: "a path", change: func(s *signed) { s.address += "x" }, reason: "the path is wrong"},
		{name: "another prefix", change: func(s *signed) { s.prefix = "k8s-aws-v2." }, reason: "the prefix is wrong"},
		{name: "no base64", change: func(s *signed) { s.prefix += "!" }, reason: "not in base64"},
		{name: "another action", change: func(s *signed) { s.query.Set("Action", "AssumeRole") }, reason: "unexpected action"},
		{name: "two actions", change: func(s *signed) { s.query.Add("Action", "AssumeRole") }, reason: "unexpected parameter Action"},
		{name: "an unknown parameter", change: func(s *signed) { s.query.Set("X", "y") }, reason: "unexpected parameter X"},
		{name: "a long validity", change: func(s *signed) { s.query.Set("X-Amz-Expires", "61") }, reason: "X-Amz-Expires"},
		{name: "no validity", change: func(s *signed) { s.query.Del("X-Amz-Expires") }, reason: "X-Amz-Expires"},
		{name: "no cluster", change: func(s *signed) { s.headers = http.Header{} }, reason: "not both signed"},
		{name: "another cluster", change: func(s *signed) { s.headers.Set("x-k8s-aws-id", "other") }, reason: "SignatureDoesNotMatch"},
		{name: "an unexpected header", change: func(s *signed) { s.headers.Set("x-more", "y") }, reason: "SignatureDoesNotMatch"},
		{name: "another service", change: func(s *signed) { s.service = "iam" }, reason: "IncompleteSignature"},
		{name: "an old date", change: func(s *signed) { s.date = now.Add(-15*time.Minute - 2*time.Second) }, reason: "expired"},
		{name: "a date in the future", change: func(s *signed) { s.date = now.Add(6 * time.Minute) }, reason: "from the future"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			authenticator := awstest.NewAuthenticator(t, server, "demo")
			authenticator.SetClock(func() time.Time { return now })
			s := signed{
				address: server.URL + "/", headers: http.Header{"X-K8s-Aws-Id": {"demo"}}, service: "sts", prefix: "k8s-aws-v1.", date: now,
				query: url.Values{"Action": {"GetCallerIdentity"}, "Version": {"2011-06-15"}, "X-Amz-Expires": {"60"}},
			}
			tt.change(&s)

			keys, err := authenticator.Verify(t.Context(), s.token(g, keysOf(server.Env())))

			if tt.reason == "" {
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(authenticator.Reviews()).To(Equal([]awstest.Review{{Accepted: true, ARN: keys.ARN}}))
				return
			}
			g.Expect(err).To(MatchError(ContainSubstring(tt.reason)))
			g.Expect(authenticator.Reviews()).To(Equal([]awstest.Review{{Reason: err.Error()}}))
		})
	}
}

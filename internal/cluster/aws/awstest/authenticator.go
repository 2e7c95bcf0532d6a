package awstest

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// The format of tokens, defined here a second time so that a mistake in the code
// that signs tokens is not repeated in the code that verifies them.
const (
	eksPrefix       = "k8s-aws-v1."
	clusterHeader   = "x-k8s-aws-id"
	maxTokenLength  = 4 * 1024
	maxExpires      = 60
	defaultLifetime = 15 * time.Minute
	clockSkew       = 5 * time.Minute
)

// User and Group are the identity of every accepted token.
const (
	User  = "capt"
	Group = "system:masters"
)

// tokenParameters are the query parameters that a token may have.
var tokenParameters = []string{
	"Action", "Version", "X-Amz-Algorithm", "X-Amz-Credential", "X-Amz-Date", "X-Amz-Expires",
	"X-Amz-Security-Token", "X-Amz-Signature", "X-Amz-SignedHeaders",
}

// Review is one response of the authenticator.
type Review struct {
	Accepted bool
	// Reason is why a token was rejected.
	Reason string
	// ARN is the identity that signed an accepted token.
	ARN string
}

// Authenticator is a fake of EKS's authenticator: a token webhook for a real API
// server. It accepts the tokens of one cluster that are signed with keys of one fake
// AWS account.
type Authenticator struct {
	aws     *Server
	cluster string
	http    *httptest.Server

	mu       sync.Mutex
	now      func() time.Time
	lifetime time.Duration
	reviews  []Review
}

// NewAuthenticator starts an authenticator, and stops it when the test ends.
func NewAuthenticator(t testing.TB, aws *Server, cluster string) *Authenticator {
	t.Helper()
	a := StartAuthenticator(aws, cluster)
	t.Cleanup(a.Close)
	return a
}

// StartAuthenticator starts an authenticator. The caller must close it.
func StartAuthenticator(aws *Server, cluster string) *Authenticator {
	a := &Authenticator{aws: aws, cluster: cluster, now: time.Now, lifetime: defaultLifetime}
	a.http = httptest.NewTLSServer(http.HandlerFunc(a.serve))
	return a
}

// Close stops the authenticator.
func (a *Authenticator) Close() { a.http.Close() }

// SetLifetime changes how long a token is accepted after its date.
func (a *Authenticator) SetLifetime(lifetime time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lifetime = lifetime
}

// SetClock replaces the authenticator's clock.
func (a *Authenticator) SetClock(now func() time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.now = now
}

// Reviews returns the responses so far, in order.
func (a *Authenticator) Reviews() []Review {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.reviews)
}

// WriteKubeconfig writes the file that the API server's flag
// --authentication-token-webhook-config-file names.
func (a *Authenticator) WriteKubeconfig(path string) error {
	const name = "authenticator"
	content := clientcmdapi.NewConfig()
	content.Clusters[name] = &clientcmdapi.Cluster{
		Server:                   a.http.URL,
		CertificateAuthorityData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.http.Certificate().Raw}),
	}
	content.AuthInfos[name] = &clientcmdapi.AuthInfo{}
	content.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	content.CurrentContext = name
	text, err := clientcmd.Write(*content)
	if err != nil {
		return fmt.Errorf("writing the webhook's kubeconfig: %w", err)
	}
	return os.WriteFile(path, text, 0o600)
}

func (a *Authenticator) serve(w http.ResponseWriter, r *http.Request) {
	var review authenticationv1.TokenReview
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20)).Decode(&review); err != nil {
		http.Error(w, "not a TokenReview", http.StatusBadRequest)
		return
	}
	keys, err := a.Verify(r.Context(), review.Spec.Token)
	review.TypeMeta = metav1.TypeMeta{APIVersion: authenticationv1.SchemeGroupVersion.String(), Kind: "TokenReview"}
	review.Spec = authenticationv1.TokenReviewSpec{}
	if err == nil {
		review.Status = authenticationv1.TokenReviewStatus{
			Authenticated: true,
			User:          authenticationv1.UserInfo{Username: User, UID: keys.ARN, Groups: []string{Group}},
		}
	} else {
		// An error here would mean that the webhook itself is broken.
		review.Status = authenticationv1.TokenReviewStatus{Authenticated: false}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(review)
}

// Verify returns the keys that signed a token, or an error if it is rejected, and
// records the review.
func (a *Authenticator) Verify(ctx context.Context, token string) (Keys, error) {
	a.mu.Lock()
	now, lifetime := a.now(), a.lifetime
	a.mu.Unlock()
	keys, err := a.verify(ctx, token, now, lifetime)
	review := Review{Accepted: err == nil, ARN: keys.ARN}
	if err != nil {
		review.Reason = err.Error()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.reviews = append(a.reviews, review)
	return keys, err
}

func (a *Authenticator) verify(ctx context.Context, token string, now time.Time, lifetime time.Duration) (Keys, error) {
	encoded, hasPrefix := strings.CutPrefix(token, eksPrefix)
	if !hasPrefix || len(token) > maxTokenLength {
		return Keys{}, errors.New("the prefix is wrong or the token is too long")
	}
	text, err := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil {
		return Keys{}, errors.New("not in base64")
	}
	signed, err := url.Parse(string(text))
	if err != nil {
		return Keys{}, errors.New("not a URL")
	}
	if err := a.checkAddress(signed); err != nil {
		return Keys{}, err
	}
	query, err := url.ParseQuery(signed.RawQuery)
	if err != nil {
		return Keys{}, errors.New("the query does not parse")
	}
	if err := checkQuery(query); err != nil {
		return Keys{}, err
	}
	date, err := time.Parse(amzDate, query.Get("X-Amz-Date"))
	switch {
	case err != nil:
		return Keys{}, errors.New("X-Amz-Date is not a date")
	case now.Sub(date) > lifetime:
		return Keys{}, errors.New("the token has expired")
	case date.Sub(now) > clockSkew:
		return Keys{}, errors.New("the token is from the future")
	}
	// A signature for another cluster's name does not match.
	return a.aws.presigned(ctx, signed, http.Header{http.CanonicalHeaderKey(clusterHeader): {a.cluster}}, date)
}

// checkAddress checks that the request is sent to STS: the fake one, or a regional
// one of AWS.
func (a *Authenticator) checkAddress(signed *url.URL) error {
	if signed.Path != "/" || signed.User != nil || signed.Fragment != "" {
		return errors.New("the path is wrong")
	}
	if signed.Scheme+"://"+signed.Host == a.aws.URL {
		return nil
	}
	at, _ := parseScope(signed.Query().Get("X-Amz-Credential"))
	hosts := []string{"sts." + at.region + ".amazonaws.com", "sts." + at.region + ".amazonaws.com.cn"}
	if signed.Scheme != "https" || at.region == "" || !slices.Contains(hosts, signed.Host) {
		return fmt.Errorf("unexpected address %s://%s", signed.Scheme, signed.Host)
	}
	return nil
}

func checkQuery(query url.Values) error {
	for name, values := range query {
		if !slices.Contains(tokenParameters, name) || len(values) != 1 {
			return fmt.Errorf("unexpected parameter %s", name)
		}
	}
	if query.Get("Action") != "GetCallerIdentity" {
		return errors.New("unexpected action")
	}
	if query.Get("X-Amz-Algorithm") != "AWS4-HMAC-SHA256" {
		return errors.New("unexpected algorithm")
	}
	if expires, err := strconv.Atoi(query.Get("X-Amz-Expires")); err != nil || expires < 0 || expires > maxExpires {
		return errors.New("X-Amz-Expires is out of bounds")
	}
	signed := strings.Split(query.Get("X-Amz-SignedHeaders"), ";")
	if !slices.Contains(signed, "host") || !slices.Contains(signed, clusterHeader) {
		return errors.New("host and " + clusterHeader + " are not both signed")
	}
	return nil
}

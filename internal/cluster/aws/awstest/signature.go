package awstest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	sdkaws "github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

// Keys are AWS credentials.
type Keys struct {
	AccessKeyID     string
	SecretAccessKey string
	SessionToken    string
	// Expires is when they expire. Zero means never.
	Expires time.Time
	// ARN is the identity that owns them.
	ARN string
}

func (k Keys) sdk() sdkaws.Credentials {
	return sdkaws.Credentials{AccessKeyID: k.AccessKeyID, SecretAccessKey: k.SecretAccessKey, SessionToken: k.SessionToken}
}

// issue creates keys. With a duration they are those of a session.
func (s *Server) issue(arn, prefix string, duration time.Duration) Keys {
	k := Keys{AccessKeyID: prefix + strings.ToUpper(random(8)), SecretAccessKey: random(20), ARN: arn}
	if duration > 0 {
		k.SessionToken = random(64)
		k.Expires = s.now().Add(duration)
	}
	s.keys[k.AccessKeyID] = k
	return k
}

const amzDate = "20060102T150405Z"

var authorization = regexp.MustCompile(`^AWS4-HMAC-SHA256 Credential=([^,]+), SignedHeaders=([^,]+), Signature=([0-9a-f]{64})$`)

// scope is the scope of a signature.
type scope struct {
	accessKeyID, day, region, service string
}

func parseScope(credential string) (scope, bool) {
	parts := strings.Split(credential, "/")
	if len(parts) != 5 || parts[4] != "aws4_request" {
		return scope{}, false
	}
	return scope{parts[0], parts[1], parts[2], parts[3]}, true
}

// lookUp returns the keys with an access key id if they have not expired.
func (s *Server) lookUp(accessKeyID, sessionToken string) (Keys, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k, found := s.keys[accessKeyID]
	switch {
	case !found, k.SessionToken != sessionToken:
		return Keys{}, refuse(http.StatusForbidden, "InvalidClientTokenId", "The security token included in the request is invalid.")
	case !k.Expires.IsZero() && !s.now().Before(k.Expires):
		return Keys{}, refuse(http.StatusForbidden, "ExpiredToken", "The security token included in the request is expired")
	}
	return k, nil
}

// authenticate recomputes the signature in a request's Authorization header.
func (s *Server) authenticate(r *http.Request, body []byte) (Keys, string, error) {
	match := authorization.FindStringSubmatch(r.Header.Get("Authorization"))
	if match == nil {
		return Keys{}, "", refuse(http.StatusForbidden, "MissingAuthenticationToken", "Request is missing Authentication Token")
	}
	at, ok := parseScope(match[1])
	date, err := time.Parse(amzDate, r.Header.Get("X-Amz-Date"))
	if !ok || err != nil || date.Format("20060102") != at.day {
		return Keys{}, "", refuse(http.StatusBadRequest, "IncompleteSignature", "the credential or the date is malformed")
	}
	k, err := s.lookUp(at.accessKeyID, r.Header.Get("X-Amz-Security-Token"))
	if err != nil {
		return Keys{}, at.service, err
	}
	unsigned, err := http.NewRequestWithContext(r.Context(), r.Method, "http://"+r.Host+r.URL.RequestURI(), bytes.NewReader(body))
	if err != nil {
		return Keys{}, at.service, err
	}
	copySigned(unsigned.Header, r.Header, match[2])
	if err := v4.NewSigner().SignHTTP(r.Context(), k.sdk(), unsigned, hash(body), at.service, at.region, date); err != nil {
		return Keys{}, at.service, err
	}
	if !same(unsigned.Header.Get("Authorization"), r.Header.Get("Authorization")) {
		return Keys{}, at.service, refuse(http.StatusForbidden, "SignatureDoesNotMatch",
			"The request signature we calculated does not match the signature you provided. The Canonical String for this request should have been 'POST / x-amz-security-token:%s'", k.SessionToken)
	}
	return k, at.service, nil
}

// presigned recomputes the signature in the query of a URL that was signed
// together with headers.
func (s *Server) presigned(ctx context.Context, signed *url.URL, headers http.Header, date time.Time) (Keys, error) {
	query := signed.Query()
	at, ok := parseScope(query.Get("X-Amz-Credential"))
	if !ok || at.service != "sts" || at.day != date.Format("20060102") {
		return Keys{}, refuse(http.StatusBadRequest, "IncompleteSignature", "the scope of the credential is not STS on that day")
	}
	k, err := s.lookUp(at.accessKeyID, query.Get("X-Amz-Security-Token"))
	if err != nil {
		return Keys{}, err
	}
	unsigned := *signed
	signature := query.Get("X-Amz-Signature")
	query.Del("X-Amz-Signature")
	unsigned.RawQuery = query.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, unsigned.String(), http.NoBody)
	if err != nil {
		return Keys{}, err
	}
	copySigned(request.Header, headers, query.Get("X-Amz-SignedHeaders"))
	recomputed, _, err := v4.NewSigner().PresignHTTP(ctx, k.sdk(), request, hash(nil), at.service, at.region, date)
	if err != nil {
		return Keys{}, err
	}
	u, err := url.Parse(recomputed)
	if err != nil {
		return Keys{}, err
	}
	if !same(u.Query().Get("X-Amz-Signature"), signature) {
		return Keys{}, refuse(http.StatusForbidden, "SignatureDoesNotMatch", "The request signature we calculated does not match the signature you provided.")
	}
	return k, nil
}

// copySigned copies the signed headers. Host and length are fields of the request.
func copySigned(to, from http.Header, names string) {
	for name := range strings.SplitSeq(names, ";") {
		if name == "host" || name == "content-length" {
			continue
		}
		if values := from.Values(name); len(values) > 0 {
			to[http.CanonicalHeaderKey(name)] = values
		}
	}
}

func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

func hash(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}

package aws

import (
	"context"
	"encoding/base64"
	"net/http"
	"regexp"
	"time"

	sdkaws "github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sts"
)

// The format of tokens that EKS accepts.
const (
	// eksPrefix is the prefix of every token.
	eksPrefix = "k8s-aws-v1."
	// clusterHeader is the signed header that binds a token to one cluster.
	clusterHeader = "X-K8s-Aws-Id"

	// tokenLifetime is how long EKS accepts a token, counted from its date.
	tokenLifetime = 15 * time.Minute
	// tokenMargin is subtracted from the lifetime, for requests in transit.
	tokenMargin = time.Minute
	// tokenExpires is checked by authenticators. The lifetime does not depend on it.
	tokenExpires = "60"
)

// clusterNames matches the names of EKS clusters. Filters of EC2 have wildcards.
var clusterNames = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z_-]{0,99}$`)

// Token authenticates its bearer to one EKS cluster.
type Token struct {
	Value Secret
	// ExpiresAt is when the token must no longer be used.
	ExpiresAt time.Time
}

// SignToken returns a token for an EKS cluster. It sends requests to AWS only to
// assume a role or to fetch credentials. A token expires no later than the
// credentials that signed it.
func SignToken(ctx context.Context, cfg Config, cluster string, now func() time.Time) (Token, error) {
	if !clusterNames.MatchString(cluster) {
		return Token{}, invalid("%q is not the name of an EKS cluster", cluster)
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	keys, err := cfg.signer.retrieveUntil(ctx, now().Add(tokenLifetime))
	if err != nil {
		return Token{}, explain("signing a token", err)
	}
	// The date in a token has no fractions of a second.
	date := now().UTC().Truncate(time.Second)
	token := Token{ExpiresAt: date.Add(tokenLifetime - tokenMargin)}
	if keys.CanExpire {
		if !keys.Expires.After(date) {
			return Token{}, &Error{Kind: KindBadCredentials, Op: "signing a token", Text: "the credentials have expired: renew them"}
		}
		if keys.Expires.Before(token.ExpiresAt) {
			token.ExpiresAt = keys.Expires.UTC()
		}
	}
	client := cfg.sts(func(o *sts.Options) {
		o.Credentials = credentials.StaticCredentialsProvider{Value: keys}
		// Authenticators accept only the regional host names.
		o.EndpointOptions.UseDualStackEndpoint = sdkaws.DualStackEndpointStateDisabled
	})
	presigner := sts.NewPresignClient(client, func(o *sts.PresignOptions) {
		o.Presigner = &tokenPresigner{signer: v4.NewSigner(), cluster: cluster, date: date}
	})
	request, err := presigner.PresignGetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
	if err != nil {
		return Token{}, explain("signing a token", err)
	}
	token.Value = NewSecret(eksPrefix + base64.RawURLEncoding.EncodeToString([]byte(request.URL)))
	return token, nil
}

// tokenPresigner adds the header and the query parameter that EKS expects, and
// signs with a fixed date.
type tokenPresigner struct {
	signer  *v4.Signer
	cluster string
	date    time.Time
}

// PresignHTTP implements sts.HTTPPresignerV4.
func (p *tokenPresigner) PresignHTTP(
	ctx context.Context, keys sdkaws.Credentials, request *http.Request,
	payloadHash, service, region string, _ time.Time, change ...func(*v4.SignerOptions),
) (string, http.Header, error) {
	request.Header.Set(clusterHeader, p.cluster)
	query := request.URL.Query()
	query.Set("X-Amz-Expires", tokenExpires)
	request.URL.RawQuery = query.Encode()
	return p.signer.PresignHTTP(ctx, keys, request, payloadHash, service, region, p.date, change...)
}

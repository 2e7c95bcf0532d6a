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

// What EKS expects of a token.
const (
	// eksPrefix marks the tokens of EKS.
	eksPrefix = "k8s-aws-v1."
	// clusterHeader is the signed header that binds a token to one cluster.
	clusterHeader = "X-K8s-Aws-Id"

	// tokenLifetime is how long EKS accepts a token, counted from its date.
	tokenLifetime = 15 * time.Minute
	// tokenMargin leaves time for the request on its way.
	tokenMargin = time.Minute
	// tokenExpires is what authenticators check; the lifetime does not depend on it.
	tokenExpires = "60"
)

var clusterNames = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z_-]{0,99}$`)

// Token lets its bearer into one EKS cluster.
type Token struct {
	Value Secret
	// ExpiresAt is when the token is no longer to be used.
	ExpiresAt time.Time
}

// SignToken makes a token for an EKS cluster. Only a role that must be assumed,
// or credentials that must be fetched, cause a request to AWS. A token ends with
// the credentials that signed it.
func SignToken(ctx context.Context, cfg Config, cluster string, now func() time.Time) (Token, error) {
	if !clusterNames.MatchString(cluster) {
		return Token{}, invalid("%q is not the name of an EKS cluster", cluster)
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	keys, err := cfg.signer.outliving(ctx, now().Add(tokenLifetime))
	if err != nil {
		return Token{}, explain("signing a token", err)
	}
	// The date in a token has no fractions.
	date := now().UTC().Truncate(time.Second)
	token := Token{ExpiresAt: date.Add(tokenLifetime - tokenMargin)}
	if keys.CanExpire {
		if !keys.Expires.After(date) {
			return Token{}, &Error{Kind: KindBadCredentials, Op: "signing a token", Text: "the credentials have ended: renew them"}
		}
		if keys.Expires.Before(token.ExpiresAt) {
			token.ExpiresAt = keys.Expires.UTC()
		}
	}
	client := cfg.sts(func(o *sts.Options) {
		o.Credentials = credentials.StaticCredentialsProvider{Value: keys}
		// Authenticators know the regional names alone.
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

// tokenPresigner signs what EKS expects beside the request itself, at a given
// time.
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

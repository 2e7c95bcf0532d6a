// Package aws contains every call to AWS that CAPT makes itself: it signs the
// tokens that EKS accepts, ensures the EC2 Spot service-linked role, looks up existing
// VPCs, and deletes what the controllers of a cluster left in the account. Terraform
// manages everything else in AWS.
//
// Calls are bounded in time and may be repeated. Errors are of type Error, and
// their Kind classifies the problem. No error and no printed value of this package
// contains a secret.
package aws

import (
	"cmp"
	"context"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	sdkaws "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/credentials/stscreds"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go/logging"
	smithymiddleware "github.com/aws/smithy-go/middleware"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/appthrust/capt/internal/kubernetes/dial"
)

// Names of services, as in AWS_ENDPOINT_URL_STS.
const (
	stsService   = "STS"
	iamService   = "IAM"
	ec2Service   = "EC2"
	eksService   = "EKS"
	elbService   = "ELASTIC_LOAD_BALANCING"
	elbV2Service = "ELASTIC_LOAD_BALANCING_V2"
)

const (
	userAgent = "capt"
	// attemptTimeout bounds one request, callTimeout a whole call with its retries.
	attemptTimeout = 10 * time.Second
	callTimeout    = 30 * time.Second
	attempts       = 3
	// maxBackoff is short because the caller retries anyway.
	maxBackoff = time.Second
	// sessionDuration is allowed for every role, even if one role assumes another,
	// and is longer than the lifetime of a token.
	sessionDuration = time.Hour
	// maxAnswer limits an answer, which the SDK reads as a whole: a provider config may name
	// the endpoints.
	maxAnswer = 8 << 20
)

// Each client of the SDK copies httpClient, which it can change, together with its
// connections. sharedClient is not copied, so connections outlive a Config.
var (
	httpClient   = awshttp.NewBuildableClient().WithTimeout(attemptTimeout)
	sharedClient = httpClient.Freeze()
)

// restricted are the clients by policy. There is one policy in a manager.
var restricted sync.Map

// restrictedClient returns a client that connects only to addresses that a policy allows.
func restrictedClient(policy *dial.Policy) sdkaws.HTTPClient {
	if client, found := restricted.Load(policy); found {
		return client.(sdkaws.HTTPClient)
	}
	// The policy checks each request, and so the hosts that a proxy would connect to.
	client := &http.Client{
		Transport: limitedTransport{policy.Transport(httpClient.GetTransport())}, Timeout: attemptTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	stored, _ := restricted.LoadOrStore(policy, client)
	return stored.(sdkaws.HTTPClient)
}

// limitedTransport limits answers to maxAnswer.
type limitedTransport struct{ next http.RoundTripper }

func (t limitedTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := t.next.RoundTrip(request)
	if response != nil {
		response.Body = http.MaxBytesReader(nil, response.Body, maxAnswer)
	}
	return response, err
}

// Options are the settings of requests that the credentials do not determine.
type Options struct {
	// Region takes precedence over the region that the credentials name.
	Region string
	// RoleARN is a role to assume with the credentials.
	RoleARN string
	// Policy restricts the addresses of endpoints that the credentials name.
	Policy *dial.Policy
}

// Config holds the region, the endpoints and the identity that requests are sent
// with. Printing it shows no secret.
type Config struct {
	// sdk is a function because fmt prints the fields of nested structs, some verbs also behind
	// pointers: ConfigSources has the credentials in the environment of the manager.
	sdk       func() sdkaws.Config
	signer    *signer
	endpoints endpoints
}

// Load returns a Config. It sends no request: credentials are fetched when they are
// first needed, and kept while they are valid and the Config is in use.
func Load(ctx context.Context, c Credentials, o Options) (Config, error) {
	sdk, err := config.LoadDefaultConfig(ctx, loadOptions(c, o)...)
	if err != nil {
		return Config{}, explainSettings(err)
	}
	if sdk.Region == "" {
		return Config{}, invalid("the region is not set: set region, or %s in the credentials", regionEnv)
	}
	// The region becomes a part of the host names to which signed requests are sent.
	if len(validation.IsDNS1123Label(sdk.Region)) > 0 {
		return Config{}, invalid("the region %q is invalid: write one such as eu-west-1", sdk.Region)
	}
	if sdk.HTTPClient == sdkaws.HTTPClient(httpClient) {
		// No setting of the manager, such as AWS_CA_BUNDLE, has changed it.
		sdk.HTTPClient = sharedClient
	}
	if len(c.endpoints) > 0 && o.Policy != nil {
		sdk.HTTPClient = restrictedClient(o.Policy)
	}
	cfg := Config{sdk: func() sdkaws.Config { return sdk }, endpoints: c.endpoints}
	provider, err := cfg.first(c)
	if err != nil {
		return Config{}, err
	}
	cfg.sign(provider, explainFirst)
	for _, role := range slices.Concat(c.roles, []string{o.RoleARN}) {
		if role == "" {
			continue
		}
		assume := stscreds.NewAssumeRoleProvider(cfg.sts(), role, func(options *stscreds.AssumeRoleOptions) {
			options.RoleSessionName = cmp.Or(c.sessionName, userAgent)
			options.Duration = sessionDuration
		})
		cfg.sign(assume, explainRole(role))
	}
	return cfg, nil
}

func loadOptions(c Credentials, o Options) []func(*config.LoadOptions) error {
	options := []func(*config.LoadOptions) error{
		config.WithHTTPClient(httpClient),
		config.WithLogger(logging.Nop{}),
		config.WithRetryer(func() sdkaws.Retryer {
			return retry.NewStandard(func(options *retry.StandardOptions) {
				options.MaxAttempts = attempts
				options.MaxBackoff = maxBackoff
			})
		}),
		config.WithAPIOptions([]func(*smithymiddleware.Stack) error{middleware.AddUserAgentKey(userAgent)}),
	}
	if region := cmp.Or(o.Region, c.region); region != "" {
		options = append(options, config.WithRegion(region))
	}
	switch c.fips {
	case "true":
		options = append(options, config.WithUseFIPSEndpoint(sdkaws.FIPSEndpointStateEnabled))
	case "false":
		options = append(options, config.WithUseFIPSEndpoint(sdkaws.FIPSEndpointStateDisabled))
	}
	if c.profile != "" {
		options = append(options, config.WithSharedConfigProfile(c.profile))
	}
	return options
}

// first returns the first identity of the chain.
func (c *Config) first(given Credentials) (sdkaws.CredentialsProvider, error) {
	switch {
	case given.accessKeyID != "":
		return credentials.StaticCredentialsProvider{Value: sdkaws.Credentials{
			AccessKeyID: given.accessKeyID, SecretAccessKey: given.secretAccessKey.Reveal(), SessionToken: given.sessionToken.Reveal(),
			CanExpire: !given.expires.IsZero(), Expires: given.expires,
		}}, nil
	case !given.token.IsZero():
		return webIdentity(c.sts(), given.webIdentityRole, given.sessionName, identityToken{given.token}), nil
	case given.webIdentityRole != "" || given.tokenFile != "":
		return c.ownWebIdentity(given)
	}
	return c.sdk().Credentials, nil
}

// ownWebIdentity signs with the token of the manager's own service account. It
// reads no other file, and does not send the token to an address that a provider
// config names: with the token a tenant could act as the manager.
func (c *Config) ownWebIdentity(given Credentials) (sdkaws.CredentialsProvider, error) {
	file := os.Getenv(identityFileEnv)
	if file == "" && given.tokenFile == "" {
		return nil, invalid("%s requires a token, and neither the provider config nor the manager has one: add the token to the credentials as a file and set %s to its name, or set roleARN to assume the role",
			roleARNEnv, identityFileEnv)
	}
	if given.tokenFile != "" && given.tokenFile != file {
		return nil, invalid("%s names a file that the manager does not read: add the token to the credentials as a file and set the variable to the file name without a directory", identityFileEnv)
	}
	role := cmp.Or(given.webIdentityRole, os.Getenv(roleARNEnv))
	if role == "" {
		return nil, invalid("%s is set without %s: add it to the credentials", identityFileEnv, roleARNEnv)
	}
	return webIdentity(sts.NewFromConfig(c.sdk()), role, given.sessionName, stscreds.IdentityTokenFile(file)), nil
}

func webIdentity(client *sts.Client, role, session string, token stscreds.IdentityTokenRetriever) sdkaws.CredentialsProvider {
	return stscreds.NewWebIdentityRoleProvider(client, role, token, func(options *stscreds.WebIdentityRoleOptions) {
		options.RoleSessionName = cmp.Or(session, userAgent)
	})
}

// identityToken is a token that a provider config contains.
type identityToken struct{ Secret }

// GetIdentityToken implements stscreds.IdentityTokenRetriever.
func (t identityToken) GetIdentityToken() ([]byte, error) { return []byte(t.Reveal()), nil }

// sign makes requests use the credentials of provider.
func (c *Config) sign(provider sdkaws.CredentialsProvider, explain func(error) error) {
	cache, cached := provider.(*sdkaws.CredentialsCache)
	if !cached {
		cache = sdkaws.NewCredentialsCache(provider)
	}
	c.signer = &signer{cache: cache, explain: explain}
	sdk := c.sdk()
	sdk.Credentials = c.signer
	c.sdk = func() sdkaws.Config { return sdk }
}

// Region returns the region that requests go to.
func (c Config) Region() string { return c.sdk().Region }

func (c Config) sts(change ...func(*sts.Options)) *sts.Client {
	return sts.NewFromConfig(c.sdk(), append([]func(*sts.Options){
		func(o *sts.Options) { o.BaseEndpoint = cmp.Or(c.endpoints.of(stsService), o.BaseEndpoint) },
	}, change...)...)
}

func (c Config) iam() *iam.Client {
	return iam.NewFromConfig(c.sdk(), func(o *iam.Options) { o.BaseEndpoint = cmp.Or(c.endpoints.of(iamService), o.BaseEndpoint) })
}

func (c Config) ec2() *ec2.Client {
	return ec2.NewFromConfig(c.sdk(), func(o *ec2.Options) { o.BaseEndpoint = cmp.Or(c.endpoints.of(ec2Service), o.BaseEndpoint) })
}

func (c Config) eks() *eks.Client {
	return eks.NewFromConfig(c.sdk(), func(o *eks.Options) { o.BaseEndpoint = cmp.Or(c.endpoints.of(eksService), o.BaseEndpoint) })
}

func (c Config) elb() *elb.Client {
	return elb.NewFromConfig(c.sdk(), func(o *elb.Options) { o.BaseEndpoint = cmp.Or(c.endpoints.of(elbService), o.BaseEndpoint) })
}

func (c Config) elbV2() *elasticloadbalancingv2.Client {
	return elasticloadbalancingv2.NewFromConfig(c.sdk(), func(o *elasticloadbalancingv2.Options) {
		o.BaseEndpoint = cmp.Or(c.endpoints.of(elbV2Service), o.BaseEndpoint)
	})
}

// signer fetches and caches credentials, and explains why it has none.
type signer struct {
	cache   *sdkaws.CredentialsCache
	explain func(error) error
}

// Retrieve implements the SDK's CredentialsProvider.
func (s *signer) Retrieve(ctx context.Context) (sdkaws.Credentials, error) {
	keys, err := s.cache.Retrieve(ctx)
	if err != nil {
		return sdkaws.Credentials{}, s.explain(err)
	}
	return keys, nil
}

// retrieveUntil returns credentials that are valid until deadline if the provider
// issues such, and otherwise the ones that are valid longest.
func (s *signer) retrieveUntil(ctx context.Context, deadline time.Time) (sdkaws.Credentials, error) {
	keys, err := s.Retrieve(ctx)
	if err != nil || !keys.CanExpire || !keys.Expires.Before(deadline) {
		return keys, err
	}
	s.cache.Invalidate()
	if fresh, err := s.Retrieve(ctx); err == nil && (!fresh.CanExpire || fresh.Expires.After(keys.Expires)) {
		return fresh, nil
	}
	return keys, nil
}

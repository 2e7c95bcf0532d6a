// Package aws is CAPT's only contact with AWS from Go: it signs the tokens that
// EKS accepts, makes sure of the EC2 Spot service-linked role, and looks up
// VPCs that exist already. Everything else in AWS is Terraform's.
//
// Calls are bounded in time and may be repeated. Errors are of type Error, whose
// Kind says what is wrong; neither they nor anything else here shows a secret.
package aws

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	sdkaws "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/credentials/stscreds"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go/logging"
	smithymiddleware "github.com/aws/smithy-go/middleware"
)

// Names of services, as in AWS_ENDPOINT_URL_STS.
const (
	stsService = "STS"
	iamService = "IAM"
	ec2Service = "EC2"
)

const (
	userAgent = "capt"
	// attemptTimeout bounds one request, patience a whole call with its retries.
	attemptTimeout = 10 * time.Second
	patience       = 30 * time.Second
	attempts       = 3
	// longestBackoff is short because the caller retries anyway.
	longestBackoff = time.Second
	// sessionDuration is what every role allows, also when one role assumes
	// another, and outlives a token.
	sessionDuration = time.Hour
)

// The SDK's clients each copy the client that it can change, and its connections
// with it; the other one is shared, so that connections outlive a Config.
var (
	httpClient   = awshttp.NewBuildableClient().WithTimeout(attemptTimeout)
	sharedClient = httpClient.Freeze()
)

// Options tell for what credentials are used.
type Options struct {
	// Region wins over the region that the credentials name.
	Region string
	// RoleARN is a role to assume with the credentials.
	RoleARN string
}

// Config is where requests go and who signs them. Printing it shows no secret.
type Config struct {
	sdk       sdkaws.Config
	signer    *signer
	endpoints endpoints
	// identity is equal for equal credentials.
	identity string
	text     string
}

// Load returns a Config. It sends no request: credentials are fetched when they are
// first needed, and kept while they are valid and the Config is in use.
func Load(ctx context.Context, c Credentials, o Options) (Config, error) {
	sdk, err := config.LoadDefaultConfig(ctx, loadOptions(c, o)...)
	if err != nil {
		return Config{}, explainSettings(err)
	}
	if sdk.Region == "" {
		return Config{}, invalid("no region is given: set region, or %s in the credentials", regionEnv)
	}
	if sdk.HTTPClient == sdkaws.HTTPClient(httpClient) {
		// Nothing of the manager's, such as AWS_CA_BUNDLE, has changed it.
		sdk.HTTPClient = sharedClient
	}
	cfg := Config{
		sdk: sdk, endpoints: c.endpoints, identity: c.fingerprint(o.RoleARN),
		text: fmt.Sprintf("%s in %s", c, sdk.Region),
	}
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
				options.MaxBackoff = longestBackoff
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
	return c.sdk.Credentials, nil
}

// ownWebIdentity signs with the token of the manager's own service account. No
// other file is read, and the token goes to no address that a provider config
// names: with it a tenant could act as the manager.
func (c *Config) ownWebIdentity(given Credentials) (sdkaws.CredentialsProvider, error) {
	file := os.Getenv(identityFileEnv)
	if file == "" && given.tokenFile == "" {
		return nil, invalid("%s needs a token, and neither the provider config nor the manager has one: put it into the credentials as a file and name that by %s, or name the role by roleARN to have it assumed",
			roleARNEnv, identityFileEnv)
	}
	if given.tokenFile != "" && given.tokenFile != file {
		return nil, invalid("%s names a file that the manager does not read: put the token into the credentials as a file and name that without a directory", identityFileEnv)
	}
	role := cmp.Or(given.webIdentityRole, os.Getenv(roleARNEnv))
	if role == "" {
		return nil, invalid("%s is given without %s: add it to the credentials", identityFileEnv, roleARNEnv)
	}
	return webIdentity(sts.NewFromConfig(c.sdk), role, given.sessionName, stscreds.IdentityTokenFile(file)), nil
}

func webIdentity(client *sts.Client, role, session string, token stscreds.IdentityTokenRetriever) sdkaws.CredentialsProvider {
	return stscreds.NewWebIdentityRoleProvider(client, role, token, func(options *stscreds.WebIdentityRoleOptions) {
		options.RoleSessionName = cmp.Or(session, userAgent)
	})
}

// identityToken is a token that a provider config carries.
type identityToken struct{ Secret }

// GetIdentityToken implements stscreds.IdentityTokenRetriever.
func (t identityToken) GetIdentityToken() ([]byte, error) { return []byte(t.Reveal()), nil }

// sign has requests signed by what provider returns.
func (c *Config) sign(provider sdkaws.CredentialsProvider, explain func(error) error) {
	cache, cached := provider.(*sdkaws.CredentialsCache)
	if !cached {
		cache = sdkaws.NewCredentialsCache(provider)
	}
	c.signer = &signer{cache: cache, explain: explain}
	c.sdk.Credentials = c.signer
}

// Region returns the region that requests go to.
func (c Config) Region() string { return c.sdk.Region }

// String tells where the credentials come from, and the region.
func (c Config) String() string { return c.text }

// GoString is String.
func (c Config) GoString() string { return c.text }

// Format writes String for every verb.
func (c Config) Format(state fmt.State, _ rune) { writeString(state, c.text) }

// MarshalText has JSON, YAML and structured logs show String.
func (c Config) MarshalText() ([]byte, error) { return []byte(c.text), nil }

func (c Config) sts(change ...func(*sts.Options)) *sts.Client {
	return sts.NewFromConfig(c.sdk, append([]func(*sts.Options){func(o *sts.Options) {
		if address := c.endpoints.of(stsService); address != nil {
			o.BaseEndpoint = address
		}
	}}, change...)...)
}

func (c Config) iam() *iam.Client {
	return iam.NewFromConfig(c.sdk, func(o *iam.Options) {
		if address := c.endpoints.of(iamService); address != nil {
			o.BaseEndpoint = address
		}
	})
}

func (c Config) ec2() *ec2.Client {
	return ec2.NewFromConfig(c.sdk, func(o *ec2.Options) {
		if address := c.endpoints.of(ec2Service); address != nil {
			o.BaseEndpoint = address
		}
	})
}

// signer fetches and keeps credentials, and says why there are none.
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

// outliving returns credentials that are valid until then if such can be had,
// else the ones that last longest.
func (s *signer) outliving(ctx context.Context, then time.Time) (sdkaws.Credentials, error) {
	keys, err := s.Retrieve(ctx)
	if err != nil || !keys.CanExpire || !keys.Expires.Before(then) {
		return keys, err
	}
	s.cache.Invalidate()
	if fresh, err := s.Retrieve(ctx); err == nil && (!fresh.CanExpire || fresh.Expires.After(keys.Expires)) {
		return fresh, nil
	}
	return keys, nil
}

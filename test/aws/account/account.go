package account

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/aws-sdk-go-v2/service/iam"
)

// Account is an AWS account in one region, with the credentials of the user: those of the
// environment, of a profile, or of a session of IAM Identity Center.
type Account struct {
	config aws.Config
	ec2    *ec2.Client
	eks    *eks.Client
	elb    *elasticloadbalancing.Client
	elbV2  *elasticloadbalancingv2.Client
	iam    *iam.Client
}

// Open returns the account of the user's credentials.
func Open(ctx context.Context, region string, options ...func(*config.LoadOptions) error) (*Account, error) {
	cfg, err := config.LoadDefaultConfig(ctx, append(options, config.WithRegion(region))...)
	if err != nil {
		return nil, fmt.Errorf("loading the credentials of AWS: %w", err)
	}
	return &Account{
		config: cfg, ec2: ec2.NewFromConfig(cfg), eks: eks.NewFromConfig(cfg), elb: elasticloadbalancing.NewFromConfig(cfg),
		elbV2: elasticloadbalancingv2.NewFromConfig(cfg), iam: iam.NewFromConfig(cfg),
	}, nil
}

// Environment returns the credentials as environment variables.
func (a *Account) Environment(ctx context.Context) (map[string]string, error) {
	keys, err := a.config.Credentials.Retrieve(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the credentials: %w", err)
	}
	env := map[string]string{"AWS_ACCESS_KEY_ID": keys.AccessKeyID, "AWS_SECRET_ACCESS_KEY": keys.SecretAccessKey}
	if keys.SessionToken != "" {
		env["AWS_SESSION_TOKEN"] = keys.SessionToken
	}
	return env, nil
}

// maxAnswer limits the size of a response.
const maxAnswer = 16 << 20

// notFoundError is the error of an object that does not exist.
type notFoundError struct{ text string }

func (e notFoundError) Error() string { return e.text }

// post calls an action of a service with a JSON protocol, for which there is no client of the SDK.
func (a *Account) post(ctx context.Context, service, target string, input map[string]any, into any) error {
	body, err := json.Marshal(input)
	if err != nil {
		return fmt.Errorf("encoding a request: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, a.address(service)+"/", bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("calling %s: %w", service, err)
	}
	request.Header.Set("Content-Type", "application/x-amz-json-1.1")
	if service == "sqs" {
		request.Header.Set("Content-Type", "application/x-amz-json-1.0")
	}
	request.Header.Set("X-Amz-Target", target)
	keys, err := a.config.Credentials.Retrieve(ctx)
	if err != nil {
		return fmt.Errorf("reading the credentials: %w", err)
	}
	hash := sha256.Sum256(body)
	if err := v4.NewSigner().SignHTTP(ctx, keys, request, hex.EncodeToString(hash[:]), service, a.config.Region, time.Now()); err != nil {
		return fmt.Errorf("signing a request: %w", err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("calling %s: %w", service, err)
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("reading the response of %s: %w", service, err)
	}
	if response.StatusCode >= http.StatusBadRequest {
		text := fmt.Sprintf("%s %s: %s: %s", service, target, response.Status, answer)
		if response.StatusCode == http.StatusNotFound || strings.Contains(string(answer), "NotFound") || strings.Contains(string(answer), "NonExistent") {
			return notFoundError{text}
		}
		return errors.New(text)
	}
	if into == nil || len(answer) == 0 {
		return nil
	}
	if err := json.Unmarshal(answer, into); err != nil {
		return fmt.Errorf("reading the response of %s: %w", service, err)
	}
	return nil
}

// address returns the address of a service: that of the environment, or that of AWS.
func (a *Account) address(service string) string {
	if a.config.BaseEndpoint != nil {
		return strings.TrimSuffix(*a.config.BaseEndpoint, "/")
	}
	domain := "amazonaws.com"
	if strings.HasPrefix(a.config.Region, "cn-") {
		domain = "amazonaws.com.cn"
	}
	return "https://" + service + "." + a.config.Region + "." + domain
}

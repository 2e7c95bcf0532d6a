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
	"github.com/aws/aws-sdk-go-v2/service/iam"
)

// Account is an AWS account in one region, with the credentials of the user: those of the
// environment, of a profile, or of a session of IAM Identity Center.
type Account struct {
	config aws.Config
	ec2    *ec2.Client
	iam    *iam.Client
}

// Open returns the account of the user's credentials.
func Open(ctx context.Context, region string, options ...func(*config.LoadOptions) error) (*Account, error) {
	cfg, err := config.LoadDefaultConfig(ctx, append(options, config.WithRegion(region))...)
	if err != nil {
		return nil, fmt.Errorf("loading the credentials of AWS: %w", err)
	}
	return &Account{config: cfg, ec2: ec2.NewFromConfig(cfg), iam: iam.NewFromConfig(cfg)}, nil
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

// plainCall is a call of a service without a client of the SDK.
type plainCall struct {
	service, method, path string
	// target is the action of a service with a JSON protocol over POST.
	target string
	body   any
}

// maxAnswer limits the size of a response.
const maxAnswer = 16 << 20

// notFoundError is the error of an object that does not exist.
type notFoundError struct{ text string }

func (e notFoundError) Error() string { return e.text }

// call calls an action of a service whose protocol is JSON.
func (a *Account) call(ctx context.Context, c plainCall, into any) error {
	var body []byte
	if c.body != nil {
		var err error
		if body, err = json.Marshal(c.body); err != nil {
			return fmt.Errorf("encoding a request: %w", err)
		}
	}
	kind := ""
	switch {
	case c.target != "" && c.service == "sqs":
		kind = "application/x-amz-json-1.0"
	case c.target != "":
		kind = "application/x-amz-json-1.1"
	}
	answer, err := a.send(ctx, c, body, kind)
	if err != nil || into == nil || len(answer) == 0 {
		return err
	}
	if err := json.Unmarshal(answer, into); err != nil {
		return fmt.Errorf("reading the response of %s: %w", c.service, err)
	}
	return nil
}

// send sends a signed request. A response with an error is an error.
func (a *Account) send(ctx context.Context, c plainCall, body []byte, kind string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, c.method, a.address(c.service)+c.path, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("calling %s: %w", c.service, err)
	}
	if kind != "" {
		request.Header.Set("Content-Type", kind)
	}
	if c.target != "" {
		request.Header.Set("X-Amz-Target", c.target)
	}
	keys, err := a.config.Credentials.Retrieve(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the credentials: %w", err)
	}
	hash := sha256.Sum256(body)
	if err := v4.NewSigner().SignHTTP(ctx, keys, request, hex.EncodeToString(hash[:]), c.service, a.config.Region, time.Now()); err != nil {
		return nil, fmt.Errorf("signing a request: %w", err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("calling %s: %w", c.service, err)
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("reading the response of %s: %w", c.service, err)
	}
	if response.StatusCode < http.StatusBadRequest {
		return answer, nil
	}
	text := fmt.Sprintf("%s %s%s: %s: %s", c.service, c.target, c.path, response.Status, answer)
	if response.StatusCode == http.StatusNotFound || strings.Contains(string(answer), "NotFound") || strings.Contains(string(answer), "NonExistent") {
		return nil, notFoundError{text}
	}
	return nil, errors.New(text)
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

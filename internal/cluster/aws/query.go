package aws

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"time"

	sdkaws "github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/smithy-go"
)

// plainService is a service that is called without a client of the SDK: a few calls of
// it do not justify a further dependency.
type plainService struct {
	// signingName is the name in signatures, and the first label of the host.
	signingName string
	// endpoint is the name in variables such as AWS_ENDPOINT_URL_ELASTIC_LOAD_BALANCING.
	endpoint string
	// version is the version of the Query protocol, if the service has it.
	version string
}

var (
	classicLoadBalancing = plainService{signingName: "elasticloadbalancing", endpoint: elbService, version: "2012-06-01"}
	loadBalancing        = plainService{signingName: "elasticloadbalancing", endpoint: elbV2Service, version: "2015-12-01"}
	eks                  = plainService{signingName: "eks", endpoint: eksService}
)

// maxAnswer limits the size of a response. Pages have at most 400 items.
const maxAnswer = 16 << 20

// query calls an action of the Query protocol and decodes its response, which is XML.
func (c Config) query(ctx context.Context, service plainService, action string, form url.Values, into any) error {
	values := url.Values{"Action": {action}, "Version": {service.version}}
	maps.Copy(values, form)
	header := http.Header{"Content-Type": {"application/x-www-form-urlencoded; charset=utf-8"}}
	answer, err := c.call(ctx, service, plainRequest{method: http.MethodPost, header: header, body: []byte(values.Encode())})
	if err == nil && into != nil {
		err = xml.Unmarshal(answer, into)
	}
	return explain(service.signingName+":"+action, err)
}

// get calls an action of a service whose protocol is JSON, which reads a path, and decodes
// its response.
func (c Config) get(ctx context.Context, service plainService, action, path string, into any) error {
	answer, err := c.call(ctx, service, plainRequest{method: http.MethodGet, path: path})
	if err == nil {
		err = json.Unmarshal(answer, into)
	}
	return explain(service.signingName+":"+action, err)
}

// plainRequest is a request that is not signed yet.
type plainRequest struct {
	method string
	// path is appended to the address of the service.
	path   string
	header http.Header
	body   []byte
}

// call sends a signed request, and repeats it if AWS is overloaded.
func (c Config) call(ctx context.Context, service plainService, m plainRequest) ([]byte, error) {
	address, err := c.address(ctx, service)
	if err != nil {
		return nil, err
	}
	if m.path != "" {
		address = strings.TrimSuffix(address, "/") + m.path
	}
	for attempt := 1; ; attempt++ {
		answer, status, err := c.send(ctx, service, address, m)
		if err == nil {
			return answer, nil
		}
		if attempt == attempts || !isRepeatable(err, status) {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(time.Duration(attempt) * maxBackoff / attempts):
		}
	}
}

func isRepeatable(err error, status int) bool {
	return status == 0 || status >= http.StatusInternalServerError || throttled.IsErrorThrottle(err) == sdkaws.TrueTernary
}

// send signs and sends one request. A response with an error is an error.
func (c Config) send(ctx context.Context, service plainService, address string, m plainRequest) (answer []byte, status int, err error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, m.method, address, bytes.NewReader(m.body))
	if err != nil {
		return nil, 0, err
	}
	maps.Copy(request.Header, m.header)
	request.Header.Set("User-Agent", userAgent)
	keys, err := c.sdk.Credentials.Retrieve(ctx)
	if err != nil {
		return nil, http.StatusUnauthorized, err
	}
	hash := sha256.Sum256(m.body)
	if err := v4.NewSigner().SignHTTP(ctx, keys, request, hex.EncodeToString(hash[:]), service.signingName, c.Region(), time.Now()); err != nil {
		return nil, http.StatusUnauthorized, err
	}
	response, err := c.sdk.HTTPClient.Do(request)
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = response.Body.Close() }()
	answer, err = io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err == nil && response.StatusCode >= http.StatusBadRequest {
		err = refusal(answer, response)
	}
	return answer, response.StatusCode, err
}

// address returns the address of a service: the one that the provider config or the
// manager sets, or that of AWS. It follows the address of EC2, which has the same form in
// every partition, and for FIPS and dual-stack endpoints.
func (c Config) address(ctx context.Context, service plainService) (string, error) {
	if address := c.endpoints.of(service.endpoint); address != nil {
		return *address, nil
	}
	if c.sdk.BaseEndpoint != nil {
		return *c.sdk.BaseEndpoint, nil
	}
	options := c.ec2().Options()
	endpoint, err := ec2.NewDefaultEndpointResolverV2().ResolveEndpoint(ctx, ec2.EndpointParameters{
		Region:       new(c.Region()),
		UseFIPS:      new(options.EndpointOptions.UseFIPSEndpoint == sdkaws.FIPSEndpointStateEnabled),
		UseDualStack: new(options.EndpointOptions.UseDualStackEndpoint == sdkaws.DualStackEndpointStateEnabled),
	})
	if err != nil {
		return "", fmt.Errorf("finding the address of %s: %w", service.signingName, err)
	}
	address := endpoint.URI
	rest := strings.TrimPrefix(address.Host, "ec2")
	address.Host = service.signingName + rest
	if domain, fips := strings.CutPrefix(rest, "-fips"); fips && service == eks {
		address.Host = "fips.eks" + domain
	}
	address.Path = "/"
	return address.String(), nil
}

// refusal returns the error of a response.
func refusal(answer []byte, response *http.Response) error {
	var fromXML struct {
		Code    string `xml:"Error>Code"`
		Message string `xml:"Error>Message"`
	}
	if err := xml.Unmarshal(answer, &fromXML); err == nil && fromXML.Code != "" {
		return &smithy.GenericAPIError{Code: fromXML.Code, Message: fromXML.Message}
	}
	if code, _, _ := strings.Cut(response.Header.Get("X-Amzn-Errortype"), ":"); code != "" {
		var fromJSON struct {
			Message string `json:"message"`
		}
		_ = json.Unmarshal(answer, &fromJSON)
		return &smithy.GenericAPIError{Code: code, Message: fromJSON.Message}
	}
	return &smithy.GenericAPIError{Code: fmt.Sprintf("HTTP status %d", response.StatusCode)}
}

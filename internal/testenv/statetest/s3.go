package statetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// ErrExists means that an object was not created because it exists.
var ErrExists = errors.New("the object exists")

// S3 is a bucket of an S3 server that accepts any credentials, such as that of moto. It
// reads and writes objects without an SDK.
type S3 struct {
	// Address is the URL of the server.
	Address string
	Bucket  string
}

// Configuration returns the arguments of the s3 backend for a key, which may contain
// placeholders. It contains no credentials.
func (s *S3) Configuration(key string) string {
	return fmt.Sprintf(`
bucket                      = %q
key                         = %q
region                      = "us-east-1"
use_lockfile                = true
use_path_style              = true
skip_credentials_validation = true
skip_requesting_account_id  = true
skip_metadata_api_check     = true
endpoints                   = { s3 = %q }
`, s.Bucket, key, s.Address)
}

// LockKey returns the key of the lock of a state.
func LockKey(key string) string { return key + ".tflock" }

// CreateBucket creates the bucket.
func (s *S3) CreateBucket(ctx context.Context) error {
	_, err := s.call(ctx, http.MethodPut, "", nil, false)
	return err
}

// Get returns an object, or nil if it does not exist.
func (s *S3) Get(ctx context.Context, key string) ([]byte, error) {
	return s.call(ctx, http.MethodGet, "/"+key, nil, false)
}

// Put writes an object.
func (s *S3) Put(ctx context.Context, key string, content []byte) error {
	_, err := s.call(ctx, http.MethodPut, "/"+key, content, false)
	return err
}

// Create writes an object unless it exists. It then returns ErrExists.
func (s *S3) Create(ctx context.Context, key string, content []byte) error {
	_, err := s.call(ctx, http.MethodPut, "/"+key, content, true)
	return err
}

// Delete deletes an object.
func (s *S3) Delete(ctx context.Context, key string) error {
	_, err := s.call(ctx, http.MethodDelete, "/"+key, nil, false)
	return err
}

func (s *S3) call(ctx context.Context, method, path string, content []byte, isNew bool) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, s.Address+"/"+s.Bucket+path, bytes.NewReader(content))
	if err != nil {
		return nil, fmt.Errorf("calling S3: %w", err)
	}
	// The server does not check the signature, but it rejects anonymous requests.
	request.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0")
	if isNew {
		request.Header.Set("If-None-Match", "*")
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("calling S3: %w", err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	switch {
	case err != nil:
		return nil, fmt.Errorf("calling S3: %w", err)
	case response.StatusCode == http.StatusPreconditionFailed:
		return nil, ErrExists
	case response.StatusCode == http.StatusNotFound && method != http.MethodPut:
		return nil, nil
	case response.StatusCode != http.StatusOK && response.StatusCode != http.StatusNoContent:
		return nil, fmt.Errorf("calling S3: %s: %s", response.Status, bytes.TrimSpace(body))
	}
	return body, nil
}

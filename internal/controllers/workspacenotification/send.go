package workspacenotification

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/kubernetes/dial"
	"github.com/appthrust/capt/internal/version"
)

// sendTimeout limits the time of one message.
const sendTimeout = 10 * time.Second

// maxResponseHeader limits what is read of an answer. Its body is not read.
const maxResponseHeader = 16 << 10

// errRefused reports that the destination will not accept the message, however often it is
// sent.
var errRefused = errors.New("the destination refused the message")

// send sends a message. It blocks for up to ten seconds. Its errors contain neither the
// address nor the answer.
func (r *Reconciler) send(ctx context.Context, to *destination, format infrav1.NotificationFormat, m message) error {
	body, contentType, err := encode(format, m)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, to.address.String(), bytes.NewReader(body))
	if err != nil {
		return errors.New("the address is not valid")
	}
	request.Header.Set("Content-Type", contentType)
	request.Header.Set("User-Agent", "capt/"+version.Get().Version)
	if to.token != "" {
		request.Header.Set("Authorization", "Bearer "+to.token)
	}
	sign(request.Header, to.key, m.ID, r.Now(), body)
	response, err := r.client(to).Do(request)
	if err != nil {
		return describe(err)
	}
	_ = response.Body.Close()
	err = judge(response.StatusCode)
	if after := retryAfter(response, r.Now()); err != nil && after > 0 {
		return &busyError{error: err, after: after}
	}
	return err
}

// busyError is the error of a destination that wants the message later.
type busyError struct {
	error
	after time.Duration
}

func (e *busyError) Unwrap() error { return e.error }

// maxRetryAfter limits how long a destination can defer messages.
const maxRetryAfter = time.Hour

// retryAfter returns how long a destination with too many requests wants to be left alone,
// or zero. It is a number of seconds or a time.
func retryAfter(response *http.Response, now time.Time) time.Duration {
	if response.StatusCode != http.StatusTooManyRequests && response.StatusCode != http.StatusServiceUnavailable {
		return 0
	}
	header := response.Header.Get("Retry-After")
	var after time.Duration
	if seconds, err := strconv.ParseUint(header, 10, 32); err == nil {
		after = time.Duration(seconds) * time.Second
	} else if at, err := http.ParseTime(header); err == nil {
		after = at.Sub(now)
	}
	return min(max(after, 0), maxRetryAfter)
}

// client returns a client that connects only to allowed addresses and follows no redirect.
func (r *Reconciler) client(to *destination) *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DisableKeepAlives = true
	transport.MaxResponseHeaderBytes = maxResponseHeader
	transport.TLSClientConfig = &tls.Config{RootCAs: to.roots, MinVersion: tls.VersionTLS12}
	return &http.Client{
		Transport:     r.Network.Transport(transport),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// sign sets the headers of Standard Webhooks: the id of the message, when it was sent and,
// with a key, the signature of both and of the body.
func sign(header http.Header, key []byte, id string, now time.Time, body []byte) {
	timestamp := strconv.FormatInt(now.Unix(), 10)
	header.Set("Webhook-Id", id)
	header.Set("Webhook-Timestamp", timestamp)
	if len(key) == 0 {
		return
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(id + "." + timestamp + "."))
	mac.Write(body)
	header.Set("Webhook-Signature", "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
}

// judge returns an error for a status of a failure.
func judge(status int) error {
	switch {
	case status >= 200 && status < 300:
		return nil
	case status >= 300 && status < 400:
		return fmt.Errorf("the destination redirects (HTTP %d), which is not followed: set the final address", status)
	case status == http.StatusBadRequest, status == http.StatusRequestEntityTooLarge, status == http.StatusUnprocessableEntity:
		return fmt.Errorf("%w with HTTP %d: check spec.format", errRefused, status)
	default:
		return fmt.Errorf("the destination answered HTTP %d", status)
	}
}

// describe returns the cause of a failed request without the address. It does not tell a
// closed port from one that is filtered: a user could search the network of the manager.
func describe(err error) error {
	var dns *net.DNSError
	var certificate *tls.CertificateVerificationError
	switch {
	case errors.Is(err, dial.ErrDenied):
		return errors.New("the manager does not connect to this address: an administrator allows it with --allowed-notification-hosts or --allowed-cidrs")
	case errors.As(err, &dns):
		return errors.New("the host of the address cannot be resolved")
	case errors.As(err, &certificate):
		return errors.New("the certificate of the destination is not trusted for its host: set ca.crt in the Secret if it is private")
	default:
		return fmt.Errorf("the connection to the destination failed, or it did not answer within %s", sendTimeout)
	}
}

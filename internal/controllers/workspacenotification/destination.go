package workspacenotification

import (
	"context"
	"crypto/x509"
	"encoding/base64"
	"net/url"
	"strings"

	corev1 "k8s.io/api/core/v1"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// minSigningKey is the length of the shortest key, in bytes.
const minSigningKey = 16

// standardPrefix precedes a key in base64, as Standard Webhooks defines it.
const standardPrefix = "whsec_"

// destination is where messages are sent.
type destination struct {
	address *url.URL
	token   string
	key     []byte
	// roots are the trusted certificates, or nil for those of the system.
	roots *x509.CertPool
}

// destinationValid reads the destination from its Secret.
func destinationValid(_ context.Context, s *scope) error {
	name := s.notification.Spec.SecretRef.Name
	if s.secret == nil {
		return fault.Wait(infrav1.WaitingForSecretReason, "Secret %s does not exist: create it with the key %s", name, infrav1.NotificationAddressKey)
	}
	d, problem := readDestination(s.secret)
	if problem != "" {
		return fault.Stall(infrav1.DestinationInvalidReason, "Secret %s: %s", name, problem)
	}
	s.destination = d
	return nil
}

// readDestination returns the destination in a Secret, or what is wrong with it. The problem
// has no content of the Secret.
func readDestination(secret *corev1.Secret) (d *destination, problem string) {
	text := func(key string) string { return strings.TrimSpace(string(secret.Data[key])) }
	d = &destination{token: text(infrav1.NotificationTokenKey)}
	address, err := url.Parse(text(infrav1.NotificationAddressKey))
	switch {
	case text(infrav1.NotificationAddressKey) == "":
		return nil, "the key address is missing: set it to the address, which starts with https://"
	case err != nil || address.Scheme != "https" || address.Hostname() == "" || address.Fragment != "":
		return nil, "the key address must be an address that starts with https://, such as https://hooks.example.com/capt"
	case strings.ContainsFunc(d.token, func(c rune) bool { return c < ' ' || c > '~' }):
		return nil, "the key token must be one line of printable ASCII characters"
	}
	d.address = address
	if key, found := secret.Data[infrav1.NotificationSigningKey]; found {
		d.key = key
		if encoded, ok := strings.CutPrefix(strings.TrimSpace(string(key)), standardPrefix); ok {
			if d.key, err = base64.StdEncoding.DecodeString(encoded); err != nil {
				return nil, "the key signingKey starts with whsec_, but what follows is not base64"
			}
		}
		if len(d.key) < minSigningKey {
			return nil, "the key signingKey is too short: use at least 16 random bytes"
		}
	}
	if pem, found := secret.Data[infrav1.NotificationCAKey]; found {
		d.roots = x509.NewCertPool()
		if !d.roots.AppendCertsFromPEM(pem) {
			return nil, "the key ca.crt has no certificate in PEM"
		}
	}
	return d, ""
}

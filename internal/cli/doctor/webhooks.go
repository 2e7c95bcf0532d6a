package doctor

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// hook is one webhook of a configuration.
type hook struct {
	configuration, name string
	client              admissionregistrationv1.WebhookClientConfig
	rules               []admissionregistrationv1.RuleWithOperations
}

// webhooks looks at the configurations of CAPT's webhooks and at what they
// point to, and has them asked once by a dry run.
func (d *Doctor) webhooks(ctx context.Context) ([]Result, error) {
	hooks, err := d.hooks(ctx)
	if err != nil {
		return nil, err
	}
	if len(hooks) == 0 {
		return []Result{{
			Status: Warn, Message: "no webhooks are configured: what schemas and CEL rules cannot see is found late, by conditions", Mend: installCAPT,
		}}, nil
	}
	var found []Result
	seen := map[string]bool{}
	for _, h := range hooks {
		for _, result := range d.examine(ctx, h) {
			// Webhooks of one configuration mostly share where they point to.
			key := h.configuration + result.Message
			if !seen[key] {
				found = append(found, result)
			}
			seen[key] = true
		}
	}
	if result := d.ask(ctx); result != nil {
		found = append(found, *result)
	}
	return orFine(found, "%d webhooks are configured and answer", len(hooks)), nil
}

func (d *Doctor) hooks(ctx context.Context) ([]hook, error) {
	var validating admissionregistrationv1.ValidatingWebhookConfigurationList
	if err := d.Client.List(ctx, &validating); err != nil {
		return nil, fmt.Errorf("listing webhook configurations: %w", err)
	}
	var mutating admissionregistrationv1.MutatingWebhookConfigurationList
	if err := d.Client.List(ctx, &mutating); err != nil {
		return nil, fmt.Errorf("listing webhook configurations: %w", err)
	}
	var all []hook
	for _, c := range validating.Items {
		for _, w := range c.Webhooks {
			all = append(all, hook{configuration: "ValidatingWebhookConfiguration " + c.Name, name: w.Name, client: w.ClientConfig, rules: w.Rules})
		}
	}
	for _, c := range mutating.Items {
		for _, w := range c.Webhooks {
			all = append(all, hook{configuration: "MutatingWebhookConfiguration " + c.Name, name: w.Name, client: w.ClientConfig, rules: w.Rules})
		}
	}
	return slices.DeleteFunc(all, func(h hook) bool { return !h.isOurs() }), nil
}

// isOurs tells whether a webhook is about kinds of CAPT's.
func (h hook) isOurs() bool {
	groups := []string{infrav1.GroupVersion.Group, controlplanev1.GroupVersion.Group, addonsv1.GroupVersion.Group}
	for _, rule := range h.rules {
		ours := slices.ContainsFunc(rule.APIGroups, func(group string) bool { return slices.Contains(groups, group) })
		kinds := slices.ContainsFunc(rule.Resources, func(resource string) bool {
			return strings.HasPrefix(resource, "capt") || strings.HasPrefix(resource, "workspace")
		})
		if ours && kinds {
			return true
		}
	}
	return false
}

const mendCertificate = "have cert-manager issue it again: kubectl delete secret -n capt-system webhook-service-cert"

func (d *Doctor) examine(ctx context.Context, h hook) []Result {
	var found []Result
	add := func(mend, format string, args ...any) {
		found = append(found, Result{Status: Fail, Object: h.configuration, Message: fmt.Sprintf(format, args...), Mend: mend})
	}
	switch authorities, err := parse(h.client.CABundle); {
	case len(h.client.CABundle) == 0:
		add("check the annotation cert-manager.io/inject-ca-from and that cert-manager runs", "it has no caBundle, so the API server trusts no webhook")
	case err != nil:
		add(mendCertificate, "its caBundle holds no certificate")
	default:
		for _, authority := range authorities {
			if expired := d.expires(authority); expired != "" {
				add(mendCertificate, "the authority of its caBundle %s", expired)
			}
		}
		if h.client.URL != nil {
			if err := d.dial(ctx, *h.client.URL, authorities); err != nil {
				add("start what serves it, or remove the configuration", "%s does not answer: %v", host(*h.client.URL), err)
			}
		}
	}
	if service := h.client.Service; service != nil {
		if problem, mend := d.serves(ctx, service); problem != "" {
			add(mend, "%s", problem)
		}
	}
	return found
}

func parse(bundle []byte) ([]*x509.Certificate, error) {
	var all []*x509.Certificate
	for block, rest := pem.Decode(bundle); block != nil; block, rest = pem.Decode(rest) {
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		all = append(all, certificate)
	}
	if len(all) == 0 {
		return nil, errors.New("no certificate")
	}
	return all, nil
}

func (d *Doctor) expires(certificate *x509.Certificate) string {
	if left := certificate.NotAfter.Sub(d.Now()); left < 0 {
		return fmt.Sprintf("has expired %s ago", ago(-left))
	}
	return ""
}

func host(address string) string {
	parsed, err := url.Parse(address)
	if err != nil {
		return address
	}
	return parsed.Host
}

// dial tells whether a server with the right certificate answers.
func (d *Doctor) dial(ctx context.Context, address string, authorities []*x509.Certificate) error {
	pool := x509.NewCertPool()
	for _, authority := range authorities {
		pool.AddCert(authority)
	}
	dialer := &tls.Dialer{
		NetDialer: &net.Dialer{Timeout: 5 * time.Second},
		Config:    &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12, Time: d.Now},
	}
	connection, err := dialer.DialContext(ctx, "tcp", host(address))
	if err != nil {
		return err
	}
	return connection.Close()
}

// serves tells whether a Service has anything behind it.
func (d *Doctor) serves(ctx context.Context, service *admissionregistrationv1.ServiceReference) (problem, mend string) {
	name := service.Namespace + "/" + service.Name
	err := d.Client.Get(ctx, client.ObjectKey{Namespace: service.Namespace, Name: service.Name}, &corev1.Service{})
	if apierrors.IsNotFound(err) {
		return "it points to Service " + name + ", which does not exist", installCAPT
	}
	var slicesOf discoveryv1.EndpointSliceList
	listed := d.Client.List(ctx, &slicesOf, client.InNamespace(service.Namespace), client.MatchingLabels{discoveryv1.LabelServiceName: service.Name})
	if err := errors.Join(err, listed); err != nil {
		return "it could not be seen whether Service " + name + " answers: " + err.Error(), "kubectl get service,endpointslices -n " + service.Namespace
	}
	for _, s := range slicesOf.Items {
		for _, endpoint := range s.Endpoints {
			if endpoint.Conditions.Ready == nil || *endpoint.Conditions.Ready {
				return "", ""
			}
		}
	}
	return "it points to Service " + name + ", behind which nothing is ready", "kubectl get pods -n " + service.Namespace
}

// ask has the webhooks asked about an object that is not created.
func (d *Doctor) ask(ctx context.Context) *Result {
	namespace := d.Namespace
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	probe := &infrav1.WorkspaceProviderConfig{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "captctl-doctor-"}}
	err := d.Client.Create(ctx, probe, client.DryRunAll)
	switch {
	case err == nil, apierrors.IsForbidden(err), apierrors.IsNotFound(err):
		return nil
	case strings.Contains(err.Error(), "failed calling webhook"):
		return &Result{
			Status: Fail, Message: "the API server cannot ask the webhooks, so it refuses every change: " + err.Error(),
			Mend: "see whether the manager runs: kubectl get pods -A -l control-plane=controller-manager",
		}
	default:
		return &Result{Status: Warn, Message: "a dry run was refused: " + err.Error(), Mend: "kubectl get validatingwebhookconfigurations"}
	}
}

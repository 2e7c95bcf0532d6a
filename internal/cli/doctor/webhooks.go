package doctor

import (
	"context"
	"crypto/tls"
	"crypto/x509"
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
	"k8s.io/apimachinery/pkg/util/duration"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	bootstrapv1 "github.com/appthrust/capt/api/bootstrap/v1beta1"
	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// webhook is a webhook of a configuration.
type webhook struct {
	configuration, name string
	client              admissionregistrationv1.WebhookClientConfig
	rules               []admissionregistrationv1.RuleWithOperations
	// certificate is the namespace and name of the Certificate whose CA cert-manager writes
	// to the configuration, or empty.
	certificate string
}

// injectedFrom is the annotation of cert-manager with the Certificate of a configuration.
const injectedFrom = "cert-manager.io/inject-ca-from"

// webhooks checks the configurations of CAPT's webhooks, their Services and
// certificates, and calls them once with a dry run.
func (d *Doctor) webhooks(ctx context.Context) ([]Result, error) {
	hooks, err := d.listWebhooks(ctx)
	if err != nil {
		return nil, err
	}
	if len(hooks) == 0 {
		return []Result{{
			Status: Warn, Message: "no webhooks are configured: errors that schemas and CEL rules do not catch are reported late, in conditions", Fix: installCAPT,
		}}, nil
	}
	var problems []Result
	seen := map[string]bool{}
	for _, h := range hooks {
		for _, result := range d.webhookProblems(ctx, h) {
			// The webhooks of a configuration usually share one server: report it once.
			key := h.configuration + result.Message
			if !seen[key] {
				problems = append(problems, result)
			}
			seen[key] = true
		}
	}
	if result := d.dryRun(ctx); result != nil {
		problems = append(problems, *result)
	}
	return orOK(problems, "%d webhooks are configured and reachable", len(hooks)), nil
}

func (d *Doctor) listWebhooks(ctx context.Context) ([]webhook, error) {
	var validating admissionregistrationv1.ValidatingWebhookConfigurationList
	if err := d.Client.List(ctx, &validating); err != nil {
		return nil, fmt.Errorf("listing webhook configurations: %w", err)
	}
	var mutating admissionregistrationv1.MutatingWebhookConfigurationList
	if err := d.Client.List(ctx, &mutating); err != nil {
		return nil, fmt.Errorf("listing webhook configurations: %w", err)
	}
	var all []webhook
	for _, c := range validating.Items {
		for _, w := range c.Webhooks {
			all = append(all, webhook{configuration: "ValidatingWebhookConfiguration " + c.Name, name: w.Name, client: w.ClientConfig, rules: w.Rules, certificate: c.Annotations[injectedFrom]})
		}
	}
	for _, c := range mutating.Items {
		for _, w := range c.Webhooks {
			all = append(all, webhook{configuration: "MutatingWebhookConfiguration " + c.Name, name: w.Name, client: w.ClientConfig, rules: w.Rules, certificate: c.Annotations[injectedFrom]})
		}
	}
	return slices.DeleteFunc(all, func(h webhook) bool { return !h.isOurs() }), nil
}

// isOurs reports whether a webhook is for kinds of CAPT.
func (h webhook) isOurs() bool {
	groups := []string{infrav1.GroupVersion.Group, controlplanev1.GroupVersion.Group, bootstrapv1.GroupVersion.Group, addonsv1.GroupVersion.Group}
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

// renewCertificate returns how to replace the certificate of a webhook.
func (h webhook) renewCertificate() string {
	namespace, name, found := strings.Cut(h.certificate, "/")
	if !found {
		return "write a new certificate to the Secret that the manager's pods mount, and its CA to caBundle"
	}
	return fmt.Sprintf("make cert-manager issue a new certificate: kubectl delete secret -n %[1]s $(kubectl get certificate -n %[1]s %[2]s -o jsonpath={.spec.secretName})", namespace, name)
}

// webhookProblems returns the problems of a webhook's CA bundle and server.
func (d *Doctor) webhookProblems(ctx context.Context, h webhook) []Result {
	var problems []Result
	add := func(fix, format string, args ...any) {
		problems = append(problems, Result{Status: Fail, Object: h.configuration, Message: fmt.Sprintf(format, args...), Fix: fix})
	}
	switch authorities, err := certutil.ParseCertsPEM(h.client.CABundle); {
	case len(h.client.CABundle) == 0:
		add("check the annotation "+injectedFrom+", and that cert-manager is running", "no caBundle: the API server does not trust the webhook")
	case err != nil:
		add(h.renewCertificate(), "caBundle has no valid certificate")
	default:
		for _, authority := range authorities {
			if age := d.Now().Sub(authority.NotAfter); age > 0 {
				add(h.renewCertificate(), "the certificate in caBundle expired %s ago", duration.HumanDuration(age))
			}
		}
		if h.client.URL != nil {
			if err := d.dial(ctx, *h.client.URL, authorities); err != nil {
				add("start the server of the webhook, or delete the configuration", "%s is unreachable: %v", host(*h.client.URL), err)
			}
		}
	}
	if service := h.client.Service; service != nil {
		if problem, fix := d.serviceProblem(ctx, service); problem != "" {
			add(fix, "%s", problem)
		}
	}
	return problems
}

// servedWebhooks returns the host and port at which a server outside of the cluster
// serves CAPT's webhooks, or an empty string if none answers.
func (d *Doctor) servedWebhooks(ctx context.Context) (string, error) {
	hooks, err := d.listWebhooks(ctx)
	if err != nil {
		return "", err
	}
	for _, h := range hooks {
		authorities, err := certutil.ParseCertsPEM(h.client.CABundle)
		if err != nil || h.client.URL == nil {
			continue
		}
		if d.dial(ctx, *h.client.URL, authorities) == nil {
			return host(*h.client.URL), nil
		}
	}
	return "", nil
}

// host returns the host and port of a URL.
func host(address string) string {
	parsed, err := url.Parse(address)
	if err != nil {
		return address
	}
	return parsed.Host
}

// dial connects to the server of a URL and verifies its certificate.
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

// serviceProblem returns the problem of a webhook's Service, or an empty string if
// it has a ready endpoint.
func (d *Doctor) serviceProblem(ctx context.Context, service *admissionregistrationv1.ServiceReference) (problem, fix string) {
	name := service.Namespace + "/" + service.Name
	err := d.Client.Get(ctx, client.ObjectKey{Namespace: service.Namespace, Name: service.Name}, &corev1.Service{})
	if apierrors.IsNotFound(err) {
		return "Service " + name + " does not exist", installCAPT
	}
	var endpoints discoveryv1.EndpointSliceList
	listed := d.Client.List(ctx, &endpoints, client.InNamespace(service.Namespace), client.MatchingLabels{discoveryv1.LabelServiceName: service.Name})
	if err := errors.Join(err, listed); err != nil {
		return "Service " + name + " cannot be checked: " + err.Error(), "kubectl get service,endpointslices -n " + service.Namespace
	}
	for _, slice := range endpoints.Items {
		for _, endpoint := range slice.Endpoints {
			if ptr.Deref(endpoint.Conditions.Ready, true) {
				return "", ""
			}
		}
	}
	return "Service " + name + " has no ready endpoint", "kubectl get pods -n " + service.Namespace
}

// dryRun calls the webhooks with an object that is not created.
func (d *Doctor) dryRun(ctx context.Context) *Result {
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
			Status: Fail, Message: "the API server cannot call the webhooks and refuses every change: " + err.Error(),
			Fix: "check that the manager is running: kubectl get pods -A -l control-plane=controller-manager",
		}
	default:
		return &Result{Status: Warn, Message: "a dry run was refused: " + err.Error(), Fix: "kubectl get validatingwebhookconfigurations"}
	}
}

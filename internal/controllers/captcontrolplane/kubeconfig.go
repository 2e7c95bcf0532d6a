package captcontrolplane

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/secret"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	"github.com/appthrust/capt/internal/cluster/aws"
	"github.com/appthrust/capt/internal/cluster/desired"
	"github.com/appthrust/capt/internal/cluster/workload"
	"github.com/appthrust/capt/internal/cluster/workspace"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// defaultTokenLifetime is the time after which a token is replaced.
const defaultTokenLifetime = 10 * time.Minute

// kubeconfig maintains the Secret with which Cluster API connects to the cluster.
func (r *Reconciler) kubeconfig(ctx context.Context, s *scope) error {
	found, err := r.findSecret(ctx, s, secret.Kubeconfig)
	if err != nil {
		return err
	}
	if found != nil {
		// The existing kubeconfig is used until it is replaced.
		s.kubeconfig = found.Data[secret.KubeconfigDataName]
	}
	if s.apply == nil || !workspace.Applied(s.apply) {
		return fault.Wait(controlplanev1.WaitingForOutputsReason, "The workspace has no outputs yet")
	}
	switch s.kubeconfigConfig().Source {
	case controlplanev1.KubeconfigSourceOutput:
		return r.outputKubeconfig(ctx, s, found)
	case controlplanev1.KubeconfigSourceServiceAccount:
		return r.serviceAccountKubeconfig(ctx, s, found)
	default:
		return r.tokenKubeconfig(ctx, s, found)
	}
}

// readOutput returns the kubeconfig in the output, and the expiry of its client
// certificate, or the zero time.
func (r *Reconciler) readOutput(ctx context.Context, s *scope) (content []byte, expires time.Time, err error) {
	name := s.desired().KubeconfigOutput()
	if s.apply.Status.ConnectionSecretName == "" {
		return nil, expires, fault.Wait(controlplanev1.WaitingForOutputsReason, "The workspace has no connection Secret yet")
	}
	outputs, err := r.Workspaces.Connection(ctx, s.apply, controlplanev1.WaitingForOutputsReason)
	if err != nil {
		return nil, expires, err
	}
	content = outputs[name]
	if len(content) == 0 {
		return nil, expires, fault.Stall(controlplanev1.MissingOutputReason, "Output %s of WorkspaceTemplateApply %s is empty: it must be a kubeconfig", name, s.apply.Name)
	}
	if expires, err = workload.CheckKubeconfig(content); err != nil {
		return nil, expires, fault.Stall(controlplanev1.MissingOutputReason, "Output %s of WorkspaceTemplateApply %s: %w", name, s.apply.Name, err)
	}
	return content, expires, nil
}

// outputKubeconfig copies the kubeconfig from an output.
func (r *Reconciler) outputKubeconfig(ctx context.Context, s *scope, found *corev1.Secret) error {
	content, expires, err := r.readOutput(ctx, s)
	if err != nil {
		return err
	}
	s.kubeconfig = content
	version := kubeconfigVersion{inputs: fingerprint(string(content)), renewedAt: s.now, expiresAt: expires}
	if previous := versionOf(found); previous.inputs == version.inputs {
		version.renewedAt = previous.renewedAt
	}
	if err := r.ensureKubeconfig(ctx, s, found, version); err != nil {
		return err
	}
	s.recordKubeconfig(version)
	return nil
}

// tokenKubeconfig signs a new token if the existing one is old, or was created
// from other inputs.
func (r *Reconciler) tokenKubeconfig(ctx context.Context, s *scope, found *corev1.Secret) error {
	cluster, err := s.tokenCluster()
	if err != nil {
		return err
	}
	role := s.kubeconfigConfig().RoleARN
	inputs := fingerprint(cluster.Endpoint, cluster.CA, cluster.Name, s.region(), role, s.tokenLifetime().String())
	version := versionOf(found)
	if found == nil || version.isOutdated(inputs, s.now) {
		credentials, err := r.outputCredentials(ctx, s)
		if err != nil {
			return err
		}
		token, err := r.Cloud.Token(ctx, credentials, s.region(), role, cluster)
		if err != nil {
			return err
		}
		content, err := aws.TokenKubeconfig(cluster, token)
		if err != nil {
			return fault.Stall(controlplanev1.MissingOutputReason, "The outputs of WorkspaceTemplateApply %s do not describe a cluster: %w", s.apply.Name, err)
		}
		s.kubeconfig = content
		version = newTokenVersion(inputs, s.now, token.ExpiresAt, s.tokenLifetime())
		if err := r.ensureKubeconfig(ctx, s, found, version); err != nil {
			return err
		}
	}
	s.renewAt = version.renewAt
	s.recordKubeconfig(version)
	return r.ensureUserKubeconfig(ctx, s, cluster)
}

// newTokenVersion returns the version of a kubeconfig with a new token. The token
// is replaced after the lifetime, or earlier if its credentials expire soon.
func newTokenVersion(inputs string, now, expiresAt time.Time, lifetime time.Duration) kubeconfigVersion {
	used := min(lifetime, expiresAt.Sub(now)*2/3)
	return kubeconfigVersion{inputs: inputs, renewedAt: now, renewAt: now.Add(used), expiresAt: expiresAt}
}

// tokenCluster returns the cluster that a token is for, from the outputs of the
// workspace.
func (s *scope) tokenCluster() (aws.Cluster, error) {
	cluster := aws.Cluster{Name: s.clusterName()}
	for name, into := range map[string]*string{
		desired.EndpointOutput: &cluster.Endpoint, desired.ClusterNameOutput: &cluster.Name, desired.CertificateAuthorityOutput: &cluster.CA,
	} {
		if err := workspace.Output(s.apply, name, into); err != nil {
			return cluster, err
		}
	}
	if cluster.CA == "" {
		return cluster, fault.Stall(controlplanev1.MissingOutputReason, "Output %s of WorkspaceTemplateApply %s is empty or sensitive: it must be the certificate authority of the API server", desired.CertificateAuthorityOutput, s.apply.Name)
	}
	return cluster, nil
}

// tokenLifetime returns the time after which a token is replaced.
func (s *scope) tokenLifetime() time.Duration {
	if lifetime := s.kubeconfigConfig().TokenLifetime; lifetime != nil {
		return lifetime.Duration
	}
	return defaultTokenLifetime
}

// renewsIn returns the time until the token has to be replaced, or zero for a
// kubeconfig without a token.
func renewsIn(s *scope) time.Duration {
	if s.renewAt.IsZero() {
		return 0
	}
	return s.renewAt.Sub(s.now)
}

// ensureKubeconfig writes the Secret with the kubeconfig.
func (r *Reconciler) ensureKubeconfig(ctx context.Context, s *scope, found *corev1.Secret, version kubeconfigVersion) error {
	wanted := s.newSecret(secret.Kubeconfig, s.kubeconfig)
	version.annotate(wanted)
	return r.ensureSecret(ctx, s, found, wanted)
}

// ensureUserKubeconfig writes a kubeconfig that users can use with their own
// credentials.
func (r *Reconciler) ensureUserKubeconfig(ctx context.Context, s *scope, cluster aws.Cluster) error {
	content, err := aws.UserKubeconfig(cluster, s.region())
	if err != nil {
		return fmt.Errorf("creating the kubeconfig for users: %w", err)
	}
	found, err := r.findSecret(ctx, s, workload.UserKubeconfig)
	if err != nil {
		return err
	}
	return r.ensureSecret(ctx, s, found, s.newSecret(workload.UserKubeconfig, content))
}

// recordKubeconfig writes the age of the kubeconfig to the status.
func (s *scope) recordKubeconfig(version kubeconfigVersion) {
	s.controlPlane.Status.Kubeconfig = &controlplanev1.KubeconfigStatus{
		SecretName: secret.Name(s.clusterName(), secret.Kubeconfig),
		RenewedAt:  metav1.NewTime(version.renewedAt), ExpiresAt: metav1.NewTime(version.expiresAt),
	}
}

func kubeconfigMessage(s *scope) string {
	return "Secret " + secret.Name(s.clusterName(), secret.Kubeconfig)
}

// fingerprint returns a short hash of a list of texts.
func fingerprint(parts ...string) string {
	hash := sha256.New()
	for _, part := range parts {
		fmt.Fprintf(hash, "%d:%s", len(part), part)
	}
	return hex.EncodeToString(hash.Sum(nil)[:8])
}

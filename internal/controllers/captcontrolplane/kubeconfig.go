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
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	"github.com/appthrust/capt/internal/cluster/aws"
	"github.com/appthrust/capt/internal/cluster/desired"
	"github.com/appthrust/capt/internal/cluster/workload"
	"github.com/appthrust/capt/internal/cluster/workspace"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

const (
	// userKubeconfig is the purpose of the Secret for people.
	userKubeconfig secret.Purpose = "user-kubeconfig"
	// defaultTokenLifetime is how long a token is used.
	defaultTokenLifetime = 10 * time.Minute
)

// kubeconfig keeps the Secret by which Cluster API reaches the cluster.
func (r *Reconciler) kubeconfig(ctx context.Context, s *scope) error {
	found, err := r.findSecret(ctx, s, secret.Kubeconfig)
	if err != nil {
		return err
	}
	if found != nil {
		// What is there serves until there is better.
		s.config = found.Data[secret.KubeconfigDataName]
	}
	if s.apply == nil || !workspace.Applied(s.apply) {
		return fault.Wait(controlplanev1.WaitingForOutputsReason, "The outputs of the workspace are not known")
	}
	if s.source().Source == controlplanev1.KubeconfigSourceOutput {
		return r.outputKubeconfig(ctx, s, found)
	}
	return r.tokenKubeconfig(ctx, s, found)
}

// outputKubeconfig takes the kubeconfig from an output.
func (r *Reconciler) outputKubeconfig(ctx context.Context, s *scope, found *corev1.Secret) error {
	name := s.desired().KubeconfigOutput()
	var connection corev1.Secret
	key := client.ObjectKey{Namespace: s.controlPlane.Namespace, Name: s.apply.Status.ConnectionSecretName}
	if err := r.Client.Get(ctx, key, &connection); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading the connection Secret: %w", err)
	} else if err != nil {
		return fault.WaitFor(secretLook, controlplanev1.WaitingForOutputsReason, "Secret %s does not exist yet", key.Name)
	}
	text := connection.Data[name]
	if len(text) == 0 {
		return fault.Stall(controlplanev1.MissingOutputReason, "Output %s of WorkspaceTemplateApply %s is empty: it must be a kubeconfig", name, s.apply.Name)
	}
	expires, err := workload.CheckKubeconfig(text)
	if err != nil {
		return fault.Stall(controlplanev1.MissingOutputReason, "Output %s of WorkspaceTemplateApply %s: %w", name, s.apply.Name, err)
	}
	s.config = text
	marks := secretMarks{inputs: fingerprint(string(text)), expiresAt: expires}
	return r.keepKubeconfig(ctx, s, found, text, marks)
}

// tokenKubeconfig signs a token when the one that is there is old, or is for
// something else.
func (r *Reconciler) tokenKubeconfig(ctx context.Context, s *scope, found *corev1.Secret) error {
	target, err := s.target()
	if err != nil {
		return err
	}
	marks := marksOf(found)
	inputs := fingerprint(target.Endpoint, target.CA, target.Name, s.region(), s.source().RoleARN, s.tokenLifetime().String())
	s.renewAt = marks.renewAt
	if found == nil || marks.inputs != inputs || !s.now.Before(s.renewAt) {
		credentials, err := r.credentials(ctx, s)
		if err != nil {
			return err
		}
		token, err := r.Cloud.Token(ctx, credentials, s.region(), s.source().RoleARN, target.Name)
		if err != nil {
			return err
		}
		text, err := aws.TokenKubeconfig(target, token)
		if err != nil {
			return fault.Stall(controlplanev1.MissingOutputReason, "The outputs of WorkspaceTemplateApply %s make no kubeconfig: %w", s.apply.Name, err)
		}
		s.config = text
		// Credentials that end soon end the token with them.
		used := min(s.tokenLifetime(), token.ExpiresAt.Sub(s.now)*2/3)
		s.renewAt = s.now.Add(used)
		marks = secretMarks{inputs: inputs, renewedAt: s.now, renewAt: s.renewAt, expiresAt: token.ExpiresAt}
		if err := r.keepKubeconfig(ctx, s, found, text, marks); err != nil {
			return err
		}
	} else {
		s.show(found.Name, marks)
	}
	return r.keepUserKubeconfig(ctx, s, target)
}

// target is the cluster that a token is for.
func (s *scope) target() (aws.Cluster, error) {
	t := aws.Cluster{Name: s.clusterName()}
	for name, into := range map[string]*string{desired.EndpointOutput: &t.Endpoint, desired.ClusterNameOutput: &t.Name, desired.CertificateAuthorityOutput: &t.CA} {
		if err := workspace.Output(s.apply, name, into); err != nil {
			return t, err
		}
	}
	if t.CA == "" {
		return t, fault.Stall(controlplanev1.MissingOutputReason, "Output %s of WorkspaceTemplateApply %s is empty or sensitive: it must be the certificate authority of the API server", desired.CertificateAuthorityOutput, s.apply.Name)
	}
	return t, nil
}

func (s *scope) tokenLifetime() time.Duration {
	if lifetime := s.source().TokenLifetime; lifetime != nil {
		return lifetime.Duration
	}
	return defaultTokenLifetime
}

// renewal tells when the token is to be made anew.
func (r *Reconciler) renewal(s *scope) time.Duration {
	if s.renewAt.IsZero() {
		return 0
	}
	return s.renewAt.Sub(s.now)
}

func (r *Reconciler) keepKubeconfig(ctx context.Context, s *scope, found *corev1.Secret, text []byte, marks secretMarks) error {
	if marks.renewedAt.IsZero() {
		marks.renewedAt = s.now
		if had := marksOf(found); had.inputs == marks.inputs {
			marks.renewedAt = had.renewedAt
		}
	}
	wanted := s.newSecret(secret.Kubeconfig, text)
	marks.put(wanted)
	if err := r.keepSecret(ctx, s, found, wanted); err != nil {
		return err
	}
	s.show(wanted.Name, marks)
	return nil
}

// keepUserKubeconfig keeps a kubeconfig that people may use as themselves.
func (r *Reconciler) keepUserKubeconfig(ctx context.Context, s *scope, t aws.Cluster) error {
	text, err := aws.UserKubeconfig(t, s.region(), s.source().RoleARN)
	if err != nil {
		return fmt.Errorf("making the kubeconfig for people: %w", err)
	}
	found, err := r.findSecret(ctx, s, userKubeconfig)
	if err != nil {
		return err
	}
	return r.keepSecret(ctx, s, found, s.newSecret(userKubeconfig, text))
}

// show tells how fresh the kubeconfig is.
func (s *scope) show(name string, marks secretMarks) {
	s.controlPlane.Status.Kubeconfig = &controlplanev1.KubeconfigStatus{
		SecretName: name, RenewedAt: metav1.NewTime(marks.renewedAt), ExpiresAt: metav1.NewTime(marks.expiresAt),
	}
}

func kubeconfigMessage(s *scope) string {
	return "Secret " + secret.Name(s.clusterName(), secret.Kubeconfig)
}

func fingerprint(parts ...string) string {
	hash := sha256.New()
	for _, part := range parts {
		fmt.Fprintf(hash, "%d:%s", len(part), part)
	}
	return hex.EncodeToString(hash.Sum(nil)[:8])
}

// componentKubeconfig marks the Secrets that hold kubeconfigs, so that they are
// cached and watched.
const componentKubeconfig = "kubeconfig"

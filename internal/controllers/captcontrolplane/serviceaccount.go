package captcontrolplane

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	"github.com/appthrust/capt/internal/cluster/workload"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// bootstrapInterval is the delay between two attempts with credentials that the API server
// rejects. A new output is noticed at once.
const bootstrapInterval = time.Minute

// serviceAccountKubeconfig maintains a kubeconfig with a token of a ServiceAccount in the
// workload cluster. The output has the address of the API server, and the credential with
// which the ServiceAccount is created, and created again when its tokens are not accepted
// any more.
func (r *Reconciler) serviceAccountKubeconfig(ctx context.Context, s *scope, found *corev1.Secret) error {
	bootstrap, _, err := r.readOutput(ctx, s)
	if err != nil {
		return err
	}
	address, err := workload.WithToken(bootstrap, "")
	if err != nil {
		return err
	}
	version, inputs := versionOf(found), fingerprint(string(address))
	if found == nil || version.isOutdated(inputs, s.now) || r.isTokenRejected(ctx, s) {
		credentials := [][]byte{bootstrap}
		if found != nil && version.inputs == inputs {
			credentials = [][]byte{s.kubeconfig, bootstrap}
		}
		token, err := r.requestToken(ctx, s, credentials)
		if err != nil {
			return err
		}
		if s.kubeconfig, err = workload.WithToken(bootstrap, token.Value); err != nil {
			return err
		}
		// Two thirds of the lifetime remain for a management cluster that does not run.
		version = newTokenVersion(inputs, s.now, token.ExpiresAt, token.ExpiresAt.Sub(s.now)/3)
		if err := r.ensureKubeconfig(ctx, s, found, version); err != nil {
			return err
		}
	}
	s.renewAt = version.renewAt
	s.recordKubeconfig(version)
	return nil
}

// isTokenRejected reports whether the API server answers, and does not accept the token,
// for example because its ServiceAccount was deleted. It asks only while the cluster is not
// available.
func (r *Reconciler) isTokenRejected(ctx context.Context, s *scope) bool {
	if s.isTrue(controlplanev1.AvailableCondition) {
		return false
	}
	_, err := r.Workload.Version(ctx, s.kubeconfig)
	return workload.IsRejected(err)
}

// requestToken requests a token with the first kubeconfig whose credential is accepted.
func (r *Reconciler) requestToken(ctx context.Context, s *scope, kubeconfigs [][]byte) (workload.Token, error) {
	var failed error
	for _, kubeconfig := range kubeconfigs {
		token, err := r.requestTokenWith(ctx, kubeconfig)
		if err == nil {
			return token, nil
		}
		failed = err
	}
	if !workload.IsRejected(failed) {
		return workload.Token{}, fault.WaitFor(probeInterval, controlplanev1.APIServerUnreachableReason, "No token of ServiceAccount %s: %w", workload.ServiceAccount, failed)
	}
	return workload.Token{}, fault.WaitFor(bootstrapInterval, controlplanev1.BootstrapRejectedReason,
		"The API server accepts neither a token of ServiceAccount %s nor the credential in output %s of WorkspaceTemplateApply %s: %w. Run the workspace again, so that it writes a new credential: captctl reconcile %s",
		workload.ServiceAccount, s.desired().KubeconfigOutput(), s.apply.Name, failed, s.apply.Name)
}

func (r *Reconciler) requestTokenWith(ctx context.Context, kubeconfig []byte) (workload.Token, error) {
	c, err := r.Workload.Client(kubeconfig)
	if err != nil {
		return workload.Token{}, err
	}
	return workload.RequestToken(ctx, c)
}

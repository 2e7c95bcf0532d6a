package runner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/appthrust/capt/internal/host"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
)

// errClaimed means that another runner has claimed the run, or that it has ended.
var errClaimed = errors.New("the run is already claimed")

// claim records this runner's identity in the run, before it changes anything
// else. If two runners are started for the same run, one claims it and the other
// exits.
func (r *Runner) claim(ctx context.Context) (*terraform.Request, error) {
	for {
		secret, err := r.readRun(ctx)
		if err != nil {
			return nil, fmt.Errorf("reading the run: %w", err)
		}
		if record.Claimed(secret) || record.Finished(secret) {
			return nil, errClaimed
		}
		if r.RequestDigest != "" && record.RequestDigest(secret) != r.RequestDigest {
			return nil, record.ErrForged
		}
		request, err := record.Request(secret)
		if err != nil {
			return nil, err
		}
		err = r.writeClaim(ctx, secret)
		if apierrors.IsConflict(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("claiming the run: %w", err)
		}
		r.secretUID = secret.UID
		return request, nil
	}
}

// startupTimeout is how long the network of a new pod may be unavailable, or the
// permissions of its new service account may be ineffective.
const startupTimeout = time.Minute

// readRun reads the run's Secret. It retries errors until startupTimeout.
func (r *Runner) readRun(ctx context.Context) (*corev1.Secret, error) {
	timeout := time.After(startupTimeout)
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		secret, err := r.kube.secret(ctx, r.Namespace, record.SecretName(r.RunID))
		if err == nil || apierrors.IsNotFound(err) {
			return secret, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-timeout:
			return nil, err
		case <-time.After(wait):
		}
	}
}

func (r *Runner) writeClaim(ctx context.Context, secret *corev1.Secret) error {
	identity, err := Self()
	if err != nil {
		return err
	}
	patch, err := record.ClaimPatch(secret.ResourceVersion, identity)
	if err != nil {
		return err
	}
	return r.kube.patchSecret(ctx, r.Namespace, secret.Name, patch)
}

// patchRun patches the Secret that this runner has claimed. The next workspace of the name
// may have one of the same name, which the API server then refuses to change.
func (r *Runner) patchRun(ctx context.Context, patch []byte) error {
	if r.secretUID != "" {
		var err error
		if patch, err = record.WithUID(patch, r.secretUID); err != nil {
			return err
		}
	}
	return r.kube.patchSecret(ctx, r.Namespace, record.SecretName(r.RunID), patch)
}

// Self returns the identity of this process.
func Self() (record.Identity, error) {
	hostname, err := os.Hostname()
	if err != nil {
		return record.Identity{}, fmt.Errorf("getting the host name: %w", err)
	}
	started, err := host.ProcessStartTime(os.Getpid())
	if err != nil {
		return record.Identity{}, err
	}
	return record.Identity{
		Host: hostname, Boot: host.BootID(), PID: os.Getpid(), Started: started,
		PodNamespace: os.Getenv("POD_NAMESPACE"), PodName: os.Getenv("POD_NAME"), PodUID: os.Getenv("POD_UID"),
		ClaimedAt: time.Now(),
	}, nil
}

// lockHolder returns the name of the lock's holder for users.
func (r *Runner) lockHolder() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return strings.Join([]string{"capt", r.Namespace, r.RunID}, "/") + "@" + host
}

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

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
)

// errTaken means that somebody else carries out the run, or that it has ended.
var errTaken = errors.New("the run is taken")

// claim records who carries out the run, before anything is touched. Of two
// runners started for the same run, one claims it and the other goes away.
func (r *Runner) claim(ctx context.Context) (*terraform.Request, error) {
	for {
		secret, err := r.find(ctx)
		if err != nil {
			return nil, fmt.Errorf("reading the run: %w", err)
		}
		if record.Claimed(secret) || record.Finished(secret) {
			return nil, errTaken
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
		return request, nil
	}
}

// settling is how long a new pod may find the network not there yet, or its
// account without the rights that it has just been given.
const settling = time.Minute

// find reads the run, again where it is too early to be refused.
func (r *Runner) find(ctx context.Context) (*corev1.Secret, error) {
	giveUp := time.After(settling)
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		secret, err := r.kube.secret(ctx, r.Namespace, record.SecretName(r.RunID))
		if err == nil || apierrors.IsNotFound(err) {
			return secret, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-giveUp:
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

// Self returns the identity of this process.
func Self() (record.Identity, error) {
	host, err := os.Hostname()
	if err != nil {
		return record.Identity{}, fmt.Errorf("finding the host's name: %w", err)
	}
	started, err := record.ProcessStartTime(os.Getpid())
	if err != nil {
		return record.Identity{}, err
	}
	return record.Identity{
		Host: host, Boot: record.BootID(), PID: os.Getpid(), Started: started,
		PodNamespace: os.Getenv("POD_NAMESPACE"), PodName: os.Getenv("POD_NAME"), PodUID: os.Getenv("POD_UID"),
	}, nil
}

// who is how people see the holder of the lock.
func (r *Runner) who() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return strings.Join([]string{"capt", r.Namespace, r.RunID}, "/") + "@" + host
}

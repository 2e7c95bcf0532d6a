package runner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/appthrust/capt/internal/host"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
)

// runSecret is the Secret of the run, with its request, its progress and its result.
type runSecret struct {
	kube          *kube
	namespace, id string
	// digest is that of the request to execute, or empty.
	digest string
	// uid is that of the Secret that this runner has claimed.
	uid types.UID
}

// errClaimed means that another runner has claimed the run, or that it has ended.
var errClaimed = errors.New("the run is already claimed")

// claim records this runner's identity in the run, before it changes anything
// else. If two runners are started for the same run, one claims it and the other
// exits.
func (s *runSecret) claim(ctx context.Context) (*terraform.Request, error) {
	for {
		var secret *corev1.Secret
		// Nothing is lost if the runner ends now.
		err := retry(withUser(ctx, user{giveUp: ctx.Done()}), startupTimeout, "reading the run", apierrors.IsNotFound, func(ctx context.Context) (err error) {
			secret, err = s.kube.secret(ctx, s.namespace, record.SecretName(s.id))
			return err
		})
		if err != nil {
			return nil, err
		}
		if record.Claimed(secret) || record.Finished(secret) {
			return nil, errClaimed
		}
		if s.digest != "" && record.RequestDigest(secret) != s.digest {
			return nil, record.ErrForged
		}
		request, err := record.Request(secret)
		if err != nil {
			return nil, err
		}
		err = s.writeClaim(ctx, secret)
		if apierrors.IsConflict(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("claiming the run: %w", err)
		}
		s.uid = secret.UID
		return request, nil
	}
}

// startupTimeout is how long the network of a new pod may be unavailable, or the
// permissions of its new service account may be ineffective.
const startupTimeout = time.Minute

func (s *runSecret) writeClaim(ctx context.Context, secret *corev1.Secret) error {
	identity, err := Self()
	if err != nil {
		return err
	}
	patch, err := record.ClaimPatch(secret.ResourceVersion, identity)
	if err != nil {
		return err
	}
	return s.kube.patchSecret(ctx, s.namespace, secret.Name, patch)
}

// patch patches the Secret that this runner has claimed. The next workspace of the name
// may have one of the same name, which the API server then refuses to change.
func (s *runSecret) patch(ctx context.Context, patch []byte) error {
	if s.uid != "" {
		var err error
		if patch, err = record.WithUID(patch, s.uid); err != nil {
			return err
		}
	}
	return s.kube.patchSecret(ctx, s.namespace, record.SecretName(s.id), patch)
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

// startReporting writes the progress and the log to the run's Secret periodically,
// until stop is called. It ignores errors, because they must not stop the run.
func (s *runSecret) startReporting(ctx context.Context, run *execution) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.NewTicker(reportInterval)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			progress, changed := run.report.take()
			if !changed {
				continue
			}
			err := s.writeProgress(ctx, progress, run.report.log.Bytes())
			if tooLarge(err) {
				// The request needs most of the Secret until the run ends.
				_ = s.writeProgress(ctx, progress, nil)
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

func (s *runSecret) writeProgress(ctx context.Context, progress terraform.Progress, log []byte) error {
	patch, err := record.ProgressPatch(progress, log)
	if err != nil {
		return err
	}
	return s.patch(ctx, patch)
}

// finish writes the result, which ends the run. If the result is too large for a
// Secret, it omits the log, then most of the changes and diagnostics, and then the
// outputs: a run without a result would be considered lost and be repeated endlessly.
func (s *runSecret) finish(ctx context.Context, run *execution) error {
	run.result.FinishedAt = time.Now()
	if run.session != nil {
		run.result.Tool = run.session.Used()
	}
	log := run.report.log.Bytes()
	err := s.writeResult(ctx, run.result, log)
	for _, shorten := range []func(*terraform.Result){func(*terraform.Result) {}, shortenLists, omitOutputs} {
		if !tooLarge(err) {
			return err
		}
		shorten(run.result)
		err = s.writeResult(ctx, run.result, []byte("The log is omitted, because log and result are too large for one Secret.\n"))
	}
	return err
}

func (s *runSecret) writeResult(ctx context.Context, result *terraform.Result, log []byte) error {
	patch, err := record.FinishPatch(result, log)
	if err != nil {
		return err
	}
	return persist(ctx, "writing the result", func(ctx context.Context) error {
		return s.patch(ctx, patch)
	})
}

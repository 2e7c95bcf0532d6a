package runner

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/appthrust/capt/internal/terraform/command"
	"github.com/appthrust/capt/internal/terraform/record"
	"github.com/appthrust/capt/internal/terraform/statefile"
)

const (
	// syncInterval is how often a running run saves a changed state file.
	syncInterval = 250 * time.Millisecond
	// maxSyncInterval is how often it tries to save a state that it could not save.
	maxSyncInterval = 10 * time.Second
	// syncTimeout is how long one such save may take.
	syncTimeout = 30 * time.Second
	// saveTimeout is how long a run tries to save its state. Without it, resources
	// would be lost, so it exceeds any outage of an API server.
	saveTimeout = 24 * time.Hour
)

// errIncomplete means that the tool was killed, or is in the middle of writing the
// state file.
var errIncomplete = errors.New("the state file is incomplete")

// savedState is the Secret of the Kubernetes backend. The tool works on a file, and
// the run, which holds the lock, saves every change of the file. So the tool needs
// no access to the API server and can finish while the API server is unavailable.
type savedState struct {
	kube    *kube
	session *command.Session
	labels  map[string]string

	mu sync.Mutex
	// secret is the Secret as it was last read or written, content its decompressed
	// state. A Secret without a resource version does not exist.
	secret  *corev1.Secret
	content []byte
	// sent are the digests of the compressed states that this run has tried to save.
	// The API server may have stored one although its response was lost.
	sent map[[sha256.Size]byte]bool
	// carried is a state that is too large to be saved and that the run works with. It
	// is stored as carriedName.
	carried     []byte
	carriedName string
	// printed is the state if the tool could only print it.
	printed []byte
	// unsaved is the latest complete state that could not be saved. The tool may be
	// killed while it writes the next one.
	unsaved []byte
}

func newSavedState(kube *kube, run *execution) *savedState {
	meta := record.StateMeta(run.request)
	return &savedState{kube: kube, session: run.session, labels: meta.Labels, secret: &corev1.Secret{ObjectMeta: meta, Type: corev1.SecretTypeOpaque}}
}

// unreadableError is the error of a Secret whose content is not a state.
type unreadableError struct {
	content []byte
	cause   error
}

func (e *unreadableError) Error() string { return e.cause.Error() }

func (e *unreadableError) Unwrap() error { return e.cause }

// read reads the Secret, which need not exist.
func (s *savedState) read(ctx context.Context) error {
	secret, err := s.kube.secret(ctx, s.secret.Namespace, s.secret.Name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the state: %w", err)
	}
	content := []byte(nil)
	if data := secret.Data[stateKey]; len(data) > 0 {
		if content, err = record.Decompress(data); err != nil {
			s.secret = secret
			return &unreadableError{data, fmt.Errorf("decompressing the state: %w", err)}
		}
		if _, err := statefile.Identify(content); err != nil {
			s.secret = secret
			return &unreadableError{content, err}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.secret, s.content = secret, content
	return nil
}

// current returns the state as it was last read or saved.
func (s *savedState) current() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.content
}

// latest returns the state that the tool has written or printed, or nothing.
func (s *savedState) latest() ([]byte, error) {
	if s.printed != nil {
		return s.printed, nil
	}
	content, err := s.session.ReadState()
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("reading the state file: %w", err)
	}
	return content, nil
}

// sync saves the latest state if it differs from the saved state.
func (s *savedState) sync(ctx context.Context) error {
	content, err := s.latest()
	if err != nil || len(content) == 0 {
		return err
	}
	if !json.Valid(content) {
		return errIncomplete
	}
	err = s.save(ctx, content)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unsaved = nil; err != nil {
		s.unsaved = content
	}
	return err
}

// restoreUnsaved replaces an incomplete state file by the latest complete state that
// could not be saved, if any.
func (s *savedState) restoreUnsaved() (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unsaved == nil {
		return false, nil
	}
	return true, s.session.ReplaceState(s.unsaved)
}

// working returns the state that the run works with.
func (s *savedState) working() []byte {
	if s.carried != nil {
		return s.carried
	}
	return s.current()
}

// save writes a state to the Secret unless it is already there. It fails if another
// writer has changed the state: the lock does not stop a user with kubectl.
func (s *savedState) save(ctx context.Context, content []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if bytes.Equal(content, s.content) {
		return nil
	}
	data, err := record.Compress(content)
	if err != nil {
		return fmt.Errorf("compressing the state: %w", err)
	}
	// Without the base, a later run would not continue from the file, but keep both.
	// That is better than a state that is not saved because of a full disk.
	_ = s.session.AddBase(content)
	if s.sent == nil {
		s.sent = map[[sha256.Size]byte]bool{}
	}
	s.sent[sha256.Sum256(data)] = true
	for {
		updated, err := s.write(ctx, data)
		if err == nil {
			s.secret, s.content, s.sent = updated, content, nil
			return nil
		}
		if apierrors.IsNotFound(err) {
			// A user has deleted the Secret during the run.
			s.secret = s.secret.DeepCopy()
			s.secret.ResourceVersion, s.secret.UID, s.secret.Data = "", "", nil
			continue
		}
		if !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("saving the state: %w", err)
		}
		current, err := s.kube.secret(ctx, s.secret.Namespace, s.secret.Name)
		switch {
		case err != nil:
			return fmt.Errorf("reading the state: %w", err)
		case bytes.Equal(current.Data[stateKey], data):
			// An earlier attempt succeeded, but its response was lost.
			s.secret, s.content, s.sent = current, content, nil
			return nil
		case !bytes.Equal(current.Data[stateKey], s.secret.Data[stateKey]) && !s.sent[sha256.Sum256(current.Data[stateKey])]:
			return &permanentError{fmt.Errorf("saving the state: Secret %s was changed during the run", current.Name)}
		}
		s.secret = current
	}
}

// write creates or updates the Secret.
func (s *savedState) write(ctx context.Context, data []byte) (*corev1.Secret, error) {
	if s.secret.ResourceVersion == "" {
		created := s.secret.DeepCopy()
		created.Data = map[string][]byte{stateKey: data}
		return created, s.kube.createSecret(ctx, created)
	}
	// A user may have restored the Secret without its labels.
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": s.secret.ResourceVersion, "labels": s.labels},
		"data":     map[string][]byte{stateKey: data},
	})
	if err != nil {
		return nil, fmt.Errorf("encoding the state: %w", err)
	}
	updated := &corev1.Secret{}
	return updated, s.kube.patch(ctx, secretPath(s.secret.Namespace, s.secret.Name), patch, updated)
}

// start saves changes of the state file periodically, until stop is called. It
// ignores errors, because the run saves the state once more at its end.
func (s *savedState) start(ctx context.Context) (stop func()) {
	ctx = context.WithoutCancel(ctx)
	stopping, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.NewTicker(syncInterval)
		defer ticker.Stop()
		var last, next time.Time
		wait := syncInterval
		for {
			select {
			case <-stopping:
				return
			case <-ticker.C:
			}
			info, err := os.Stat(s.session.StateFile())
			// The tool empties the file before it writes it, perhaps at the same time.
			if err != nil || info.Size() == 0 || info.ModTime().Equal(last) || time.Now().Before(next) {
				continue
			}
			attempt, cancel := context.WithTimeout(ctx, syncTimeout)
			if s.sync(attempt) == nil {
				last, wait = info.ModTime(), syncInterval
			} else {
				wait = min(2*wait, maxSyncInterval)
			}
			next = time.Now().Add(wait - syncInterval)
			cancel()
		}
	}()
	return func() {
		close(stopping)
		<-done
	}
}

package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http/httputil"
	"net/url"
	"os"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/testenv/statetest"
)

const (
	backendKubernetes = "kubernetes"
	backendHTTP       = "http"
	backendS3         = "s3"
)

// store is the backend that has the states. It reads and changes them without the tool.
type store interface { //nolint:interfacebloat // One method more than usual.
	// config returns the backend of the workspaces, or nil for the default one.
	config() *infrav1.BackendConfig
	// read returns a state, or nothing.
	read(ctx context.Context, namespace, workspace string) ([]byte, error)
	// lock returns the lock of a state. Its ID is empty if the state is not locked.
	lock(ctx context.Context, namespace, workspace string) (lock, error)
	// remove deletes a state and returns a function that restores it. That returns
	// errWritten if another state was written meanwhile.
	remove(ctx context.Context, namespace, workspace string) (restore func(context.Context) error, err error)
	// setLock locks a state in the name of a holder that does not exist. It returns
	// errNoTarget if the state is locked.
	setLock(ctx context.Context, namespace, workspace, id string) error
	// expire makes the backend refuse all requests until the returned function is
	// called. It returns nil if the backend has no credentials of its own.
	expire() (renew func())
}

// lock describes who holds the lock of a state.
type lock struct {
	ID string
	// Who is the user and the host of a tool, and Created when it took the lock.
	Who     string
	Created time.Time
}

// errWritten means that a state was written where one was deleted.
var errWritten = errors.New("a state was written while the state was deleted")

// newStore returns a backend that listens at the given address if it is a server.
func newStore(ctx context.Context, backend string, c client.Client, address string) (store, error) {
	switch backend {
	case backendKubernetes:
		return &kubernetesStore{client: c}, nil
	case backendHTTP:
		s := &httpStore{Server: statetest.NewServer()}
		s.gate = &statetest.Gate{Handler: s.Server}
		var err error
		s.URL, err = serve(address, s.gate)
		return s, err
	case backendS3:
		return newS3Store(ctx, address)
	default:
		return nil, fmt.Errorf("backend %q is unknown: use kubernetes, http or s3", backend)
	}
}

// kubernetesStore has states in Secrets and locks in Leases.
type kubernetesStore struct{ client client.Client }

func (s *kubernetesStore) config() *infrav1.BackendConfig { return nil }

func (s *kubernetesStore) secret(ctx context.Context, namespace, workspace string) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	err := s.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: stateName(workspace)}, secret)
	return secret, err
}

func (s *kubernetesStore) read(ctx context.Context, namespace, workspace string) ([]byte, error) {
	secret, err := s.secret(ctx, namespace, workspace)
	if err != nil || len(secret.Data["tfstate"]) == 0 {
		return nil, client.IgnoreNotFound(err)
	}
	r, err := gzip.NewReader(bytes.NewReader(secret.Data["tfstate"]))
	if err != nil {
		return nil, fmt.Errorf("reading the state: %w", err)
	}
	return io.ReadAll(r)
}

func (s *kubernetesStore) lock(ctx context.Context, namespace, workspace string) (lock, error) {
	var lease coordinationv1.Lease
	err := s.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: leaseName(workspace)}, &lease)
	if err != nil || lease.Spec.HolderIdentity == nil {
		return lock{}, client.IgnoreNotFound(err)
	}
	return lock{ID: *lease.Spec.HolderIdentity}, nil
}

func (s *kubernetesStore) hasLease(ctx context.Context, namespace, workspace string) (bool, error) {
	err := s.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: leaseName(workspace)}, &coordinationv1.Lease{})
	return err == nil, client.IgnoreNotFound(err)
}

func (s *kubernetesStore) remove(ctx context.Context, namespace, workspace string) (func(context.Context) error, error) {
	secret, err := s.secret(ctx, namespace, workspace)
	if err != nil {
		return nil, err
	}
	deleted := secret.DeepCopy()
	// Its finalizer would keep it.
	secret.Finalizers = nil
	if err := s.client.Patch(ctx, secret, client.MergeFromWithOptions(deleted, client.MergeFromWithOptimisticLock{})); err != nil {
		return nil, err
	}
	version := client.Preconditions{UID: &secret.UID, ResourceVersion: &secret.ResourceVersion}
	if err := s.client.Delete(ctx, secret, version); err != nil {
		return nil, err
	}
	deleted.ObjectMeta = metav1.ObjectMeta{Namespace: secret.Namespace, Name: secret.Name, Labels: secret.Labels, Annotations: secret.Annotations}
	return func(ctx context.Context) error { return s.restore(ctx, deleted) }, nil
}

// restore creates a deleted state, or replaces the empty one that a run was given.
func (s *kubernetesStore) restore(ctx context.Context, deleted *corev1.Secret) error {
	err := s.client.Create(ctx, deleted.DeepCopy())
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	existing := &corev1.Secret{}
	if err := s.client.Get(ctx, client.ObjectKeyFromObject(deleted), existing); err != nil {
		return err
	}
	switch {
	case bytes.Equal(existing.Data["tfstate"], deleted.Data["tfstate"]):
		// The response of a killed API server was lost.
		return nil
	case len(existing.Data["tfstate"]) > 0:
		return errWritten
	}
	existing.Data = deleted.Data
	return s.client.Update(ctx, existing)
}

func (s *kubernetesStore) setLock(ctx context.Context, namespace, workspace, id string) error {
	var lease coordinationv1.Lease
	err := s.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: leaseName(workspace)}, &lease)
	if err != nil || lease.Spec.HolderIdentity != nil {
		return errors.Join(errNoTarget, client.IgnoreNotFound(err))
	}
	// The description is optional.
	lease.Spec.HolderIdentity = &id
	return s.client.Update(ctx, &lease)
}

func (s *kubernetesStore) expire() func() { return nil }

// httpStore is a server of the http backend in this process.
type httpStore struct {
	*statetest.Server
	gate *statetest.Gate
}

func httpKey(namespace, workspace string) string { return namespace + "/" + workspace }

func (s *httpStore) config() *infrav1.BackendConfig {
	return &infrav1.BackendConfig{Type: backendHTTP, Configuration: s.Configuration(httpKey("${WORKSPACE_NAMESPACE}", "${WORKSPACE_NAME}"))}
}

func (s *httpStore) read(_ context.Context, namespace, workspace string) ([]byte, error) {
	return s.State(httpKey(namespace, workspace)), nil
}

func (s *httpStore) lock(_ context.Context, namespace, workspace string) (lock, error) {
	return parseLock(s.Lock(httpKey(namespace, workspace)))
}

func (s *httpStore) remove(_ context.Context, namespace, workspace string) (func(context.Context) error, error) {
	key := httpKey(namespace, workspace)
	state := s.State(key)
	if state == nil {
		return nil, errNoTarget
	}
	s.SetState(key, nil)
	return func(context.Context) error {
		if s.State(key) != nil {
			return errWritten
		}
		s.SetState(key, state)
		return nil
	}, nil
}

func (s *httpStore) setLock(_ context.Context, namespace, workspace, id string) error {
	if !s.SetLock(httpKey(namespace, workspace), lockText(id, namespace, workspace)) {
		return errNoTarget
	}
	return nil
}

func (s *httpStore) expire() func() { return s.gate.Expire() }

// lockText returns the description of a lock whose holder does not exist.
func lockText(id, namespace, workspace string) []byte {
	return fmt.Appendf(nil, `{"ID":%q,"Operation":"OperationTypeApply","Info":"","Who":"operator@lost","Version":"1.10.0","Created":"2026-01-01T00:00:00Z","Path":"%s/%s"}`,
		id, namespace, workspace)
}

// parseLock reads the description of a lock, which may be empty.
func parseLock(text []byte) (lock, error) {
	var l lock
	if len(text) == 0 {
		return l, nil
	}
	if err := json.Unmarshal(text, &l); err != nil {
		return l, fmt.Errorf("reading the lock: %w", err)
	}
	return l, nil
}

// s3Store is a bucket of an S3 server. Runs reach it through a proxy, which can refuse
// their requests.
type s3Store struct {
	*statetest.S3
	proxy string
	gate  *statetest.Gate
}

func newS3Store(ctx context.Context, address string) (*s3Store, error) {
	server := os.Getenv("AWS_ENDPOINT_URL")
	target, err := url.Parse(server)
	if err != nil || server == "" {
		return nil, errors.New("backend s3 requires AWS_ENDPOINT_URL with the address of an S3 server")
	}
	s := &s3Store{S3: &statetest.S3{Address: server, Bucket: "chaos"}}
	proxy := httputil.NewSingleHostReverseProxy(target)
	// Clients that are killed cancel their requests.
	proxy.ErrorLog = log.New(io.Discard, "", 0)
	s.gate = &statetest.Gate{Handler: proxy}
	if s.proxy, err = serve(address, s.gate); err != nil {
		return nil, err
	}
	return s, s.CreateBucket(ctx)
}

func s3Key(namespace, workspace string) string { return namespace + "/" + workspace + ".tfstate" }

func (s *s3Store) config() *infrav1.BackendConfig {
	proxied := &statetest.S3{Address: s.proxy, Bucket: s.Bucket}
	return &infrav1.BackendConfig{Type: backendS3, Configuration: proxied.Configuration(s3Key("${WORKSPACE_NAMESPACE}", "${WORKSPACE_NAME}")) +
		"access_key = \"test\"\nsecret_key = \"test\"\n"}
}

func (s *s3Store) read(ctx context.Context, namespace, workspace string) ([]byte, error) {
	return s.Get(ctx, s3Key(namespace, workspace))
}

func (s *s3Store) lock(ctx context.Context, namespace, workspace string) (lock, error) {
	text, err := s.Get(ctx, statetest.LockKey(s3Key(namespace, workspace)))
	if err != nil {
		return lock{}, err
	}
	return parseLock(text)
}

func (s *s3Store) remove(ctx context.Context, namespace, workspace string) (func(context.Context) error, error) {
	key := s3Key(namespace, workspace)
	state, err := s.Get(ctx, key)
	if err != nil || state == nil {
		return nil, errors.Join(errNoTarget, err)
	}
	if err := s.Delete(ctx, key); err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		written, err := s.Get(ctx, key)
		switch {
		case err != nil:
			return err
		case bytes.Equal(written, state):
			return nil
		case written != nil:
			return errWritten
		}
		return s.Put(ctx, key, state)
	}, nil
}

func (s *s3Store) setLock(ctx context.Context, namespace, workspace, id string) error {
	err := s.Create(ctx, statetest.LockKey(s3Key(namespace, workspace)), lockText(id, namespace, workspace))
	if errors.Is(err, statetest.ErrExists) {
		return errNoTarget
	}
	return err
}

func (s *s3Store) expire() func() { return s.gate.Expire() }

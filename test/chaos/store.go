package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/testenv/statetest"
)

// store is the backend that has the states. It reads them without the tool.
type store interface {
	// config returns the backend of the workspaces, or nil for the default one.
	config() *infrav1.BackendConfig
	// read returns a state, or nothing.
	read(ctx context.Context, namespace, workspace string) ([]byte, error)
	// lock returns the ID of the lock of a state, or an empty string.
	lock(ctx context.Context, namespace, workspace string) (string, error)
}

// newStore returns the backend with the given name. The address is that of an S3 server.
func newStore(name, address string) (store, error) {
	switch name {
	case "kubernetes":
		return &kubernetesStore{}, nil
	case "http":
		return newHTTPStore()
	case "s3":
		if address == "" {
			return nil, errors.New("backend s3 requires --s3 with the address of an S3 server")
		}
		return &s3Store{&statetest.S3{Address: address, Bucket: "chaos"}}, nil
	default:
		return nil, fmt.Errorf("backend %q is unknown: use kubernetes, http or s3", name)
	}
}

// kubernetesStore has states in Secrets and locks in Leases.
type kubernetesStore struct{ client client.Client }

func (s *kubernetesStore) config() *infrav1.BackendConfig { return nil }

func (s *kubernetesStore) read(ctx context.Context, namespace, workspace string) ([]byte, error) {
	var secret corev1.Secret
	err := s.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: stateName(workspace)}, &secret)
	if err != nil || len(secret.Data["tfstate"]) == 0 {
		return nil, client.IgnoreNotFound(err)
	}
	r, err := gzip.NewReader(bytes.NewReader(secret.Data["tfstate"]))
	if err != nil {
		return nil, fmt.Errorf("reading the state: %w", err)
	}
	return io.ReadAll(r)
}

func (s *kubernetesStore) lock(ctx context.Context, namespace, workspace string) (string, error) {
	var lease coordinationv1.Lease
	err := s.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: leaseName(workspace)}, &lease)
	if err != nil || lease.Spec.HolderIdentity == nil {
		return "", client.IgnoreNotFound(err)
	}
	return *lease.Spec.HolderIdentity, nil
}

func (s *kubernetesStore) hasLease(ctx context.Context, namespace, workspace string) (bool, error) {
	err := s.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: leaseName(workspace)}, &coordinationv1.Lease{})
	return err == nil, client.IgnoreNotFound(err)
}

// httpStore is a server of the http backend in this process.
type httpStore struct{ *statetest.Server }

func newHTTPStore() (*httpStore, error) {
	s := &httpStore{Server: statetest.NewServer()}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listening for states: %w", err)
	}
	s.URL = "http://" + listener.Addr().String()
	server := &http.Server{Handler: s.Server, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }()
	return s, nil
}

func (s *httpStore) config() *infrav1.BackendConfig {
	return &infrav1.BackendConfig{Type: "http", Configuration: s.Configuration("${WORKSPACE_NAMESPACE}/${WORKSPACE_NAME}")}
}

func (s *httpStore) read(_ context.Context, namespace, workspace string) ([]byte, error) {
	return s.State(namespace + "/" + workspace), nil
}

func (s *httpStore) lock(_ context.Context, namespace, workspace string) (string, error) {
	return lockID(s.Lock(namespace + "/" + workspace))
}

// lockID returns the ID in the description of a lock.
func lockID(text []byte) (string, error) {
	if len(text) == 0 {
		return "", nil
	}
	var lock struct{ ID string }
	if err := json.Unmarshal(text, &lock); err != nil {
		return "", fmt.Errorf("reading the lock: %w", err)
	}
	return lock.ID, nil
}

// s3Store is a bucket of an S3 server.
type s3Store struct{ *statetest.S3 }

func s3Key(namespace, workspace string) string { return namespace + "/" + workspace + ".tfstate" }

func (s *s3Store) config() *infrav1.BackendConfig {
	return &infrav1.BackendConfig{Type: "s3", Configuration: s.Configuration(s3Key("${WORKSPACE_NAMESPACE}", "${WORKSPACE_NAME}")) +
		"access_key = \"test\"\nsecret_key = \"test\"\n"}
}

func (s *s3Store) read(ctx context.Context, namespace, workspace string) ([]byte, error) {
	return s.Get(ctx, s3Key(namespace, workspace))
}

func (s *s3Store) lock(ctx context.Context, namespace, workspace string) (string, error) {
	text, err := s.Get(ctx, statetest.LockKey(s3Key(namespace, workspace)))
	if err != nil {
		return "", err
	}
	return lockID(text)
}

package web

import (
	"context"
	"fmt"
	"net/http"

	"golang.org/x/sync/semaphore"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/appthrust/capt/internal/cluster/workload"
	"github.com/appthrust/capt/internal/kubernetes/scheme"
)

// identity reads and writes with the credentials of one user.
type identity struct {
	client client.WithWatch
	watch  *watch
	// workloads reads the kubeconfigs of workload clusters, and connector connects to them.
	workloads client.Reader
	connector workload.Connector
	// logs limits the logs that are open.
	logs *semaphore.Weighted
}

// newIdentity returns an identity. It sends no requests.
func newIdentity(options Options) (*identity, error) {
	c, err := client.NewWithWatch(options.Config, client.Options{Scheme: scheme.New()})
	if err != nil {
		return nil, fmt.Errorf("connecting to the management cluster: %w", err)
	}
	return &identity{client: c, watch: newWatch(options, c), workloads: c, logs: semaphore.NewWeighted(maxUserLogs)}, nil
}

// grant is the permission to answer a request with an identity.
type grant struct {
	user *identity
	// ctx ends with the session.
	ctx context.Context
	// done is called when the request is answered.
	done func()
}

type identityKey struct{}

// withIdentity returns a request that has an identity.
func withIdentity(r *http.Request, user *identity) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), identityKey{}, user))
}

// identityOf returns the identity of a request that secure has accepted.
func identityOf(r *http.Request) *identity {
	user, found := r.Context().Value(identityKey{}).(*identity)
	if !found {
		panic("the request has no identity")
	}
	return user
}

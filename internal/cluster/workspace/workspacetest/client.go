// Package workspacetest provides an in-memory API client for tests of packages
// that manage workspaces.
package workspacetest

import (
	"context"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/appthrust/capt/internal/cluster/workspace"
	"github.com/appthrust/capt/internal/kubernetes/scheme"
)

// NewClient returns a client that holds objects in memory, with the index of
// workspaces by owner.
func NewClient(t *testing.T, objects ...client.Object) client.WithWatch {
	t.Helper()
	builder := fake.NewClientBuilder().WithScheme(scheme.New()).WithObjects(objects...)
	if err := workspace.Index(t.Context(), indexer{builder}); err != nil {
		t.Fatal(err)
	}
	return builder.Build()
}

// indexer adds the indexes of a cache to an in-memory client.
type indexer struct{ builder *fake.ClientBuilder }

// IndexField implements client.FieldIndexer.
func (i indexer) IndexField(_ context.Context, obj client.Object, field string, extract client.IndexerFunc) error {
	i.builder.WithIndex(obj, field, extract)
	return nil
}

package workspacetemplateapply

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/seal"
	"github.com/appthrust/capt/internal/terraform"
)

// store reads and writes workspaces and their Secrets.
type store struct {
	Client client.Client
	// Reader reads from the API server.
	Reader client.Reader
	// SealKey returns the key that authenticates the Secrets of runs.
	SealKey func(ctx context.Context) (*seal.Key, error)
}

// executors execute the runs of each executor.
type executors map[infrav1.Executor]terraform.Runner

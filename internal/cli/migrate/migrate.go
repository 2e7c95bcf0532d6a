// Package migrate moves a running Karpenter release from Terraform to Flux, and
// back. It derives the remaining work from the clusters before each stage, so an
// interrupted migration continues where it stopped.
package migrate

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	"github.com/appthrust/capt/internal/client/operate"
)

// The defaults of a migration.
const (
	DefaultFrom  = "eks-controlplane-template"
	DefaultTo    = "eks-controlplane-template-v2"
	DefaultFlux  = "fluxcd"
	DefaultAddon = "karpenter"
)

const (
	// RecordAnnotation holds, on a CAPTControlPlane, what the clusters do not show
	// during a migration: the workloads before it, and what a rollback restores.
	RecordAnnotation = "capt.appthrust.io/karpenter-migration"
	// approvalAnnotation holds, on a workspace, its approval mode before the
	// migration.
	approvalAnnotation = "capt.appthrust.io/approval-before-migration"
	// ImportVariable is the variable that makes the old template import a running
	// release, given as namespace/name, into its state.
	ImportVariable = "karpenter_import"
	// unset is the value of approvalAnnotation for an empty approval mode.
	unset = "unset"

	pollInterval = 300 * time.Millisecond
	// maxAttempts is how often a stage may run before the migration gives up.
	maxAttempts = 3
)

// Versions checks which versions are compatible.
type Versions interface {
	// CheckAddon returns an error unless an add-on supports a Kubernetes version.
	CheckAddon(addon *addonsv1.CAPTAddon, kubernetes string) error
}

// Migration migrates clusters. Apply and Rollback block until all stages are
// complete or ctx ends. They may be repeated at any time.
type Migration struct {
	// Client is an uncached client of the management cluster.
	Client client.Client
	// WorkloadClient returns a client for the workload cluster of a kubeconfig.
	WorkloadClient func(kubeconfig []byte) (client.Client, error)
	// Versions, if set, are checked before anything changes.
	Versions Versions
	// From and To are the names of the old and the new template.
	From, To string
	// Flux and Addon are the names of the add-ons.
	Flux, Addon string
	// Install are the add-ons and the objects they need. Those that do not exist
	// are created.
	Install []*unstructured.Unstructured
	// AllowUpgrade lets Flux install a chart version other than the running one.
	AllowUpgrade bool
	// Progress is called when a stage starts and when it is complete.
	Progress func(Event)
	// Now returns the current time.
	Now func() time.Time
}

// Event reports that a stage has started or is complete.
type Event struct {
	Cluster string `json:"cluster"`
	Stage   Stage  `json:"stage"`
	Done    bool   `json:"done"`
	Message string `json:"message,omitempty"`
}

// Stage is a part of a migration or of a rollback.
type Stage string

// The stages of a migration, and of a rollback.
const (
	StageAddons Stage = "Add-ons"
	StageFlux   Stage = "Flux"
	StageForget Stage = "Forget"
	StageAdopt  Stage = "Adopt"

	StageRelease Stage = "Release"
	StageImport  Stage = "Import"

	StageDone Stage = "Done"
)

// work is a migration with the state of the cluster for which it performs a stage.
type work struct {
	*Migration
	*clusterState
}

// action performs a stage and returns a message about its result.
type action func(*work, context.Context) (string, error)

// Preview returns what Apply would do to a cluster. It changes nothing.
func (m *Migration) Preview(ctx context.Context, key client.ObjectKey) (*Report, error) {
	s, err := m.read(ctx, key)
	if err != nil {
		return nil, err
	}
	return m.planMigration(s), nil
}

// PreviewRollback returns what Rollback would do to a cluster. It changes nothing.
func (m *Migration) PreviewRollback(ctx context.Context, key client.ObjectKey) (*Report, error) {
	s, err := m.read(ctx, key)
	if err != nil {
		return nil, err
	}
	return m.planRollback(s), nil
}

// Apply migrates a cluster to Flux. It changes nothing in a cluster whose report
// has blockers.
func (m *Migration) Apply(ctx context.Context, key client.ObjectKey) (*Report, error) {
	return m.run(ctx, key, m.planMigration, map[Stage]action{
		StageAddons: (*work).installAddons, StageFlux: (*work).startFlux, StageForget: (*work).forgetRelease, StageAdopt: (*work).adoptRelease,
		StageDone: (*work).finishMigration,
	})
}

// Rollback returns the release to Terraform. Flux itself stays in the cluster.
func (m *Migration) Rollback(ctx context.Context, key client.ObjectKey) (*Report, error) {
	return m.run(ctx, key, m.planRollback, map[Stage]action{
		StageRelease: (*work).releaseFromFlux, StageImport: (*work).importRelease,
		StageDone: (*work).finishRollback,
	})
}

// run performs the remaining stages. It reads the clusters again before each.
func (m *Migration) run(ctx context.Context, key client.ObjectKey, plan func(*clusterState) *Report, actions map[Stage]action) (*Report, error) {
	attempts := map[Stage]int{}
	for {
		s, err := m.read(ctx, key)
		if err != nil {
			return nil, err
		}
		report := plan(s)
		if len(report.Blockers) > 0 {
			return report, fmt.Errorf("%s: %s", key.Name, report.Blockers[0])
		}
		stage := report.Next()
		if stage == StageDone {
			text, err := actions[stage](&work{m, s}, ctx)
			if err == nil {
				m.progress(key, stage, true, text)
			}
			return report, err
		}
		if attempts[stage]++; attempts[stage] > maxAttempts {
			return report, fmt.Errorf("%s: stage %s was undone %d times: check the conditions of the Cluster and its add-ons", key.Name, stage, maxAttempts)
		}
		m.progress(key, stage, false, report.text(stage))
		text, err := actions[stage](&work{m, s}, ctx)
		if err != nil {
			return report, fmt.Errorf("%s: %s: %w", key.Name, stage, err)
		}
		m.progress(key, stage, true, text)
	}
}

func (m *Migration) progress(key client.ObjectKey, stage Stage, done bool, message string) {
	m.Progress(Event{Cluster: key.Name, Stage: stage, Done: done, Message: message})
}

// poll calls check until nothing is pending. An outage of an API server does not end it, so
// check may be repeated after any error. When ctx ends, the error contains the cause and what
// was pending last.
func poll(ctx context.Context, check func() (pending string, err error)) error {
	last := ""
	var lost time.Time // Zero while there is no outage.
	err := wait.PollUntilContextCancel(ctx, pollInterval, true, func(context.Context) (bool, error) {
		pending, err := check()
		if operate.IsOutage(err) && ctx.Err() == nil {
			if lost.IsZero() {
				lost = time.Now()
			}
			if time.Since(lost) < operate.OutageLimit {
				last = err.Error()
				return false, nil
			}
		}
		if err == nil {
			last, lost = pending, time.Time{}
		}
		return pending == "", err
	})
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("%w: %s", context.Cause(ctx), last)
	}
	return err
}

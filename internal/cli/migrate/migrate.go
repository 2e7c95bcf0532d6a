// Package migrate hands Karpenter's release over from Terraform to Flux, and back,
// while it runs. What is to be done is read off the clusters each time, so a
// migration that was interrupted at any point goes on where it stopped.
package migrate

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
)

// The defaults of a migration.
const (
	DefaultFrom  = "eks-controlplane-template"
	DefaultTo    = "eks-controlplane-template-v2"
	DefaultFlux  = "fluxcd"
	DefaultAddon = "karpenter"
)

const (
	// RecordAnnotation keeps, on a CAPTControlPlane, what a migration has to
	// remember: what ran before, and what a rollback has to put back.
	RecordAnnotation = "capt.appthrust.io/karpenter-migration"
	// approvalAnnotation keeps, on a workspace, what its approval was.
	approvalAnnotation = "capt.appthrust.io/approval-before-migration"
	// ImportVariable is the variable by which the old template takes a running
	// release into the state, as namespace/name.
	ImportVariable = "karpenter_import"
	// unset stands for no approval in the annotation.
	unset = "unset"

	lookInterval = 300 * time.Millisecond
	// mostTurns is how often a stage is gone through before something is wrong.
	mostTurns = 3
)

// Versions knows which versions fit together.
type Versions interface {
	// CheckAddon returns an error unless an add-on supports a Kubernetes version.
	CheckAddon(addon *addonsv1.CAPTAddon, kubernetes string) error
}

// Migration hands releases over. Its methods block until a stage is done or ctx
// ends, and may be called again at any time.
type Migration struct {
	// Client reaches the management cluster without a cache.
	Client client.Client
	// Reach makes a client of a workload cluster out of its kubeconfig.
	Reach func(kubeconfig []byte) (client.Client, error)
	// Versions, if set, are checked before anything is done.
	Versions Versions
	// From and To are the names of the old and the new template.
	From, To string
	// Flux and Addon are the names of the add-ons.
	Flux, Addon string
	// Install are the add-ons and what they need, made if they do not exist.
	Install []*unstructured.Unstructured
	// AllowUpgrade lets Flux bring another version of the chart than the one
	// that runs.
	AllowUpgrade bool
	// Progress, if set, is told of each stage as it begins and ends.
	Progress func(Event)
	// Now is the clock.
	Now func() time.Time
}

// Event is a stage that begins or has ended.
type Event struct {
	Cluster string `json:"cluster"`
	Stage   Stage  `json:"stage"`
	Done    bool   `json:"done"`
	Message string `json:"message,omitempty"`
}

// Stage is one part of a migration or of its way back.
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

// Preview tells what Apply would do to a cluster. It changes nothing.
func (m *Migration) Preview(ctx context.Context, key client.ObjectKey) (*Report, error) {
	w, err := m.read(ctx, key)
	if err != nil {
		return nil, err
	}
	return m.forward(w), nil
}

// PreviewRollback tells what Rollback would do to a cluster. It changes nothing.
func (m *Migration) PreviewRollback(ctx context.Context, key client.ObjectKey) (*Report, error) {
	w, err := m.read(ctx, key)
	if err != nil {
		return nil, err
	}
	return m.backward(w), nil
}

// Apply migrates a cluster. A cluster that something blocks is left as it is.
func (m *Migration) Apply(ctx context.Context, key client.ObjectKey) (*Report, error) {
	return m.walk(ctx, key, m.forward, map[Stage]func(context.Context, *world) (string, error){
		StageAddons: m.installAddons, StageFlux: m.startFlux, StageForget: m.forget, StageAdopt: m.adopt,
	}, m.finish)
}

// Rollback gives the release back to Terraform. Flux itself stays.
func (m *Migration) Rollback(ctx context.Context, key client.ObjectKey) (*Report, error) {
	return m.walk(ctx, key, m.backward, map[Stage]func(context.Context, *world) (string, error){
		StageRelease: m.release, StageImport: m.takeBack,
	}, m.forgetRecord)
}

// walk goes through the stages that are left, reading everything anew before each.
func (m *Migration) walk(ctx context.Context, key client.ObjectKey, plan func(*world) *Report,
	acts map[Stage]func(context.Context, *world) (string, error), end func(context.Context, *world) (string, error),
) (*Report, error) {
	turns := map[Stage]int{}
	for {
		w, err := m.read(ctx, key)
		if err != nil {
			return nil, err
		}
		report := plan(w)
		if len(report.Blockers) > 0 {
			return report, fmt.Errorf("%s: %s", key.Name, report.Blockers[0])
		}
		stage := report.Next()
		if stage == StageDone {
			text, err := end(ctx, w)
			if err == nil {
				m.tell(key, stage, true, text)
			}
			return report, err
		}
		if turns[stage]++; turns[stage] > mostTurns {
			return report, fmt.Errorf("%s: stage %s has to be done again: something works against it; see the conditions of the Cluster and its add-ons", key.Name, stage)
		}
		m.tell(key, stage, false, report.text(stage))
		text, err := acts[stage](ctx, w)
		if err != nil {
			return report, fmt.Errorf("%s: %s: %w", key.Name, stage, err)
		}
		m.tell(key, stage, true, text)
	}
}

func (m *Migration) tell(key client.ObjectKey, stage Stage, done bool, message string) {
	if m.Progress != nil {
		m.Progress(Event{Cluster: key.Name, Stage: stage, Done: done, Message: message})
	}
}

// until looks again and again until nothing is waited for.
func until(ctx context.Context, look func() (waits string, err error)) error {
	ticker := time.NewTicker(lookInterval)
	defer ticker.Stop()
	for {
		waits, err := look()
		if err != nil || waits == "" {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %s", context.Cause(ctx), waits)
		case <-ticker.C:
		}
	}
}

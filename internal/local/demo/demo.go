// Package demo creates a cluster with Flux and Karpenter in a local environment, and
// waits until the status of its objects shows that everything is ready.
package demo

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/appthrust/capt/internal/local/environment"
)

// pollInterval is how often the objects are read.
const pollInterval = 250 * time.Millisecond

// Demo is the cluster of the demo.
type Demo struct {
	environment *environment.Environment
	client      client.Client
	addons      bool

	// name is the Cluster's name.
	name string
	// cluster and addonObjects are applied to the management cluster, and pods to
	// the new cluster.
	cluster, addonObjects []*unstructured.Unstructured
	pods                  *appsv1.Deployment

	// workload is a client for the new cluster. It is nil until it is needed.
	workload client.Client
}

// Progress is the progress of a step.
type Progress struct {
	// Step is the name of the step, and Done reports whether it is done.
	Step string
	Done bool
	// Pending is what the step waits for.
	Pending string
	// Took is the duration of the step, and Total that of all steps so far.
	Took, Total time.Duration
}

// New prepares the demo for a running environment. It applies nothing. Without addons
// the cluster gets neither Flux nor Karpenter.
func New(env *environment.Environment, status *environment.Status, addons bool) (*Demo, error) {
	d := &Demo{environment: env, addons: addons}
	root, err := env.Root()
	if err != nil {
		return nil, err
	}
	if d.cluster, err = environment.ReadManifests(filepath.Join(root, "examples", "quickstart.yaml")); err != nil {
		return nil, err
	}
	if len(d.cluster) != 1 {
		return nil, errors.New("examples/quickstart.yaml must contain exactly one Cluster")
	}
	d.name = d.cluster[0].GetName()
	if d.client, err = env.Client(); err != nil {
		return nil, err
	}
	if !addons {
		return d, nil
	}
	for _, program := range []string{"source-controller", "helm-controller", "karpenter-kwok"} {
		if _, err := env.Program(program); err != nil {
			return nil, err
		}
	}
	if d.pods, err = readPods(filepath.Join(root, "examples", "quickstart-workload.yaml")); err != nil {
		return nil, err
	}
	d.addonObjects, err = readAddons(filepath.Join(root, "bin", "addons"), status.Charts)
	return d, err
}

// Name returns the name of the cluster.
func (d *Demo) Name() string { return d.name }

// Run applies all objects and blocks until everything is ready or ctx ends. It is
// idempotent.
func (d *Demo) Run(ctx context.Context, report func(Progress)) error {
	for _, objects := range [][]*unstructured.Unstructured{d.addonObjects, d.cluster} {
		if err := environment.Apply(ctx, d.client, environment.Namespace, objects); err != nil {
			return err
		}
	}
	began := time.Now()
	for _, step := range d.steps() {
		stepBegan, pending := time.Now(), ""
		err := wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
			pending = step.pending(ctx)
			report(Progress{Step: step.name, Pending: pending, Done: pending == "", Took: time.Since(stepBegan), Total: time.Since(began)})
			return pending == "", nil
		})
		if err != nil {
			return fmt.Errorf("%s: %w: %s; see %s for details", step.name, context.Cause(ctx), pending, step.log())
		}
	}
	return nil
}

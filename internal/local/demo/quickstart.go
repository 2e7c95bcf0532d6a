// Package quickstart makes a cluster with Flux and Karpenter in an embedded
// environment and follows it until everything is ready, from what its objects
// say of themselves.
package demo

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/appthrust/capt/internal/local/environment"
)

// lookInterval is how often the objects are looked at.
const lookInterval = 250 * time.Millisecond

// Demo is the cluster that is made, and how far it is.
type Demo struct {
	environment *environment.Environment
	client      client.Client
	addons      bool

	// name is the Cluster's name.
	name string
	// cluster, add-ons and pods are what is applied.
	cluster, installed []*unstructured.Unstructured
	pods               *appsv1.Deployment

	// workload reaches the cluster that was made, once it can be reached.
	workload client.Client
}

// Progress is where the demo is.
type Progress struct {
	// Step is what is being waited for, Done whether it has come.
	Step string
	Done bool
	// Waits says what is missing.
	Waits string
	// Took is how long the step has taken, Total how long all have.
	Took, Total time.Duration
}

// New prepares the demo of an environment that is up, and applies nothing.
// Without add-ons the cluster gets neither Flux nor Karpenter.
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
		return nil, errors.New("examples/quickstart.yaml must hold one Cluster")
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
	d.installed, err = readAddons(filepath.Join(root, "bin", "addons"), status.Charts)
	return d, err
}

// Name is the name of the cluster.
func (d *Demo) Name() string { return d.name }

// Run applies everything and blocks until all is ready or ctx ends. It may be
// called again.
func (d *Demo) Run(ctx context.Context, report func(Progress)) error {
	for _, objects := range [][]*unstructured.Unstructured{d.installed, d.cluster} {
		if err := environment.Apply(ctx, d.client, environment.Namespace, objects); err != nil {
			return err
		}
	}
	ticker := time.NewTicker(lookInterval)
	defer ticker.Stop()
	began := time.Now()
	last := began
	for _, step := range d.steps() {
		for {
			waits, err := step.look(ctx)
			now := time.Now()
			progress := Progress{Step: step.name, Waits: waits, Took: now.Sub(last), Total: now.Sub(began)}
			if err != nil {
				// What cannot be asked now may answer later.
				progress.Waits = err.Error()
			}
			if err == nil && waits == "" {
				last, progress.Done = now, true
				report(progress)
				break
			}
			report(progress)
			select {
			case <-ctx.Done():
				return fmt.Errorf("%s: %w: %s; more is in %s", step.name, context.Cause(ctx), progress.Waits, step.log())
			case <-ticker.C:
			}
		}
	}
	return nil
}

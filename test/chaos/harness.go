package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/local/controlplane"
	"github.com/appthrust/capt/internal/local/environment"
	"github.com/appthrust/capt/internal/testenv"
)

const (
	// settleTimeout is how long workspaces may take to settle after the last fault,
	// on a busy machine.
	settleTimeout = 3 * time.Minute
	// pollInterval is the interval between requests to the API server.
	pollInterval = 200 * time.Millisecond
	// upAttempts is how often the environment is started while faults are injected.
	upAttempts = 5

	templateName = "things"
	outputName   = "things"
)

// module records its resources in a journal. A create that is stopped gracefully
// leaves a tainted resource, which is later destroyed without a request. So the
// journal is written last, when the create is nearly complete.
const module = `
variable "journal" { type = string }
variable "items" {
  type = map(object({ number = number, tag = string, pause = string }))
}
resource "terraform_data" "thing" {
  for_each         = var.items
  triggers_replace = each.value.number
  input = {
    name = each.key, number = each.value.number, tag = each.value.tag, pause = each.value.pause, journal = var.journal
  }
  provisioner "local-exec" {
    command = "sleep ${self.input.pause}; echo created ${self.input.name} ${self.input.number} ${self.id} $PPID >> ${self.input.journal}"
  }
  provisioner "local-exec" {
    when    = destroy
    command = "sleep ${self.input.pause}; echo destroyed ${self.input.name} ${self.input.number} ${self.id} $PPID >> ${self.input.journal}"
  }
}
output "things" {
  value = { for name, t in terraform_data.thing : name => { id = t.id, number = t.output.number, tag = t.output.tag } }
}
`

// harness is the environment that the schedules run in.
type harness struct {
	env     *environment.Environment
	base    string
	captctl string
	client  client.Client
	store   store
	// parts is held while parts of the environment are killed or restarted.
	parts sync.Mutex
}

func newHarness(ctx context.Context, o options) (*harness, error) {
	states, err := newStore(o.backend, o.s3)
	if err != nil {
		return nil, err
	}
	if s3, ok := states.(*s3Store); ok {
		if err := s3.CreateBucket(ctx); err != nil {
			return nil, err
		}
	}
	captctl, err := testenv.Built("captctl")
	if err != nil {
		return nil, err
	}
	base, err := os.MkdirTemp("", "capt-chaos-")
	if err != nil {
		return nil, fmt.Errorf("creating a directory: %w", err)
	}
	w := &harness{base: base, captctl: captctl, store: states}
	if w.env, err = environment.New("chaos", base); err != nil {
		return nil, err
	}
	if err := os.Mkdir(w.journals(), 0o700); err != nil {
		return nil, fmt.Errorf("creating a directory: %w", err)
	}
	if err := w.up(ctx); err != nil {
		return w, err
	}
	if w.client, err = w.env.Client(); err != nil {
		return w, err
	}
	if s, ok := states.(*kubernetesStore); ok {
		s.client = w.client
	}
	return w, nil
}

func (w *harness) journals() string { return filepath.Join(w.base, "journals") }

// workDir returns the directory in which runs work.
func (w *harness) workDir() string { return filepath.Join(w.env.Dir, "work") }

// up starts the environment, or restarts stopped parts of it, as a user would. It
// retries because faults may be injected meanwhile.
func (w *harness) up(ctx context.Context) error {
	var err error
	for range upAttempts {
		var out []byte
		out, err = exec.CommandContext(ctx, w.captctl, "up", w.env.Name, "--dir", w.base, "--timeout", settleTimeout.String()).CombinedOutput()
		if err == nil {
			return nil
		}
		err = fmt.Errorf("starting the environment: %w: %s", err, out)
		if ctx.Err() != nil {
			break
		}
	}
	return err
}

// down removes the environment, even if ctx has ended.
func (w *harness) down(ctx context.Context) error {
	out, err := exec.CommandContext(context.WithoutCancel(ctx), w.captctl, "down", w.env.Name, "--dir", w.base).CombinedOutput()
	if err != nil {
		return fmt.Errorf("removing the environment: %w: %s", err, out)
	}
	if err := os.RemoveAll(w.base); err != nil {
		return fmt.Errorf("removing the directory: %w", err)
	}
	return nil
}

// management returns the status of the environment's own processes.
func (w *harness) management(ctx context.Context) (*controlplane.Status, error) {
	cluster, err := controlplane.New(filepath.Join(w.env.Dir, "management"))
	if err != nil {
		return nil, err
	}
	return cluster.Status(ctx)
}

// prepare creates a namespace with the template.
func (w *harness) prepare(ctx context.Context, namespace string) error {
	template := &infrav1.WorkspaceTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: templateName}}
	template.Spec.Template.Spec.ForProvider = infrav1.ModuleParameters{Source: infrav1.ModuleSourceInline, Module: module}
	objects := []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}}
	if backend := w.store.config(); backend != nil {
		config := &infrav1.WorkspaceProviderConfig{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "backend"}}
		config.Spec.Backend = backend
		template.Spec.Template.Spec.ProviderConfigRef = &infrav1.LocalReference{Name: config.Name}
		objects = append(objects, config)
	}
	for _, obj := range append(objects, template) {
		err := retry(ctx, func() error {
			return ignoreExists(w.client.Create(ctx, obj))
		})
		if err != nil {
			return fmt.Errorf("preparing namespace %s: %w", namespace, err)
		}
	}
	return nil
}

func ignoreExists(err error) error {
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// retry calls try until it succeeds, because the API server may be down.
func retry(ctx context.Context, try func() error) error {
	return poll(ctx, settleTimeout, try)
}

// poll calls try until it succeeds or the timeout has passed.
func poll(ctx context.Context, timeout time.Duration, try func() error) error {
	deadline := time.Now().Add(timeout)
	for {
		err := try()
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("timed out after %s: %w", timeout, err)
		}
		if !sleep(ctx, pollInterval) {
			return errors.Join(ctx.Err(), err)
		}
	}
}

// sleep waits, and reports false if ctx ends before.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

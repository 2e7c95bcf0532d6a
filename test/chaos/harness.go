package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/kubernetes/scheme"
)

const (
	templateName = "things"
	outputName   = "things"
)

// module records its resources in a journal. Another resource records the creation: a
// provisioner that is stopped taints its resource, and the tool destroys a tainted
// resource without its provisioners, so nothing would record that.
const module = `
variable "journal" { type = string }
variable "recorder" { type = string }
variable "items" {
  type = map(object({ number = number, tag = string, pause = string }))
}
resource "terraform_data" "thing" {
  for_each         = var.items
  triggers_replace = each.value.number
  input = {
    name = each.key, number = each.value.number, tag = each.value.tag, pause = each.value.pause
    journal = var.journal, recorder = var.recorder
  }
  provisioner "local-exec" {
    when        = destroy
    interpreter = [self.input.recorder]
    command     = "${self.input.journal} ${self.input.pause} destroyed ${self.input.name} ${self.input.number} ${self.id}"
  }
}
resource "terraform_data" "record" {
  for_each         = var.items
  triggers_replace = terraform_data.thing[each.key].id
  provisioner "local-exec" {
    interpreter = [var.recorder]
    command     = "${var.journal} ${each.value.pause} created ${each.key} ${each.value.number} ${terraform_data.thing[each.key].id}"
  }
}
output "things" {
  value = { for name, t in terraform_data.thing : name => { id = t.id, number = t.output.number, tag = t.output.tag } }
}
`

// harness is the environment that the schedules run in.
type harness struct {
	platform
	form    form
	base    string
	client  client.Client
	store   store
	journal *journals
	// proxies are those of the platform's manager and of the second one.
	proxies []*proxy
	// second is the manager besides that of the platform. It is nil until it was started.
	second *manager
	// parts is held while parts of the environment are killed or restarted.
	parts sync.Mutex
	// windows are those of all schedules, which share the environment.
	windows windows
}

// newHarness starts the environment. If it returns a harness with an error, the caller
// must remove it.
func newHarness(ctx context.Context, o options) (*harness, error) {
	base, err := os.MkdirTemp("", "capt-chaos-")
	if err != nil {
		return nil, fmt.Errorf("creating a directory: %w", err)
	}
	w := &harness{base: base, form: o.form}
	if o.form.executor == executorJob {
		w.platform, err = newJobPlatform(base)
	} else {
		w.platform, err = newProcessPlatform(base)
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(base))
	}
	logf("If this program is killed now, remove the environment with: %s", w.removal())
	return w, w.start(ctx, o)
}

func (w *harness) start(ctx context.Context, o options) error {
	if err := w.platform.start(ctx); err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", w.kubeconfig())
	if err != nil {
		return fmt.Errorf("reading the kubeconfig: %w", err)
	}
	// No other user shares the API server, which does not respond while it is
	// suspended.
	config.QPS, config.Timeout = -1, attemptTimeout
	if w.client, err = client.New(config, client.Options{Scheme: scheme.New()}); err != nil {
		return fmt.Errorf("connecting to the API server: %w", err)
	}
	if w.journal, err = newJournals(filepath.Join(w.base, "journals"), w.address()); err != nil {
		return err
	}
	if w.store, err = newStore(ctx, o.form.backend, w.client, w.address()); err != nil {
		return err
	}
	account, err := w.account()
	if err != nil {
		return err
	}
	for _, name := range []string{"kubeconfig1", "kubeconfig2"} {
		p, err := newProxy(filepath.Join(w.base, name), account)
		if err != nil {
			return err
		}
		w.proxies = append(w.proxies, p)
	}
	if err := w.startManager(ctx, w.proxies[0].kubeconfig); err != nil {
		return err
	}
	w.second, err = newManager(filepath.Join(w.base, "manager2"), w.proxies[1].kubeconfig, w.managerArgs()) //nolint:contextcheck // The process outlives the call.
	return err
}

// up restarts what has stopped.
func (w *harness) up(ctx context.Context) error {
	if err := w.platform.up(ctx); err != nil {
		return err
	}
	return await(ctx, w.second.ready)
}

// down removes the environment.
func (w *harness) down(ctx context.Context) error {
	return errors.Join(w.stopSecond(), w.platform.down(ctx))
}

// stopSecond stops the second manager, which ends with this program.
func (w *harness) stopSecond() error {
	if w.second == nil {
		return nil
	}
	return w.second.stop()
}

// prepare creates a namespace with the template.
func (w *harness) prepare(ctx context.Context, namespace string) error {
	template := &infrav1.WorkspaceTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: templateName}}
	template.Spec.Template.Spec.ForProvider = infrav1.ModuleParameters{Source: infrav1.ModuleSourceInline, Module: module}
	if w.form.hasProvider() {
		template.Spec.Template.Spec.ForProvider.Module += fileModule
	}
	objects := []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}}
	if backend := w.store.config(); backend != nil {
		config := &infrav1.WorkspaceProviderConfig{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "backend"}}
		config.Spec.Backend = backend
		template.Spec.Template.Spec.ProviderConfigRef = &infrav1.LocalReference{Name: config.Name}
		objects = append(objects, config)
	}
	for _, obj := range append(objects, template) {
		err := await(ctx, func(ctx context.Context) error {
			return client.IgnoreAlreadyExists(w.client.Create(ctx, obj.DeepCopyObject().(client.Object)))
		})
		if err != nil {
			return fmt.Errorf("preparing namespace %s: %w", namespace, err)
		}
	}
	return nil
}

package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/terraform/record"
)

// settle waits until the workspace is what it should be. It approves plans, as
// a user does.
func (a *actor) settle(ctx context.Context) error {
	return await(ctx, patience, func() error {
		now := &infrav1.WorkspaceTemplateApply{}
		err := a.client.Get(ctx, a.key(), now)
		if apierrors.IsNotFound(err) && !a.exists {
			return nil
		}
		if err != nil {
			return err
		}
		if err := a.help(ctx, now); err != nil {
			return err
		}
		if !a.exists {
			return errors.New("it is not gone: " + condition(now, infrav1.DestroyedCondition))
		}
		if a.story.Manual && waits(now) {
			return errors.Join(errors.New("a plan waited"), a.approve(ctx, now))
		}
		ready := meta.FindStatusCondition(now.Status.Conditions, infrav1.ReadyCondition)
		if ready == nil || ready.Status != "True" || ready.ObservedGeneration != now.Generation || now.Status.Run != nil {
			return errors.New("it is not ready: " + condition(now, infrav1.ReadyCondition))
		}
		return nil
	})
}

func condition(apply *infrav1.WorkspaceTemplateApply, kind string) string {
	c := meta.FindStatusCondition(apply.Status.Conditions, kind)
	if c == nil {
		return "no condition " + kind
	}
	return fmt.Sprintf("%s=%s %s: %s", kind, c.Status, c.Reason, c.Message)
}

// help does what the workspace asks the user to do about a lock whose run is
// not on record any more: nothing but its process could prove that it ended.
func (a *actor) help(ctx context.Context, now *infrav1.WorkspaceTemplateApply) error {
	held := slices.ContainsFunc([]string{infrav1.AppliedCondition, infrav1.DestroyedCondition}, func(kind string) bool {
		c := meta.FindStatusCondition(now.Status.Conditions, kind)
		return c != nil && c.Reason == infrav1.LockHeldReason
	})
	if !held {
		return nil
	}
	var leases coordinationv1.LeaseList
	if err := a.client.List(ctx, &leases, client.InNamespace(a.namespace)); err != nil {
		return err
	}
	i := slices.IndexFunc(leases.Items, func(l coordinationv1.Lease) bool { return l.Name == leaseName(a.story.Name) })
	if i < 0 || leases.Items[i].Spec.HolderIdentity == nil {
		return nil
	}
	holder := *leases.Items[i].Spec.HolderIdentity
	runners, _ := a.processes()
	alive := slices.ContainsFunc(runners, func(p process) bool { return p.run == holder && p.workspace == a.namespace+"/"+a.story.Name })
	if alive || !a.deletedRun(holder) || now.Annotations[infrav1.ForceUnlockAnnotation] == holder {
		return nil
	}
	a.noteHelp()
	return a.patch(ctx, fmt.Sprintf(`{"metadata":{"annotations":{%q:%q,%q:%q}}}`,
		infrav1.ForceUnlockAnnotation, holder, infrav1.RunRequestedAnnotation, time.Now().Format(time.RFC3339Nano)))
}

func stateName(workspace string) string { return "tfstate-default-" + workspace + "-ws" }
func leaseName(workspace string) string { return "lock-" + stateName(workspace) }

// check compares what happened, what is recorded and what is wanted, and returns
// what is wrong.
func (a *actor) check(ctx context.Context) ([]string, tally, error) {
	// What still works may still change something.
	left := a.checkProcesses(ctx)
	text, err := os.ReadFile(a.journal())
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, tally{}, fmt.Errorf("reading the journal: %w", err)
	}
	entries, err := parseJournal(string(text))
	if err != nil {
		return nil, tally{}, err
	}
	state, err := a.state(ctx)
	if err != nil {
		return nil, tally{}, err
	}
	var wanted map[string]item
	if a.exists {
		wanted = a.items
	}
	found, counts := examine(entries, state, wanted)
	found = append(left, found...)
	for _, look := range []func(context.Context, map[string]thing) ([]string, error){a.checkOutputs, a.checkSecrets, a.checkLock} {
		more, err := look(ctx, state)
		if err != nil {
			return nil, tally{}, err
		}
		found = append(found, more...)
	}
	return append(found, a.guard.of(a.namespace+"/"+a.story.Name)...), counts, nil
}

// leaving is how long a process may take to end once its work is done: a runner
// ends a moment after it has written its result, a tool whose runner was killed
// when it has finished what it is at.
const leaving = 15 * time.Second

// checkProcesses finds processes that are left.
func (a *actor) checkProcesses(ctx context.Context) []string {
	err := await(ctx, leaving, func() error {
		if runner, tofu := a.current(); runner != nil || tofu != nil {
			return errors.New("a runner or a tool is left")
		}
		return nil
	})
	if err != nil {
		return []string{err.Error()}
	}
	return nil
}

// state returns the resources of the state by id. No state is an empty one.
func (a *actor) state(ctx context.Context) (map[string]thing, error) {
	var secret corev1.Secret
	err := a.client.Get(ctx, client.ObjectKey{Namespace: a.namespace, Name: stateName(a.story.Name)}, &secret)
	if err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	r, err := gzip.NewReader(bytes.NewReader(secret.Data["tfstate"]))
	if err != nil {
		return nil, fmt.Errorf("reading the state: %w", err)
	}
	text, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("reading the state: %w", err)
	}
	var state struct {
		Resources []struct {
			Instances []struct {
				Attributes struct {
					ID    string `json:"id"`
					Input struct {
						Value struct {
							Name   string `json:"name"`
							Tag    string `json:"tag"`
							Number int    `json:"number"`
						} `json:"value"`
					} `json:"input"`
				} `json:"attributes"`
			} `json:"instances"`
		} `json:"resources"`
	}
	if err := json.Unmarshal(text, &state); err != nil {
		return nil, fmt.Errorf("reading the state: %w", err)
	}
	things := map[string]thing{}
	for _, resource := range state.Resources {
		for _, instance := range resource.Instances {
			v := instance.Attributes.Input.Value
			things[instance.Attributes.ID] = thing{Name: v.Name, Number: v.Number, Tag: v.Tag}
		}
	}
	return things, nil
}

// checkOutputs compares the outputs with the state.
func (a *actor) checkOutputs(ctx context.Context, state map[string]thing) ([]string, error) {
	if !a.exists {
		return nil, nil
	}
	now := &infrav1.WorkspaceTemplateApply{}
	if err := a.client.Get(ctx, a.key(), now); err != nil {
		return nil, err
	}
	var outputs map[string]struct {
		ID     string `json:"id"`
		Number int    `json:"number"`
		Tag    string `json:"tag"`
	}
	if err := json.Unmarshal(now.Status.Outputs[outputName].Raw, &outputs); err != nil {
		return []string{fmt.Sprintf("the outputs cannot be read: %v", err)}, nil
	}
	shown := map[string]thing{}
	for name, o := range outputs {
		shown[o.ID] = thing{Name: name, Number: o.Number, Tag: o.Tag}
	}
	if !reflect.DeepEqual(shown, state) {
		return []string{fmt.Sprintf("the outputs are %v, and the state has %v", shown, state)}, nil
	}
	return nil, nil
}

// checkSecrets finds Secrets beyond the limits, and of a workspace that is gone
// all but those of what was left in place.
func (a *actor) checkSecrets(ctx context.Context, _ map[string]thing) ([]string, error) {
	var list corev1.SecretList
	err := a.client.List(ctx, &list, client.InNamespace(a.namespace), client.MatchingLabels{infrav1.WorkspaceLabel: a.story.Name})
	if err != nil {
		return nil, err
	}
	names := map[string][]string{}
	for _, secret := range list.Items {
		component := secret.Labels[infrav1.ComponentLabel]
		names[component] = append(names[component], secret.Name)
	}
	limits := map[string]int{record.ComponentState: 1, record.ComponentSnapshot: snapshotLimit, "connection": 1}
	switch {
	case a.exists:
		// One more: its outputs are in use.
		limits[record.ComponentRun] = historyLimit + 1
	case !a.retained:
		limits = nil
	}
	var found []string
	for _, component := range sorted(names) {
		if len(names[component]) > limits[component] {
			found = append(found, fmt.Sprintf("%d Secrets of kind %s, where %d may be: %s", len(names[component]), component, limits[component], strings.Join(names[component], ", ")))
		}
	}
	return found, nil
}

// checkLock finds a lock whose holder no longer exists.
func (a *actor) checkLock(ctx context.Context, _ map[string]thing) ([]string, error) {
	var found []string
	var lease coordinationv1.Lease
	err := a.client.Get(ctx, client.ObjectKey{Namespace: a.namespace, Name: leaseName(a.story.Name)}, &lease)
	if client.IgnoreNotFound(err) != nil {
		return nil, err
	}
	if err == nil && lease.Spec.HolderIdentity != nil {
		found = append(found, fmt.Sprintf("the lock is held by %s", *lease.Spec.HolderIdentity))
	}
	if err == nil && !a.exists {
		found = append(found, "the lock of a workspace that is gone is left")
	}
	return found, nil
}

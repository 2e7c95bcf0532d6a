package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/terraform/record"
)

// settle waits until the workspace has its desired state. It approves plans, as a
// user does.
func (a *actor) settle(ctx context.Context) error {
	return await(ctx, func(ctx context.Context) error {
		observed := &infrav1.WorkspaceTemplateApply{}
		err := a.client.Get(ctx, a.key(), observed)
		if apierrors.IsNotFound(err) && !a.exists {
			return nil
		}
		if err != nil {
			return err
		}
		if err := a.assist(ctx, observed); err != nil {
			return err
		}
		if !a.exists {
			return errors.New("the workspace is not deleted: " + conditions(observed))
		}
		if a.scenario.Manual && isWaiting(observed) {
			return errors.Join(errors.New("a plan was waiting"), a.approve(ctx, observed))
		}
		return ready(observed)
	})
}

// ready returns an error unless a workspace is ready and has no run.
func ready(observed *infrav1.WorkspaceTemplateApply) error {
	c := meta.FindStatusCondition(observed.Status.Conditions, infrav1.ReadyCondition)
	if c == nil || c.Status != "True" || c.ObservedGeneration != observed.Generation || observed.Status.Run != nil {
		return errors.New("the workspace is not ready: " + conditions(observed))
	}
	return nil
}

// conditions describes the run and the conditions of a workspace that are not True.
func conditions(apply *infrav1.WorkspaceTemplateApply) string {
	var texts []string
	if run := apply.Status.Run; run != nil {
		texts = append(texts, "run "+run.ID)
	}
	for _, c := range apply.Status.Conditions {
		if c.Status != "True" && c.Type != clusterv1.PausedCondition {
			texts = append(texts, fmt.Sprintf("%s=%s %s: %s", c.Type, c.Status, c.Reason, c.Message))
		}
	}
	if len(texts) == 0 {
		return "no run, and no condition that is not True"
	}
	return strings.Join(texts, "; ")
}

// assist does what the conditions of a workspace request from a user after a fault.
func (a *actor) assist(ctx context.Context, observed *infrav1.WorkspaceTemplateApply) error {
	return errors.Join(a.forceUnlock(ctx, observed), a.adopt(ctx, observed), a.retryFailed(ctx, observed), a.approveHeld(ctx, observed))
}

// requestInterval is the time between two requested runs.
const requestInterval = 5 * time.Second

// refused and noSpace match messages of failures that faults cause and that are not
// retried, because usually only a user can fix them.
var (
	refused = regexp.MustCompile(`(?i)ExpiredToken|token has expired|\b403\b|forbidden`)
	noSpace = regexp.MustCompile(`(?i)no space left`)
)

// retryFailed requests a run if a fault was the cause of the failure of the last one.
func (a *actor) retryFailed(ctx context.Context, observed *infrav1.WorkspaceTemplateApply) error {
	c := meta.FindStatusCondition(observed.Status.Conditions, infrav1.AppliedCondition)
	if c == nil || c.Reason != infrav1.RunFailedReason || time.Since(a.requested) < requestInterval {
		return nil
	}
	if len(observed.Status.History) == 0 {
		return nil
	}
	// Only a run during the fault may fail because of it: the next one must not.
	run := observed.Status.History[0]
	end := run.StartedAt.Add(run.Duration.Duration)
	switch {
	case refused.MatchString(c.Message) && a.windows.during(run.StartedAt.Time, end, expireProvider, expireBackend):
		a.excuse(excuseRefused)
	case noSpace.MatchString(c.Message) && a.windows.during(run.StartedAt.Time, end, fillDisk):
		a.excuse(excuseFull)
	default:
		return nil
	}
	a.count(&a.requests)
	return a.requestRun(ctx)
}

// forceUnlock forces an unlock, as the workspace's condition requests, if the record
// of the run that holds the lock was deleted: only its process could prove that it
// has ended.
func (a *actor) forceUnlock(ctx context.Context, observed *infrav1.WorkspaceTemplateApply) error {
	held := slices.ContainsFunc([]string{infrav1.AppliedCondition, infrav1.DestroyedCondition}, func(kind string) bool {
		c := meta.FindStatusCondition(observed.Status.Conditions, kind)
		return c != nil && c.Reason == infrav1.LockHeldReason
	})
	if !held {
		return nil
	}
	found, err := a.store.lock(ctx, a.namespace, a.scenario.Name)
	if err != nil || found.ID == "" {
		return err
	}
	requested, err := a.isRequested(ctx, func(spec *infrav1.WorkspaceOperationSpec) bool {
		return spec.Type == infrav1.OperationUnlock && spec.Unlock.Lock == found.ID
	})
	if err != nil || requested {
		return err
	}
	why, excused := a.excuseOf(found)
	if !a.runProcesses().none() || !excused {
		return nil
	}
	a.excuse(why)
	a.count(&a.unlocks)
	return a.breakLock(ctx, found.ID)
}

func stateName(workspace string) string { return "tfstate-default-" + workspace + "-ws" }
func leaseName(workspace string) string { return "lock-" + stateName(workspace) }

// check compares the journal, the state and the desired items, and returns the
// violations.
func (a *actor) check(ctx context.Context) ([]string, tally, error) {
	// A running process may still change resources.
	remaining := a.checkProcesses(ctx)
	entries, err := a.journal.read(a.workspace())
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
	if !a.exists && !a.retained && len(state) > 0 {
		found = append(found, fmt.Sprintf("the state of the deleted workspace has %d resources", len(state)))
	}
	found = append(remaining, found...)
	for _, check := range []func(context.Context, map[string]resource) ([]string, error){a.checkOutputs, a.checkDrift, a.checkFile, a.checkSecrets, a.checkLock, a.checkPods} {
		more, err := check(ctx, state)
		if err != nil {
			return nil, tally{}, err
		}
		found = append(found, more...)
	}
	return append(found, a.guard.of(a.workspace())...), counts, nil
}

// exitTimeout is how long a process may take to exit after its run has ended: a
// runner exits shortly after it has written its result, and a tool whose runner was
// killed when its operation is complete. A runner that a suspended manager starts for a run
// that has ended since waits a minute for its permissions, which are revoked.
const exitTimeout = 90 * time.Second

// podTimeout is how long Kubernetes may take to delete the objects of an ended run on a
// busy machine.
const podTimeout = 3 * time.Minute

// checkProcesses finds processes that are still running.
func (a *actor) checkProcesses(ctx context.Context) []string {
	err := poll(ctx, exitTimeout, func(context.Context) error {
		if !a.runProcesses().none() {
			return errors.New("a runner or a tool is still running")
		}
		return nil
	})
	if err != nil {
		return []string{err.Error()}
	}
	return nil
}

// state returns the resources of the state by id. A missing state has no resources.
func (a *actor) state(ctx context.Context) (map[string]resource, error) {
	text, err := a.store.read(ctx, a.namespace, a.scenario.Name)
	if err != nil {
		return nil, err
	}
	return parseResources(text)
}

// parseLineage returns the lineage of a state, which may be empty.
func parseLineage(text []byte) (string, error) {
	var state struct {
		Lineage string `json:"lineage"`
	}
	if len(text) == 0 {
		return "", nil
	}
	if err := json.Unmarshal(text, &state); err != nil {
		return "", fmt.Errorf("reading the state: %w", err)
	}
	return state.Lineage, nil
}

// parseResources returns the resources of a state by id. The text may be empty.
func parseResources(text []byte) (map[string]resource, error) {
	if len(text) == 0 {
		return nil, nil
	}
	var state struct {
		Resources []struct {
			Name      string `json:"name"`
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
	resources := map[string]resource{}
	for _, r := range state.Resources {
		if r.Name != "thing" {
			continue
		}
		for _, instance := range r.Instances {
			v := instance.Attributes.Input.Value
			resources[instance.Attributes.ID] = resource{Name: v.Name, Number: v.Number, Tag: v.Tag}
		}
	}
	return resources, nil
}

// checkOutputs compares the outputs with the state.
func (a *actor) checkOutputs(ctx context.Context, state map[string]resource) ([]string, error) {
	if !a.exists {
		return nil, nil
	}
	observed := &infrav1.WorkspaceTemplateApply{}
	if err := a.client.Get(ctx, a.key(), observed); err != nil {
		return nil, err
	}
	var outputs map[string]struct {
		ID     string `json:"id"`
		Number int    `json:"number"`
		Tag    string `json:"tag"`
	}
	if err := json.Unmarshal(observed.Status.Outputs[outputName].Raw, &outputs); err != nil {
		return []string{fmt.Sprintf("decoding the outputs: %v", err)}, nil
	}
	shown := map[string]resource{}
	for name, o := range outputs {
		shown[o.ID] = resource{Name: name, Number: o.Number, Tag: o.Tag}
	}
	if !reflect.DeepEqual(shown, state) {
		return []string{fmt.Sprintf("the outputs are %v, and the state has %v", shown, state)}, nil
	}
	return nil, nil
}

// checkSecrets finds Secrets that exceed the limits, and Secrets of a deleted
// workspace unless its resources are retained.
func (a *actor) checkSecrets(ctx context.Context, _ map[string]resource) ([]string, error) {
	var list corev1.SecretList
	err := a.client.List(ctx, &list, client.InNamespace(a.namespace), client.MatchingLabels{infrav1.WorkspaceLabel: a.scenario.Name})
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
		// One more, because its outputs are in use.
		limits[record.ComponentRun] = historyLimit + 1
		if names[record.ComponentPlan], err = a.surplusPlans(ctx, names[record.ComponentPlan]); err != nil {
			return nil, err
		}
	case !a.retained:
		limits = nil
	}
	var found []string
	for _, component := range sorted(names) {
		if len(names[component]) > limits[component] {
			found = append(found, fmt.Sprintf("%d Secrets of kind %s, limit %d: %s", len(names[component]), component, limits[component], strings.Join(names[component], ", ")))
		}
	}
	return found, nil
}

// surplusPlans returns the Secrets of plans, except the changes of the latest plan and of
// some before it.
func (a *actor) surplusPlans(ctx context.Context, names []string) ([]string, error) {
	observed := &infrav1.WorkspaceTemplateApply{}
	if err := a.client.Get(ctx, a.key(), observed); err != nil {
		return nil, err
	}
	return surplusPlans(names, observed.Status.Plan), nil
}

func surplusPlans(names []string, plan *infrav1.PlanStatus) []string {
	changes := map[string]bool{}
	for _, name := range names {
		if whole := record.ChunkedName(name); record.IsChanges(whole) && (plan == nil || whole != record.ChangesName(plan.ID)) {
			changes[whole] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return plan != nil && record.IsChunk(name, record.ChangesName(plan.ID)) || len(changes) <= changesLimit && record.IsChanges(record.ChunkedName(name))
	})
}

// checkLock finds a lock whose holder no longer exists. A retained workspace leaves the
// lock of a killed tool in another backend to the user, and says so.
func (a *actor) checkLock(ctx context.Context, _ map[string]resource) ([]string, error) {
	held, err := a.store.lock(ctx, a.namespace, a.scenario.Name)
	if err != nil {
		return nil, err
	}
	_, isLease := a.store.(*kubernetesStore)
	if held.ID != "" {
		until := a.retainedUntil
		if a.retained {
			until = time.Now()
		}
		if isLease || a.exists || !a.guard.wasKilled(a.workspace(), held.Created, until) {
			return []string{fmt.Sprintf("the lock is held by %s", held.ID)}, nil
		}
		a.excuse(excuseRetainedLock)
	}
	leases, ok := a.store.(*kubernetesStore)
	if !ok || a.exists {
		return nil, nil
	}
	exists, err := leases.hasLease(ctx, a.namespace, a.scenario.Name)
	if err != nil || !exists {
		return nil, err
	}
	return []string{"the lock of a deleted workspace still exists"}, nil
}

// checkPods finds Jobs and pods of runs that have ended. Those of a lost run are kept
// with its record, and those of a run whose record was deleted with the workspace.
func (a *actor) checkPods(ctx context.Context, _ map[string]resource) ([]string, error) {
	if a.form.executor != executorJob {
		return nil, nil
	}
	kept := map[string]bool{}
	if a.exists {
		observed := &infrav1.WorkspaceTemplateApply{}
		if err := a.client.Get(ctx, a.key(), observed); err != nil {
			return nil, err
		}
		for _, run := range observed.Status.History {
			kept[run.ID] = run.Outcome == "Lost"
		}
	}
	var names []string
	excused := map[string]bool{}
	err := poll(ctx, podTimeout, func(ctx context.Context) error {
		names = nil
		clear(excused)
		in, of := client.InNamespace(a.namespace), client.MatchingLabels{infrav1.WorkspaceLabel: a.scenario.Name}
		var jobs batchv1.JobList
		var pods corev1.PodList
		if err := errors.Join(a.client.List(ctx, &jobs, in, of), a.client.List(ctx, &pods, in, of)); err != nil {
			return err
		}
		add := func(kind string, obj client.Object) {
			if run := obj.GetLabels()[infrav1.RunLabel]; !kept[run] && (!a.exists || !a.isDeletedRun(run)) {
				names = append(names, kind+" "+obj.GetName())
			} else {
				excused[kind+" "+obj.GetName()] = true
			}
		}
		for i := range jobs.Items {
			add("Job", &jobs.Items[i])
		}
		for i := range pods.Items {
			add("Pod", &pods.Items[i])
		}
		if len(names) > 0 {
			return errors.New("objects of ended runs exist: " + strings.Join(names, ", "))
		}
		return nil
	})
	for range excused {
		a.excuse(excuseKept)
	}
	if len(names) > 0 {
		return []string{err.Error()}, nil
	}
	return nil, err
}

// adoptedVersion is at the end of the message of a workspace that found the state of an
// earlier workspace of its name.
var adoptedVersion = regexp.MustCompile(`--version ([0-9a-f-]+/\d+)`)

// mayAdopt reports why a workspace cannot know that the state of a lineage is its own: an earlier
// workspace retained it, or the record of the run that created it was deleted.
func (a *actor) mayAdopt(observed *infrav1.WorkspaceTemplateApply, lineage string) (excuse, bool) {
	if a.left != "" && a.left == lineage {
		return excuseRetainedState, true
	}
	state := observed.Status.State
	return excuseUnknownState, (state == nil || state.Lineage == "") && a.lostRecord(a.scenario.Name)
}

// adopt takes over the state that an earlier workspace of this name left in its
// backend, as the condition of the workspace requests.
func (a *actor) adopt(ctx context.Context, observed *infrav1.WorkspaceTemplateApply) error {
	if state := observed.Status.State; state != nil && state.Lineage != "" && state.Lineage == a.left {
		// From now on, the state is its own.
		a.left = ""
	}
	for _, kind := range []string{infrav1.AppliedCondition, infrav1.DestroyedCondition} {
		c := meta.FindStatusCondition(observed.Status.Conditions, kind)
		if c == nil || c.Reason != infrav1.StateForeignReason {
			continue
		}
		version := adoptedVersion.FindStringSubmatch(c.Message)
		if version == nil {
			return nil
		}
		requested, err := a.isRequested(ctx, func(spec *infrav1.WorkspaceOperationSpec) bool {
			return spec.Type == infrav1.OperationAdopt && spec.Adopt.State == version[1]
		})
		if err != nil || requested {
			return err
		}
		lineage, _, _ := strings.Cut(version[1], "/")
		if why, excused := a.mayAdopt(observed, lineage); excused {
			a.excuse(why)
		} else {
			a.addViolation(a.scenario.Name, "the workspace does not recognize its own state: "+c.Message)
		}
		a.count(&a.adoptions)
		return a.request(ctx, infrav1.WorkspaceOperationSpec{Type: infrav1.OperationAdopt, Adopt: &infrav1.AdoptOptions{State: version[1]}})
	}
	return nil
}

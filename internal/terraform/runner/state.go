package runner

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/command"
	"github.com/appthrust/capt/internal/terraform/record"
)

const stateKey = "tfstate"

// secretLimit is the size limit of a Secret's data, with room for its metadata.
const secretLimit = 1<<20 - 16<<10

// performOnFile performs the operation on a file with the state of the Kubernetes
// backend, and saves the file whenever it changes.
func (r *Runner) performOnFile(ctx context.Context, run *execution) error {
	if err := r.openState(ctx, run); err != nil {
		return err
	}
	stop := run.state.start(ctx)
	err := r.perform(ctx, run)
	stop()
	closeErr := r.closeState(ctx, run, err)
	run.result.StateUncertain = closeErr != nil || run.incomplete
	if err != nil && closeErr != nil {
		// The failure of the tool determines the outcome.
		run.result.Diagnostics = append(run.result.Diagnostics, diagnostic("State not saved", closeErr.Error())...)
	}
	return errors.Join(err, closeErr)
}

// openState reads the state and writes it to the file that the tool works on. A
// state that an earlier run could not save replaces it first.
func (r *Runner) openState(ctx context.Context, run *execution) error {
	if err := r.readForRun(ctx, run); err != nil {
		return err
	}
	if err := r.saveRescued(ctx, run); err != nil {
		return err
	}
	if err := run.verifyState(run.state.working(), "Secret "+run.request.Backend.StateSecretName()); err != nil {
		return err
	}
	if err := run.session.WriteState(run.state.current()); err != nil || run.state.carried == nil {
		return err
	}
	return run.session.ReplaceState(run.state.carried)
}

// readSaved reads the saved state, and saves what earlier runs left in the working
// directory.
func (r *Runner) readSaved(ctx context.Context, run *execution) error {
	run.state = newSavedState(r.kube, run)
	if err := run.state.read(ctx); err != nil {
		return err
	}
	return r.saveUnsaved(ctx, run)
}

// readForRun reads the saved state at the begin of a run, and saves what earlier runs
// of the workspace left in the working directory. A restore or a push replaces a state
// that cannot be read, and keeps a copy of it.
func (r *Runner) readForRun(ctx context.Context, run *execution) error {
	run.state = newSavedState(r.kube, run)
	err := run.state.read(ctx)
	var unreadable *unreadableError
	switch {
	case !errors.As(err, &unreadable):
	case run.replacesState():
		run.printf("The state cannot be read: %v", err)
		err = r.storeRescued(ctx, run, unreadable.content, "")
	default:
		return terminal("Unreadable state", fmt.Errorf("the state in Secret %s cannot be read: %w. Restore a snapshot with captctl state restore, or push a copy with captctl state push", run.request.Backend.StateSecretName(), err))
	}
	if err != nil {
		return err
	}
	if err := r.saveLeft(ctx, run); err != nil {
		return err
	}
	return r.workdir.SetOwner(run.request.Workspace.UID)
}

// known returns what earlier runs reported about the state.
func (run *execution) known() terraform.KnownState {
	known := run.request.State
	known.Owner = run.request.Workspace.Owner()
	return known
}

// verifyState returns an error if the state in the backend is not the state that
// the workspace used before.
func (run *execution) verifyState(content []byte, location string) error {
	found, err := command.Identify(content)
	if err != nil {
		return err
	}
	if _, err := command.ParseState(content); errors.Is(err, command.ErrEncrypted) {
		found.Resources = max(1, run.request.State.Resources)
	}
	if !run.needsKnownState() {
		if !run.readsOnly() {
			run.result.State = found
		}
		return nil
	}
	known := run.known()
	if problem := known.Compare(found, run.state != nil); problem != "" {
		run.result.StateProblem = problem
		return terminal("Unexpected state", errors.New(problem.Explain(known, found, location)))
	}
	run.result.State = found
	return nil
}

// closeState saves the state file for the last time and removes it. If the backend
// does not accept the state, closeState stores it in other Secrets.
func (r *Runner) closeState(ctx context.Context, run *execution, performErr error) error {
	if err := run.checkFile(performErr); err != nil {
		return err
	}
	var err error
	if run.state.printed, err = run.session.PrintedState(); err != nil {
		return err
	}
	if failure := command.AsFailure(performErr); failure != nil && failure.StateUnsaved() {
		unsaved, err := command.UnsavedStates(r.workdir.Dir)
		if err != nil {
			return err
		}
		saved := run.state.current()
		run.incomplete = !slices.ContainsFunc(unsaved, func(state command.UnsavedState) bool { return !sameState(state.Content, saved) })
	}
	err = patienceOf(ctx).attempt(context.WithoutCancel(ctx), run.state.sync)
	switch {
	case err == nil:
		if run.state.carriedName != "" {
			run.result.Saved = append(run.result.Saved, run.state.carriedName)
			run.state.carried, run.state.carriedName = nil, ""
		}
	case errors.Is(err, errIncomplete):
		if err := r.saveIncomplete(ctx, run); err != nil {
			return err
		}
	default:
		if err := r.saveLate(ctx, run, err); err != nil {
			return err
		}
	}
	// A state that the tool could not write to the file.
	if err := r.saveUnsaved(context.WithoutCancel(ctx), run); err != nil {
		return err
	}
	if run.state.carried != nil {
		run.result.StateTooLarge = true
		return terminal("State too large", fmt.Errorf("the state is only in Secret %s", record.ChunkName(run.state.carriedName, 0)))
	}
	if !run.readsOnly() {
		run.observeState(context.WithoutCancel(ctx))
	}
	return run.session.RemoveState()
}

// saveIncomplete saves the latest complete state of a tool that was killed while it
// wrote the next one.
func (r *Runner) saveIncomplete(ctx context.Context, run *execution) error {
	run.printf("The tool was killed while it wrote the state. The state is that of %d s before at most", statePersistSeconds)
	restored, err := run.state.restoreUnsaved()
	if err != nil || !restored {
		run.incomplete = true
		return err
	}
	if err := run.state.sync(context.WithoutCancel(ctx)); err != nil {
		return r.saveLate(ctx, run, err)
	}
	return nil
}

// checkFile returns an error if an apply left no state. OpenTofu ignores that it cannot
// open its state file.
func (run *execution) checkFile(performErr error) error {
	if !run.result.ChangesState() || performErr != nil {
		return nil
	}
	info, err := os.Stat(run.session.StateFile())
	if err == nil && info.Size() > 0 {
		return nil
	}
	return fmt.Errorf("the tool left no state after it changed resources: %w", errors.Join(err, errors.New("the state file is missing or empty")))
}

// observeState adds the saved state to the result. The tool must count the resources
// of an encrypted state.
func (run *execution) observeState(ctx context.Context) {
	content := run.state.current()
	info, err := command.Identify(content)
	if err != nil || info == (terraform.StateInfo{}) || info.Version() == run.result.State.Version() {
		return
	}
	if _, err := command.ParseState(content); errors.Is(err, command.ErrEncrypted) {
		info.Resources = max(1, run.request.State.Resources)
		if run.request.Operation == terraform.OperationSaveState {
			// There is no module that configures the encryption.
		} else if text, err := run.session.StatePull(ctx); err == nil {
			if decrypted, err := command.ParseState(text); err == nil {
				info.Resources = decrypted.Resources
			}
		}
	}
	run.result.State = info
}

// statePersistSeconds is how often the tool saves its state during an apply.
const statePersistSeconds = 20

// saveLate saves a state file that could not be saved at once. It stores the state in
// other Secrets first, because the cause may outlive the run.
func (r *Runner) saveLate(ctx context.Context, run *execution, cause error) error {
	run.printf("The state could not be saved: %v", cause)
	content, err := run.state.latest()
	if err != nil {
		return errors.Join(cause, err)
	}
	bases := run.bases()
	rescueErr := r.storeRescued(ctx, run, content, bases)
	if !stateTooLarge(cause) {
		cause = retry(ctx, saveTimeout, "saving the state", stateTooLarge, run.state.sync)
	}
	if cause == nil {
		if rescueErr == nil {
			run.result.Saved = append(run.result.Saved, record.RescueName(r.RunID, content))
		}
		return nil
	}
	if rescueErr != nil && inPod() {
		// There is no other place for it: the pod is deleted with the run.
		rescueErr = retry(ctx, saveTimeout, "storing a rescued state", isMissing, func(ctx context.Context) error {
			return r.tryRescue(ctx, run, content, bases)
		})
	}
	if stateTooLarge(cause) {
		run.result.StateTooLarge = true
		cause = terminal("State too large", cause)
	}
	return errors.Join(cause, rescueErr)
}

// inPod reports whether the working directory ends with the pod of the run.
func inPod() bool { return os.Getenv("POD_NAME") != "" }

// stateTooLarge reports whether the API server rejects the state because of its size.
// Any other rejection may come from a policy or a webhook and may be temporary.
func stateTooLarge(err error) bool {
	return apierrors.IsRequestEntityTooLargeError(err) || apierrors.IsInvalid(err) && strings.Contains(err.Error(), "Too long")
}

// isMissing reports whether the run or one of its objects was deleted.
func isMissing(err error) bool { return apierrors.IsNotFound(err) }

// readState returns the state as JSON. The tool decrypts an encrypted state.
func (r *Runner) readState(ctx context.Context, run *execution) ([]byte, error) {
	text, err := r.rawState(ctx, run)
	if err != nil {
		return nil, err
	}
	if _, err := command.ParseState(text); errors.Is(err, command.ErrEncrypted) {
		return run.session.StatePull(ctx)
	}
	return text, nil
}

// snapshot stores a copy of the state before a change. The copy of an encrypted
// state is encrypted. A state without resources has no snapshot.
func (r *Runner) snapshot(ctx context.Context, run *execution) error {
	text, err := r.rawState(ctx, run)
	if err != nil {
		return fmt.Errorf("taking a snapshot of the state: %w", err)
	}
	state, err := command.ParseState(text)
	switch {
	case errors.Is(err, command.ErrEncrypted):
	case err != nil:
		return fmt.Errorf("taking a snapshot of the state: %w", err)
	case state.Resources == 0:
		return nil
	case run.request.Encryption != "":
		// The tool decrypts the state of another backend.
		if text, err = run.session.EncryptState(ctx, text); err != nil {
			return fmt.Errorf("taking a snapshot of the state: %w", err)
		}
	}
	name := record.SnapshotName(r.RunID, text)
	annotations := map[string]string{record.WorkspaceUIDAnnotation: run.request.Workspace.UID}
	if version, err := command.Identify(text); err == nil {
		annotations[record.LineageAnnotation] = version.Lineage
	}
	if err := r.storeWith(ctx, run, name, record.ComponentSnapshot, text, annotations); err != nil {
		return fmt.Errorf("taking a snapshot of the state: %w", err)
	}
	run.result.Snapshot = record.ChunkName(name, 0)
	return nil
}

// rawState returns the state as the Kubernetes backend stores it. For other backends
// it returns the decrypted state.
func (r *Runner) rawState(ctx context.Context, run *execution) ([]byte, error) {
	if run.state == nil {
		return run.session.StatePull(ctx)
	}
	content, err := run.session.ReadState()
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("reading the state file: %w", err)
	}
	return content, nil
}

// replaceState writes a raw state to the backend.
func (r *Runner) replaceState(ctx context.Context, run *execution, raw []byte) error {
	if run.state == nil {
		var err error
		if raw, err = run.decrypted(ctx, raw); err != nil {
			return err
		}
		if run.result.State.Lineage == "" {
			return run.session.StateCreate(ctx, raw, run.request.Workspace.Owner())
		}
		return run.session.StatePush(ctx, raw, true)
	}
	if err := run.state.save(ctx, raw); err != nil {
		return err
	}
	return run.session.WriteState(raw)
}

// decrypted returns a stored state as the tool pushes it.
func (run *execution) decrypted(ctx context.Context, state []byte) ([]byte, error) {
	if _, err := command.ParseState(state); errors.Is(err, command.ErrEncrypted) {
		return run.session.DecryptState(ctx, state)
	}
	return state, nil
}

// store writes content to as many Secrets as it requires. Existing Secrets remain
// unchanged, so that an interrupted call can be repeated.
func (r *Runner) store(ctx context.Context, run *execution, name, component string, content []byte) error {
	return r.storeWith(ctx, run, name, component, content, nil)
}

// storeWith is store with annotations. The first Secret is written last: if it exists, the
// content is complete.
func (r *Runner) storeWith(ctx context.Context, run *execution, name, component string, content []byte, annotations map[string]string) error {
	id := r.RunID
	if run.request.Operation == terraform.OperationShell {
		// The user stores it, and no run.
		id = ""
	}
	meta := record.Meta(run.request.Workspace, component, id)
	if run.request.Operation.Destroys() && component == record.ComponentPlan {
		// A foreground deletion of the workspace deletes everything that it owns, also
		// while the plan waits for approval.
		meta.OwnerReferences = nil
	}
	secrets, err := record.Chunks(name, content, meta)
	if err != nil {
		return err
	}
	if component == record.ComponentPlan && name != record.ChangesName(run.result.Plan.ID) {
		if err := record.SetChanges(secrets[0], run.changes); err != nil {
			return err
		}
		if digest := run.moduleDigest(); digest != "" {
			secrets[0].Annotations[record.ModuleAnnotation] = digest
		}
	}
	for _, secret := range slices.Backward(secrets) {
		maps.Copy(secret.Annotations, annotations)
		if err := r.kube.createSecret(ctx, secret); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("storing %s: %w", secret.Name, err)
		}
	}
	return nil
}

// load returns content that store wrote, and the first of its Secrets.
func (r *Runner) load(ctx context.Context, namespace, name string) ([]byte, *corev1.Secret, error) {
	first, err := r.kube.secret(ctx, namespace, record.ChunkName(name, 0))
	if err != nil {
		return nil, nil, fmt.Errorf("reading %s: %w", name, err)
	}
	count, err := record.ChunkCount(first)
	if err != nil {
		return nil, nil, err
	}
	secrets := []*corev1.Secret{first}
	for i := 1; i < count; i++ {
		next, err := r.kube.secret(ctx, namespace, record.ChunkName(name, i))
		if err != nil {
			return nil, nil, fmt.Errorf("reading %s: %w", name, err)
		}
		secrets = append(secrets, next)
	}
	content, err := record.Join(secrets)
	return content, first, err
}

// storeRescued stores a state that the backend does not accept in Secrets, so that it
// does not depend on the working directory. Bases are the digests of the saved states that
// it continues, if they are known.
func (r *Runner) storeRescued(ctx context.Context, run *execution, state []byte, bases string) error {
	return persist(ctx, "storing a rescued state", func(ctx context.Context) error {
		return r.tryRescue(ctx, run, state, bases)
	})
}

// tryRescue is one attempt of storeRescued.
func (r *Runner) tryRescue(ctx context.Context, run *execution, state []byte, bases string) error {
	name := record.RescueName(r.RunID, state)
	if err := r.storeWith(ctx, run, name, record.ComponentRescue, state, r.rescueAnnotations(run, bases)); err != nil {
		return err
	}
	if run.result.Rescued != name {
		run.result.Rescued = name
		run.printf("The state could not be saved to its backend. It is stored in Secret %s", record.ChunkName(name, 0))
	}
	return nil
}

// maxBases limits the bases of a rescued state: the first ones, and the last, which may have
// been saved.
const maxBases = 500

func (r *Runner) rescueAnnotations(run *execution, bases string) map[string]string {
	workspace := run.request.Workspace.UID
	if r.workdir.UsedByAnother(workspace) {
		// The run has found it, and the earlier workspace left it.
		workspace = r.workdir.Owner()
	}
	annotations := map[string]string{record.WorkspaceUIDAnnotation: workspace}
	var lines []string
	for line := range strings.FieldsSeq(bases) {
		if !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	if surplus := len(lines) - maxBases; surplus > 0 {
		lines = slices.Delete(lines, maxBases/10, maxBases/10+surplus)
	}
	if len(lines) > 0 {
		annotations[record.BasesAnnotation] = strings.Join(lines, " ")
	}
	return annotations
}

// bases returns the digests of the saved states that the run's state continues: that which
// it read or saved last, and those that it tried to save. They are unknown if they could
// not be written.
func (run *execution) bases() string {
	bases, err := run.session.Bases()
	if err != nil || bases == "" {
		return ""
	}
	bases += command.BaseOf(run.state.current())
	if run.state.carried != nil {
		bases += command.BaseOf(run.state.carried)
	}
	return bases
}

package runnertest

import (
	"strings"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
)

// snapshotOf returns the name with which a request refers to the snapshot of a run.
func snapshotOf(result *terraform.Result) string {
	return strings.TrimSuffix(strings.TrimPrefix(result.Snapshot, "capt-"), "-0")
}

// command executes a state command.
func (f *fixture) command(command string, module []string, args ...string) *terraform.Result {
	f.t.Helper()
	request := f.request(terraform.OperationStateCommand, module...)
	request.StateCommand = &terraform.StateCommand{ID: request.RunID, Command: command, Args: args}
	return f.finish(request)
}

// output returns the output of a state command.
func (f *fixture) output(result *terraform.Result) string {
	f.t.Helper()
	f.Expect(result.Outcome).To(gomega.Equal(terraform.OutcomeSucceeded), result.Diagnostics.Short())
	secret := &corev1.Secret{}
	f.Expect(f.Client.Get(f.t.Context(), client.ObjectKey{Namespace: f.Namespace, Name: record.ChunkName(record.OutputName(result.RunID), 0)}, secret)).To(gomega.Succeed())
	text, err := record.Join([]*corev1.Secret{secret})
	f.Expect(err).NotTo(gomega.HaveOccurred())
	return string(text)
}

// changesAndRestoresTheState removes a resource from the state and restores the
// snapshot that was taken before.
func (f *fixture) changesAndRestoresTheState() {
	module := []string{resource("first", "", "one", "created first"), resource("second", "", "two", "created second")}
	f.succeed(f.request(terraform.OperationPlanAndApply, module...))
	f.Expect(strings.Fields(f.output(f.command(terraform.StateList, module)))).To(gomega.Equal([]string{"terraform_data.first", "terraform_data.second"}))
	f.Expect(f.output(f.command(terraform.StateShow, module, "terraform_data.second"))).To(gomega.ContainSubstring(`"two"`))
	f.Expect(f.output(f.command(terraform.StatePull, module))).To(gomega.ContainSubstring(f.known.Lineage))
	missing := f.command(terraform.StateShow, module, "terraform_data.third")
	f.Expect(missing.Outcome).To(gomega.Equal(terraform.OutcomeFailed))

	renamed := f.command(terraform.StateMv, module, "terraform_data.second", "terraform_data.renamed")
	f.Expect(renamed.Outcome).To(gomega.Equal(terraform.OutcomeSucceeded), renamed.Diagnostics.Short())
	f.Expect(f.state().Addresses).To(gomega.ConsistOf("terraform_data.first", "terraform_data.renamed"))
	removed := f.command(terraform.StateRm, module, "terraform_data.renamed")
	f.Expect(removed.Outcome).To(gomega.Equal(terraform.OutcomeSucceeded), removed.Diagnostics.Short())
	f.Expect(removed.Snapshot).NotTo(gomega.BeEmpty())
	f.Expect(removed.State.Resources).To(gomega.Equal(1))
	f.Expect(f.state().Resources).To(gomega.Equal(1))
	f.expectUnlocked()

	restore := f.request(terraform.OperationRestoreState, module...)
	restore.Snapshot = snapshotOf(renamed)
	f.succeed(restore)
	f.Expect(f.state().Resources).To(gomega.Equal(2))
	repeated := f.finish(f.request(terraform.OperationPlanAndApply, module...))
	f.Expect(repeated.Outcome).To(gomega.Equal(terraform.OutcomeNoChanges), repeated.Diagnostics.Short())
	f.Expect(f.probe.created("second")).To(gomega.Equal(1), "a change of the state changes no resource")
	f.expectUnlocked()
}

// movesTheState moves the state to another backend and back.
func (f *fixture) movesTheState() {
	first, second := resource("first", "", "one", "created first"), resource("second", "", "two", "created second")
	applied := f.succeed(f.request(terraform.OperationPlanAndApply, first))
	source := f.backend
	target := newHTTP(f.t, f.Harness)
	if backend, _ := source.config(); backend.Type != terraform.BackendKubernetes {
		target = newKubernetes(f.t, f.Harness)
	}

	f.move(target, first)
	f.succeed(f.request(terraform.OperationPlanAndApply, first, second))
	f.move(source, first, second)

	repeated := f.finish(f.request(terraform.OperationPlanAndApply, first, second))
	f.Expect(repeated.Outcome).To(gomega.Equal(terraform.OutcomeNoChanges), repeated.Diagnostics.Short())
	f.Expect(f.known.Lineage).To(gomega.Equal(applied.State.Lineage))
	for _, name := range []string{"first", "second"} {
		f.Expect(f.probe.created(name)).To(gomega.Equal(1), "creations of %s", name)
	}
	f.succeed(f.request(terraform.OperationDestroy, first, second))
	f.Expect(f.state().Resources).To(gomega.BeZero())
}

// move moves the state to a backend, twice: a run whose result was lost is repeated.
func (f *fixture) move(target Backend, module ...string) {
	f.t.Helper()
	before, source := f.state(), f.backend
	for range 2 {
		f.backend = source
		from := f.request(terraform.OperationMoveState)
		f.backend = target
		request := f.request(terraform.OperationMoveState, module...)
		from.Module = terraform.Module{}
		from.State.StateInfo = before.StateInfo
		request.From = from
		result := f.succeed(request)
		f.Expect(result.Snapshot).NotTo(gomega.BeEmpty())
		f.Expect(result.State.Lineage).To(gomega.Equal(before.Lineage))
		f.Expect(result.State.Resources).To(gomega.Equal(before.Resources))
		f.Expect(f.state().Addresses).To(gomega.Equal(before.Addresses))
		f.Expect(f.state().Serial).To(gomega.BeNumerically(">=", before.Serial))
		f.expectUnlocked()
	}
	f.Expect(source.locked()).To(gomega.BeFalse(), "the lock of the first backend must be released")
}

package job_test

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/access"
	"github.com/appthrust/capt/internal/terraform/record"
	"github.com/appthrust/capt/internal/terraform/template"
)

// earlierState stores a state as versions did that recorded no whole name.
func (f *fixture) earlierState(workspace terraform.WorkspaceRef, content string) client.ObjectKey {
	f.t.Helper()
	meta := record.Meta(workspace, record.ComponentState, "")
	meta.Name = terraform.Backend{SecretSuffix: template.StateSuffix(workspace.Name)}.StateSecretName()
	data, err := record.Compress([]byte(content))
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(env.Client.Create(f.ctx, &corev1.Secret{ObjectMeta: meta, Data: map[string][]byte{"tfstate": data}})).To(Succeed())
	return client.ObjectKey{Namespace: meta.Namespace, Name: meta.Name}
}

// The next run of a workspace records its name at a state of an earlier version.
func TestAccess_stateOfAnEarlierVersionGetsTheNameOfItsWorkspace(t *testing.T) {
	f := newFixture(t)
	mine := f.workspace("mine")
	key := f.earlierState(mine, `{"version":4,"lineage":"l","serial":1,"resources":[]}`)
	run := f.run(mine, func(r *terraform.Request) { r.Backend.SecretSuffix = template.StateSuffix(r.Workspace.Name) })
	f.Expect(f.executor.Start(f.ctx, run)).To(Succeed())
	state := &corev1.Secret{}
	f.Expect(env.Client.Get(f.ctx, key, state)).To(Succeed())
	f.Expect(state.Annotations).To(HaveKeyWithValue("capt.appthrust.io/workspace-name", "mine"))
	f.Expect(state.Data).To(HaveKey("tfstate"))
	f.Expect(f.get(&rbacv1.Role{}, access.Name(run.ID))).To(Succeed())
}

// A state of an earlier version does not go to the workspace of a similar name that runs first.
func TestAccess_stateOfAnEarlierVersionIsNotThatOfASimilarName(t *testing.T) {
	for name, known := range map[string]terraform.KnownState{
		"reported": {StateInfo: terraform.StateInfo{Lineage: "l"}}, "adopted": {Adopt: "l/1"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			first, second := collision()
			suffix := func(r *terraform.Request) {
				r.RunID, r.Backend.SecretSuffix = record.NewRunID(r.Workspace.Name, 1), template.StateSuffix(r.Workspace.Name)
			}
			victim := f.workspace(first)
			key := f.earlierState(victim, `{"version":4,"lineage":"l","serial":1,"resources":[]}`)
			attacker := f.run(f.workspace(second), suffix, func(r *terraform.Request) { r.State.Lineage = "other" })
			f.Expect(f.executor.Start(f.ctx, attacker)).To(Succeed())
			result, err := record.Result(f.secret(attacker))
			f.Expect(err).NotTo(HaveOccurred())
			f.Expect(result).To(HaveField("Outcome", terraform.OutcomeFailed))
			f.Expect(apierrors.IsNotFound(f.get(&rbacv1.Role{}, access.Name(attacker.ID)))).To(BeTrue(), "it gets no access to the state")
			f.Expect(env.Client.Delete(f.ctx, f.secret(attacker))).To(Succeed())

			run := f.run(victim, suffix, func(r *terraform.Request) { r.State = known })
			f.Expect(f.executor.Start(f.ctx, run)).To(Succeed())
			f.Expect(f.get(&rbacv1.Role{}, access.Name(run.ID))).To(Succeed())
			state := &corev1.Secret{}
			f.Expect(env.Client.Get(f.ctx, key, state)).To(Succeed())
			f.Expect(state.Annotations).To(HaveKeyWithValue("capt.appthrust.io/workspace-name", first))
		})
	}
}

package job_test

import (
	"context"
	"os"
	"testing"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/job"
	"github.com/appthrust/capt/internal/terraform/record"
	"github.com/appthrust/capt/internal/testenv"
)

var env *testenv.Environment

func TestMain(m *testing.M) {
	os.Exit(testenv.Run(m, &env, testenv.WithoutPolicies()))
}

// fixture is a namespace with workspaces. No controller runs its Jobs.
type fixture struct {
	*WithT
	t         *testing.T
	env       *testenv.Environment
	ctx       context.Context
	namespace string
	executor  *job.Executor
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{WithT: NewWithT(t), t: t, env: env, ctx: t.Context(), namespace: env.Namespace(t)}
	manager := f.manager()
	f.executor = job.New(job.Options{Client: manager.Client, Reader: manager.Client, Image: "example.com/runner:v1"})
	return f
}

// manager returns the account of the manager.
func (f *fixture) manager() *testenv.Account {
	f.t.Helper()
	account, err := f.env.ManagerAccount()
	f.Expect(err).NotTo(HaveOccurred())
	return account
}

// failing returns an executor whose creations fail after the given number.
func (f *fixture) failing(after int) *job.Executor {
	f.t.Helper()
	writer, err := client.NewWithWatch(f.manager().Config, client.Options{Scheme: f.env.Scheme})
	f.Expect(err).NotTo(HaveOccurred())
	writes := 0
	failing := interceptor.NewClient(writer, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			if writes++; writes > after {
				return context.DeadlineExceeded
			}
			return c.Create(ctx, obj, opts...)
		},
	})
	return job.New(job.Options{Client: failing, Reader: f.manager().Client, Image: "example.com/runner:v1"})
}

// unreadable returns a reader that cannot read.
func (f *fixture) unreadable() client.Reader {
	f.t.Helper()
	reader, err := client.NewWithWatch(f.manager().Config, client.Options{Scheme: f.env.Scheme})
	f.Expect(err).NotTo(HaveOccurred())
	return interceptor.NewClient(reader, interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return context.DeadlineExceeded
		},
	})
}

func (f *fixture) workspace(name string) terraform.WorkspaceRef {
	f.t.Helper()
	owner := &infrav1.WorkspaceTemplateApply{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: name},
		Spec:       infrav1.WorkspaceTemplateApplySpec{TemplateRef: infrav1.TemplateReference{Name: "none"}},
	}
	f.Expect(f.env.Client.Create(f.ctx, owner)).To(Succeed())
	return terraform.WorkspaceRef{Namespace: f.namespace, Name: name, UID: string(owner.UID)}
}

// run stores the request of the first run of a workspace.
func (f *fixture) run(workspace terraform.WorkspaceRef, change ...func(*terraform.Request)) terraform.Run {
	f.t.Helper()
	request := &terraform.Request{
		RunID: workspace.Name + "-r1", Workspace: workspace, Operation: terraform.OperationPlanAndApply,
		Module:  terraform.Module{Source: terraform.SourceInline, Format: terraform.FormatHCL},
		Backend: terraform.Backend{Type: terraform.BackendKubernetes, Namespace: f.namespace, SecretSuffix: record.Shorten(workspace.Name, 40)},
	}
	for _, c := range change {
		c(request)
	}
	secret, err := record.NewRun(request, record.Meta(workspace, record.ComponentRun, request.RunID))
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(f.env.Client.Create(f.ctx, secret)).To(Succeed())
	return terraform.Run{Namespace: f.namespace, Workspace: workspace.Name, WorkspaceUID: workspace.UID, ID: request.RunID, Digest: record.RequestDigest(secret)}
}

// start starts the first run of a new workspace.
func (f *fixture) start(name string, change ...func(*terraform.Request)) terraform.Run {
	f.t.Helper()
	run := f.run(f.workspace(name), change...)
	f.Expect(f.executor.Start(f.ctx, run)).To(Succeed())
	return run
}

func (f *fixture) result(run terraform.Run) *terraform.Result {
	f.t.Helper()
	result, err := record.Result(f.secret(run))
	f.Expect(err).NotTo(HaveOccurred())
	return result
}

func (f *fixture) job(name string) *batchv1.Job {
	f.t.Helper()
	found := &batchv1.Job{}
	f.Expect(f.get(found, name)).To(Succeed())
	return found
}

func (f *fixture) get(obj client.Object, name string) error {
	return f.env.Client.Get(f.ctx, client.ObjectKey{Namespace: f.namespace, Name: name}, obj)
}

func (f *fixture) secret(run terraform.Run) *corev1.Secret {
	f.t.Helper()
	secret := &corev1.Secret{}
	f.Expect(f.get(secret, record.SecretName(run.ID))).To(Succeed())
	return secret
}

// claim records a pod as the runner of a run.
func (f *fixture) claim(run terraform.Run, pod *corev1.Pod) {
	f.t.Helper()
	secret := f.secret(run)
	patch, err := record.ClaimPatch(secret.ResourceVersion, record.Identity{PodNamespace: pod.Namespace, PodName: pod.Name, PodUID: string(pod.UID)})
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(f.env.Client.Patch(f.ctx, secret, client.RawPatch("application/merge-patch+json", patch))).To(Succeed())
}

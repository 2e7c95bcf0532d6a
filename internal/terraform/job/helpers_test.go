package job_test

import (
	"context"
	"os"
	"testing"

	. "github.com/onsi/gomega"
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
	os.Exit(testenv.Run(m, &env))
}

// world is a namespace with workspaces. Nobody runs Jobs in it.
type world struct {
	*WithT
	t         *testing.T
	env       *testenv.Environment
	ctx       context.Context
	namespace string
	executor  *job.Executor
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{WithT: NewWithT(t), t: t, env: env, ctx: t.Context(), namespace: env.Namespace(t)}
	w.executor = job.New(job.Options{Client: env.Client, Reader: env.Client, Image: "example.com/runner:v1"})
	return w
}

// failing returns an executor whose writes fail after the given number.
func (w *world) failing(after int) *job.Executor {
	w.t.Helper()
	writer, err := client.NewWithWatch(w.env.Config, client.Options{Scheme: w.env.Scheme})
	w.Expect(err).NotTo(HaveOccurred())
	writes := 0
	broken := interceptor.NewClient(writer, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			if writes++; writes > after {
				return context.DeadlineExceeded
			}
			return c.Create(ctx, obj, opts...)
		},
	})
	return job.New(job.Options{Client: broken, Reader: w.env.Client, Image: "example.com/runner:v1"})
}

func (w *world) workspace(name string) terraform.WorkspaceRef {
	w.t.Helper()
	owner := &infrav1.WorkspaceTemplateApply{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name},
		Spec:       infrav1.WorkspaceTemplateApplySpec{TemplateRef: infrav1.TemplateReference{Name: "none"}},
	}
	w.Expect(w.env.Client.Create(w.ctx, owner)).To(Succeed())
	return terraform.WorkspaceRef{Namespace: w.namespace, Name: name, UID: string(owner.UID)}
}

// run stores the request of a workspace's first run.
func (w *world) run(workspace terraform.WorkspaceRef, change ...func(*terraform.Request)) terraform.Run {
	w.t.Helper()
	request := &terraform.Request{
		RunID: workspace.Name + "-r1", Workspace: workspace, Operation: terraform.OperationPlanAndApply,
		Module:  terraform.Module{Source: terraform.SourceInline, Format: terraform.FormatHCL},
		Backend: terraform.Backend{Type: terraform.BackendKubernetes, Namespace: w.namespace, SecretSuffix: record.Shorten(workspace.Name, 40)},
	}
	for _, c := range change {
		c(request)
	}
	secret, err := record.NewRun(request, record.Meta(workspace, record.ComponentRun, request.RunID))
	w.Expect(err).NotTo(HaveOccurred())
	w.Expect(w.env.Client.Create(w.ctx, secret)).To(Succeed())
	return terraform.Run{Namespace: w.namespace, Workspace: workspace.Name, ID: request.RunID}
}

func (w *world) get(obj client.Object, name string) error {
	return w.env.Client.Get(w.ctx, client.ObjectKey{Namespace: w.namespace, Name: name}, obj)
}

func (w *world) secret(run terraform.Run) *corev1.Secret {
	w.t.Helper()
	secret := &corev1.Secret{}
	w.Expect(w.get(secret, record.SecretName(run.ID))).To(Succeed())
	return secret
}

// claim records a pod as the run's, as its runner does.
func (w *world) claim(run terraform.Run, pod *corev1.Pod) {
	w.t.Helper()
	secret := w.secret(run)
	patch, err := record.ClaimPatch(secret.ResourceVersion, record.Identity{PodNamespace: pod.Namespace, PodName: pod.Name, PodUID: string(pod.UID)})
	w.Expect(err).NotTo(HaveOccurred())
	w.Expect(w.env.Client.Patch(w.ctx, secret, client.RawPatch("application/merge-patch+json", patch))).To(Succeed())
}

package workspacetemplateapply

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path"
	goruntime "runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/decision"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/execution"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/runs"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/sources"
	"github.com/appthrust/capt/internal/seal"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/queue"
	"github.com/appthrust/capt/internal/terraform/record"
)

// testKey is older than all runs of the tests.
var testKey = func() *seal.Key {
	key, err := seal.New(make([]byte, seal.KeySize), time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC))
	utilruntime.Must(err)
	return key
}()

func keyed(key *seal.Key) func(context.Context) (*seal.Key, error) {
	return func(context.Context) (*seal.Key, error) { return key, nil }
}

var errRefused = errors.New("connection refused")

// testController is the controller of the workspace n/hello with a fake API
// server and a fake runner. The call number failAt to either of them fails.
type testController struct {
	Gomega

	t             *testing.T
	server        client.WithWatch // Without failures.
	reconciler    *Reconciler
	frame         *router
	calls, failAt int
	// sites has the numbers of the first and the last call of each line that
	// makes calls.
	sites map[string][2]int

	// What the runner reports and has been asked for.
	liveness                                                    terraform.Liveness
	explanation                                                 string
	started, stopped, interrupted, forgotten, removed, retained []string
	startError                                                  error
	// given are the requests that the runner got with their runs.
	given []*terraform.Request
	// unended are the runs without a record that have not ended.
	unended []string
}

func newTestController(t *testing.T, objects ...client.Object) *testController {
	c := &testController{Gomega: NewWithT(t), t: t, liveness: terraform.LivenessRunning, sites: map[string][2]int{}}
	c.server = fake.NewClientBuilder().WithScheme(testScheme()).WithObjects(objects...).
		WithStatusSubresource(&infrav1.WorkspaceTemplateApply{}, &infrav1.WorkspaceOperation{}).WithIndex(&corev1.Secret{}, runs.WorkspaceIndex, runs.WorkspaceOf).
		WithIndex(&infrav1.WorkspaceOperation{}, runs.RequestIndex, runs.RequestedOf).WithIndex(&infrav1.WorkspaceApproval{}, runs.RequestIndex, runs.RequestedOf).Build()
	failing := interceptor.NewClient(c.server, interceptor.Funcs{
		Get: func(ctx context.Context, w client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			return c.call(func() error { return w.Get(ctx, key, obj, opts...) })
		},
		List: func(ctx context.Context, w client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			return c.call(func() error { return w.List(ctx, list, opts...) })
		},
		Create: func(ctx context.Context, w client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			return c.call(func() error { return w.Create(ctx, obj, opts...) })
		},
		Update: func(ctx context.Context, w client.WithWatch, obj client.Object, opts ...client.UpdateOption) error {
			return c.call(func() error { return w.Update(ctx, obj, opts...) })
		},
		Patch: func(ctx context.Context, w client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			return c.call(func() error { return w.Patch(ctx, obj, patch, opts...) })
		},
		SubResourcePatch: func(ctx context.Context, w client.Client, sub string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			return c.call(func() error { return w.SubResource(sub).Patch(ctx, obj, patch, opts...) })
		},
		Delete: func(ctx context.Context, w client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			return c.call(func() error { return w.Delete(ctx, obj, opts...) })
		},
	})
	c.reconciler = &Reconciler{
		Client: failing, Reader: failing, Metadata: metadataCache{Reader: failing},
		Runners: map[infrav1.Executor]terraform.Runner{infrav1.ExecutorProcess: c}, Default: infrav1.ExecutorProcess,
		SealKey: keyed(testKey), Recorder: events.NewFakeRecorder(1000), Now: func() time.Time { return noon },
		queue: queue.New(queue.Limits{Total: 1}, time.Now, func(queue.Key) {}), tracker: sources.NewTracker(),
	}
	c.frame = c.reconciler.build().router()
	return c
}

// testScheme returns a scheme that is smaller, and faster, than the manager's.
var testScheme = sync.OnceValue(func() *runtime.Scheme {
	s := runtime.NewScheme()
	utilruntime.Must(corev1.AddToScheme(s))
	utilruntime.Must(coordinationv1.AddToScheme(s))
	utilruntime.Must(clusterv1.AddToScheme(s))
	utilruntime.Must(infrav1.AddToScheme(s))
	return s
})

// metadataCache is a cache.Cache that only reads.
type metadataCache struct {
	cache.Cache
	client.Reader
}

func (m metadataCache) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	return m.Reader.Get(ctx, key, obj, opts...)
}

func (m metadataCache) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return m.Reader.List(ctx, list, opts...)
}

// call counts a call, and fails it if it has the number failAt.
func (c *testController) call(do func() error) error {
	c.calls++
	site := callSite()
	numbers, found := c.sites[site]
	if !found {
		numbers[0] = c.calls
	}
	numbers[1] = c.calls
	c.sites[site] = numbers
	if c.calls == c.failAt {
		return errRefused
	}
	return do()
}

// callSite returns the line of the controller that makes a call.
func callSite() string {
	pc := make([]uintptr, 32)
	frames := goruntime.CallersFrames(pc[:goruntime.Callers(2, pc)])
	for {
		frame, more := frames.Next()
		if strings.Contains(frame.Function, "internal/") && !strings.HasSuffix(frame.File, "_test.go") {
			return fmt.Sprintf("%s:%d", frame.Function, frame.Line)
		}
		if !more {
			return ""
		}
	}
}

func (c *testController) note(list *[]string, id string) error {
	return c.call(func() error { *list = append(*list, id); return nil })
}

func (c *testController) Start(_ context.Context, run terraform.Run) error {
	if c.startError != nil {
		return c.startError
	}
	c.given = append(c.given, run.Request)
	return c.note(&c.started, run.ID)
}

func (c *testController) Stop(_ context.Context, run terraform.Run, interrupt bool) error {
	if interrupt {
		c.interrupted = append(c.interrupted, run.ID)
	}
	return c.note(&c.stopped, run.ID)
}

func (c *testController) End(_ context.Context, run terraform.Run) (bool, error) {
	return !slices.Contains(c.unended, run.ID), c.call(func() error { return nil })
}

func (c *testController) Forget(_ context.Context, run terraform.Run) error {
	return c.note(&c.forgotten, run.ID)
}

func (c *testController) Remove(_ context.Context, workspace terraform.WorkspaceRef) error {
	return c.note(&c.removed, workspace.Name)
}

func (c *testController) Retain(_ context.Context, workspace terraform.WorkspaceRef) error {
	return c.note(&c.retained, workspace.Name)
}

func (c *testController) Observe(_ context.Context, run terraform.Run) (terraform.Liveness, error) {
	if err := c.call(func() error { return nil }); err != nil {
		return "", err
	}
	if !slices.Contains(c.started, run.ID) {
		return terraform.LivenessPending, nil
	}
	return c.liveness, nil
}

func (c *testController) Explain(context.Context, terraform.Run) (string, error) {
	return c.explanation, c.call(func() error { return nil })
}

// reconcile reconciles the workspace once, and a second time if a call failed on
// purpose.
func (c *testController) reconcile() ctrl.Result {
	c.t.Helper()
	return c.reconcileKey(key("hello"))
}

func (c *testController) reconcileKey(key client.ObjectKey) ctrl.Result {
	c.t.Helper()
	request := ctrl.Request{NamespacedName: key}
	before := c.calls
	c.frame.borrower = c.reconciler.build().lender.Frame()
	result, err := c.frame.Reconcile(c.t.Context(), request)
	if before < c.failAt && c.failAt <= c.calls {
		c.Expect(err).To(MatchError(errRefused), "the error of call %d was ignored", c.failAt)
		c.failAt = 0
		result, err = c.frame.Reconcile(c.t.Context(), request)
	}
	c.Expect(err).NotTo(HaveOccurred())
	return result
}

func (c *testController) get() *infrav1.WorkspaceTemplateApply {
	c.t.Helper()
	apply := &infrav1.WorkspaceTemplateApply{}
	c.Expect(c.server.Get(c.t.Context(), key("hello"), apply)).To(Succeed())
	return apply
}

func (c *testController) change(change func(*infrav1.WorkspaceTemplateApply)) {
	c.t.Helper()
	apply := c.get()
	change(apply)
	apply.Generation++
	c.Expect(c.server.Update(c.t.Context(), apply)).To(Succeed())
}

// condition returns status and reason of a condition, with its message.
func (c *testController) condition(conditionType string) (state, message string) {
	c.t.Helper()
	found := meta.FindStatusCondition(c.get().Status.Conditions, conditionType)
	c.Expect(found).NotTo(BeNil(), "no condition %s", conditionType)
	return string(found.Status) + " " + found.Reason, found.Message
}

func (c *testController) expect(conditionType, state string) string {
	c.t.Helper()
	got, message := c.condition(conditionType)
	c.Expect(got).To(Equal(state), message)
	return message
}

func (c *testController) runSecret(id string) *corev1.Secret {
	c.t.Helper()
	secret := &corev1.Secret{}
	c.Expect(c.server.Get(c.t.Context(), key(record.SecretName(id)), secret)).To(Succeed())
	return secret
}

// finish records the result of a run, as its runner does.
func (c *testController) finish(id string, result terraform.Result) {
	c.t.Helper()
	secret := c.runSecret(id)
	result.RunID, result.StartedAt, result.FinishedAt = id, noon, noon
	result.Operation = terraform.Operation(secret.Annotations[record.OperationAnnotation])
	c.Expect(record.SetResult(secret, &result)).To(Succeed())
	c.Expect(c.server.Update(c.t.Context(), secret)).To(Succeed())
}

// secrets returns the names of all Secrets.
func (c *testController) secrets() []string {
	c.t.Helper()
	var list corev1.SecretList
	c.Expect(c.server.List(c.t.Context(), &list)).To(Succeed())
	return secretNames(list.Items)
}

// deleted reports whether the workspace does not exist.
func (c *testController) deleted() bool {
	return client.IgnoreNotFound(c.server.Get(c.t.Context(), key("hello"), &infrav1.WorkspaceTemplateApply{})) == nil &&
		c.server.Get(c.t.Context(), key("hello"), &infrav1.WorkspaceTemplateApply{}) != nil
}

func objectMeta(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "n", Name: name} }

func newApply(changes ...func(*infrav1.WorkspaceTemplateApply)) *infrav1.WorkspaceTemplateApply {
	apply := &infrav1.WorkspaceTemplateApply{ObjectMeta: objectMeta("hello")}
	apply.UID, apply.Generation = "u", 1
	apply.Spec.TemplateRef.Name = "vpc"
	apply.Spec.WriteConnectionSecretToRef = &infrav1.ObjectReference{Name: "hello-connection"}
	for _, change := range changes {
		change(apply)
	}
	return apply
}

// newTemplate returns a template that takes values from a Secret and a ConfigMap.
func newTemplate() *infrav1.WorkspaceTemplate {
	template := &infrav1.WorkspaceTemplate{ObjectMeta: objectMeta("vpc")}
	template.Spec.Template.Spec.ProviderConfigRef = &infrav1.LocalReference{Name: "aws"}
	template.Spec.Template.Spec.ForProvider = infrav1.ModuleParameters{
		Source: infrav1.ModuleSourceInline, Module: "output \"id\" { value = \"vpc-1\" }\n",
		Env: []infrav1.EnvVar{
			{Name: "A", SecretKeyReference: &infrav1.KeyReference{Name: "values", Key: "k"}},
			{Name: "B", ConfigMapKeyReference: &infrav1.KeyReference{Name: "values", Key: "k"}},
		},
	}
	return template
}

// values returns the objects that newTemplate refers to.
func values() []client.Object {
	return []client.Object{
		newTemplate(),
		&infrav1.WorkspaceProviderConfig{ObjectMeta: objectMeta("aws")},
		&corev1.Secret{ObjectMeta: objectMeta("values"), Data: map[string][]byte{"k": []byte("v")}},
		&corev1.ConfigMap{ObjectMeta: objectMeta("values"), Data: map[string]string{"k": "v"}},
	}
}

// leftovers returns a plan and snapshots of the workspace.
func leftovers() []client.Object {
	var objects []client.Object
	for name, component := range map[string]string{
		"capt-plan-0000000000000000-0": record.ComponentPlan, "capt-snapshot-hello-r1-0": record.ComponentSnapshot, "capt-snapshot-hello-r2-0": record.ComponentSnapshot,
	} {
		secret := newSecret(objectMeta(name))
		secret.Labels = map[string]string{infrav1.WorkspaceLabel: "hello", infrav1.ComponentLabel: component}
		if component == record.ComponentSnapshot {
			secret.Labels[infrav1.RunLabel] = name[len("capt-snapshot-") : len(name)-len("-0")]
			secret.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "values", UID: "u"}}
			secret.Finalizers = []string{record.StateFinalizer}
		}
		objects = append(objects, secret)
	}
	return objects
}

var outputsResult = terraform.Result{
	Outcome: terraform.OutcomeSucceeded, State: terraform.StateInfo{Lineage: "l", Serial: 1, Resources: 1},
	Outputs: map[string]terraform.Output{"id": output(`"vpc-1"`)},
}

// lifecycle applies a workspace, changes it and deletes it.
func lifecycle(t *testing.T, retain bool, failAt int) *testController {
	other := &infrav1.WorkspaceTemplateApply{ObjectMeta: objectMeta("network")}
	other.Status.AppliedAt = metav1.NewTime(noon)
	other.Status.Conditions = []metav1.Condition{{Type: infrav1.OutputsWrittenCondition, Status: "True", Reason: "R", LastTransitionTime: metav1.NewTime(noon)}}
	objects := append(append(values(), leftovers()...), other, newApply(func(a *infrav1.WorkspaceTemplateApply) {
		a.Spec.RetainWorkspaceOnDelete = retain
		a.Spec.HistoryLimit, a.Spec.SnapshotLimit = new(int32(1)), new(int32(1))
		a.Spec.WaitForSecrets = []infrav1.ObjectReference{{Name: "values"}}
		a.Spec.WaitForWorkspaces = []infrav1.ObjectReference{{Name: "network"}}
	}))
	c := newTestController(t, objects...)
	c.failAt = failAt

	c.reconcile()
	c.expect(infrav1.DependenciesReadyCondition, "True Ready")
	c.expect(infrav1.InputsValidCondition, "True InputsValid")
	c.expect(infrav1.AppliedCondition, "False RunInProgress")
	c.Expect(c.started).To(ContainElement("hello-r1"))
	c.Expect(c.get().Status.Run.ID).To(Equal("hello-r1"))
	c.Expect(c.secrets()).NotTo(ContainElements("capt-plan-0000000000000000-0"))
	c.Expect(c.secrets()).NotTo(ContainElements("capt-snapshot-hello-r1-0"))
	c.Expect(c.secrets()).To(ContainElement("capt-snapshot-hello-r2-0"))

	c.explanation = "The image is being pulled."
	c.Expect(c.reconcile().RequeueAfter).To(Equal(runs.StartInterval))
	c.Expect(c.expect(infrav1.AppliedCondition, "False RunInProgress")).To(HaveSuffix("is running. The image is being pulled."))
	c.Expect(c.stopped).To(BeEmpty())

	c.finish("hello-r1", outputsResult)
	c.reconcile()
	c.expect(infrav1.AppliedCondition, "True Applied")
	c.Expect(c.expect(infrav1.OutputsWrittenCondition, "True OutputsWritten")).To(Equal("Outputs are in Secret hello-connection"))
	c.expect(infrav1.ReadyCondition, "True Ready")
	c.Expect(c.get().Status.Run).To(BeNil())
	c.Expect(c.forgotten).To(ContainElement("hello-r1"))

	// A second run with another output, after which the first run is pruned.
	c.request(newRunOperation("now"))
	c.reconcile()
	c.Expect(c.started).To(ContainElement("hello-r2"))
	second := outputsResult
	second.Outputs = map[string]terraform.Output{"id": output(`"vpc-2"`)}
	c.finish("hello-r2", second)
	c.reconcile()
	c.reconcile()
	c.expect(infrav1.ReadyCondition, "True Ready")
	var connection corev1.Secret
	c.Expect(c.server.Get(t.Context(), key("hello-connection"), &connection)).To(Succeed())
	c.Expect(connection.Data).To(Equal(map[string][]byte{"id": []byte("vpc-2")}))
	c.Expect(c.secrets()).NotTo(ContainElement(record.SecretName("hello-r1")))

	c.Expect(c.server.Delete(t.Context(), c.get())).To(Succeed())
	c.reconcile()
	if retain {
		return c
	}
	c.expect(infrav1.DestroyedCondition, "False RunInProgress")
	c.Expect(c.runSecret("hello-r3").Annotations).To(HaveKeyWithValue(record.OperationAnnotation, "Destroy"))
	c.reconcile()
	c.Expect(c.stopped).To(BeEmpty(), "the destroy run is not stopped")
	c.finish("hello-r3", terraform.Result{Outcome: terraform.OutcomeSucceeded})
	c.reconcile()
	c.expect(infrav1.DestroyedCondition, "True Destroyed")
	c.Expect(c.get().Status.State.Resources).To(BeZero())
	c.runSecret("hello-r3")
	c.reconcile()
	return c
}

func TestReconcile_appliesAndDestroys(t *testing.T) {
	c := lifecycle(t, false, 0)
	c.Expect(c.deleted()).To(BeTrue())
	c.Expect(c.secrets()).To(ConsistOf("values"))
	c.Expect(c.removed).To(ConsistOf("hello"))
	c.Expect(c.reconciler.tracker.MapTo("WorkspaceTemplate")(t.Context(), newTemplate())).To(BeEmpty(), "nothing refers to it")
}

func TestReconcile_retains(t *testing.T) {
	c := lifecycle(t, true, 0)
	c.Expect(c.deleted()).To(BeTrue())
	c.Expect(c.secrets()).To(ConsistOf("values", "hello-connection", "capt-snapshot-hello-r2-0"))
	for _, name := range []string{"hello-connection", "capt-snapshot-hello-r2-0"} {
		var secret corev1.Secret
		c.Expect(c.server.Get(t.Context(), key(name), &secret)).To(Succeed())
		c.Expect(secret.OwnerReferences).To(BeEmpty(), name)
		c.Expect(secret.Finalizers).To(BeEmpty(), "%s: the user can delete it", name)
	}
	c.Expect(c.removed).To(ConsistOf("hello"))
}

// createsRun reports whether a call creates the record of a run. If it fails, the next
// run has another number.
func createsRun(site string) bool { return strings.Contains(site, "execution.(*Reconciler).Start:") }

// Every error of the API server and of the runner is returned, and the next
// reconcile recovers from it.
func TestReconcile_recoversFromEveryError(t *testing.T) {
	for _, retain := range []bool{false, true} {
		for site, numbers := range lifecycle(t, retain, 0).sites {
			if createsRun(site) {
				continue
			}
			for _, failAt := range slices.Compact(numbers[:]) {
				t.Run(fmt.Sprintf("%s, call %d, retain %t", path.Base(site), failAt, retain), func(t *testing.T) {
					c := lifecycle(t, retain, failAt)
					c.Expect(c.failAt).To(BeZero(), "the call was not made")
					c.Expect(c.deleted()).To(BeTrue())
				})
			}
		}
	}
}

func TestReconcile_waitsForItsDependencies(t *testing.T) {
	c := newTestController(t, newApply(func(a *infrav1.WorkspaceTemplateApply) {
		a.Spec.WaitForSecrets = []infrav1.ObjectReference{{Name: "late"}}
		a.Spec.WaitForWorkspaces = []infrav1.ObjectReference{{Name: "network"}}
	}))
	waits := []string{
		"False WaitingForTemplate", "False WaitingForProviderConfig", "False WaitingForSecret", "False WaitingForConfigMap",
	}
	for i, object := range values() {
		c.reconcile()
		c.expect(infrav1.DependenciesReadyCondition, waits[i])
		c.Expect(c.server.Create(t.Context(), object)).To(Succeed())
	}
	c.reconcile()
	c.Expect(c.expect(infrav1.DependenciesReadyCondition, "False WaitingForWorkspace")).To(HaveSuffix("does not exist"))

	other := newApply()
	other.Name, other.UID = "network", "other"
	other.Spec.WaitForWorkspaces = []infrav1.ObjectReference{{Name: "hello"}}
	c.Expect(c.server.Create(t.Context(), other)).To(Succeed())
	c.reconcile()
	c.Expect(c.expect(infrav1.DependenciesReadyCondition, "False DependencyCycle")).To(ContainSubstring("hello → network → hello"))

	other.Spec.WaitForWorkspaces = nil
	other.Status.AppliedAt = metav1.NewTime(noon)
	other.Status.Conditions = []metav1.Condition{{Type: infrav1.OutputsWrittenCondition, Status: "True", Reason: "R", LastTransitionTime: metav1.NewTime(noon)}}
	c.Expect(c.server.Update(t.Context(), other.DeepCopy())).To(Succeed())
	var stored infrav1.WorkspaceTemplateApply
	c.Expect(c.server.Get(t.Context(), key("network"), &stored)).To(Succeed())
	stored.Status = other.Status
	c.Expect(c.server.Status().Update(t.Context(), &stored)).To(Succeed())
	c.reconcile()
	c.Expect(c.expect(infrav1.DependenciesReadyCondition, "False WaitingForSecret")).To(ContainSubstring("n/late"))
	c.Expect(c.started).To(BeEmpty())
	c.Expect(c.reconciler.tracker.MapTo("Secret")(t.Context(), newSecret(objectMeta("late")))).To(HaveLen(1))

	c.Expect(c.server.Create(t.Context(), newSecret(objectMeta("late")))).To(Succeed())
	c.reconcile()
	c.expect(infrav1.DependenciesReadyCondition, "True Ready")
	c.Expect(c.started).To(ConsistOf("hello-r1"))
}

func TestReconcile_attendsARunWhileDependenciesAreMissing(t *testing.T) {
	c := newTestController(t, append(values(), newApply())...)
	c.reconcile()
	config := &infrav1.WorkspaceProviderConfig{ObjectMeta: objectMeta("aws")}
	c.Expect(c.server.Delete(t.Context(), config)).To(Succeed())

	c.reconcile()
	c.expect(infrav1.DependenciesReadyCondition, "False WaitingForProviderConfig")
	c.Expect(c.get().Status.Run).NotTo(BeNil())

	secret := c.runSecret("hello-r1")
	claim(c, &runs.Run{Secret: secret}, record.Identity{Host: "h"})
	secret.ResourceVersion = ""
	c.Expect(c.server.Update(t.Context(), secret)).To(Succeed())
	c.liveness = terraform.LivenessGone
	c.reconcile()
	c.expect(infrav1.DependenciesReadyCondition, "False WaitingForProviderConfig")
	c.Expect(record.Finished(c.runSecret("hello-r1"))).To(BeTrue(), "the loss of the run is recorded")
}

func TestReconcile_recordsALostRun(t *testing.T) {
	c := newTestController(t, append(values(), newApply())...)
	c.reconcile()
	c.liveness, c.explanation = terraform.LivenessGone, "The node was removed."
	c.reconcile()
	c.expect(infrav1.AppliedCondition, "False RunInterrupted")
	result, err := record.Result(c.runSecret("hello-r1"))
	c.Expect(err).NotTo(HaveOccurred())
	c.Expect(result.Outcome).To(Equal(runs.OutcomeLost))
	c.Expect(result.Diagnostics[0].Detail).To(HaveSuffix("The node was removed."))

	c.reconcile()
	c.Expect(c.started).To(ContainElement("hello-r2"), "the next run starts at once")
	c.Expect(c.forgotten).To(BeEmpty(), "the executor keeps what is left of a lost run")
}

// Nothing else shows that the run saved it: a later state does not prove it.
func TestReconcile_deletesARescuedStateThatALostRunSaved(t *testing.T) {
	c := newTestController(t, append(values(), newApply())...)
	c.reconcile()
	for _, name := range []string{"saved", "kept"} {
		c.Expect(c.server.Create(t.Context(), rescuedSecret(name))).To(Succeed())
	}
	patch, err := record.SavedPatch([]string{"saved"})
	c.Expect(err).NotTo(HaveOccurred())
	c.Expect(c.server.Patch(t.Context(), c.runSecret("hello-r1"), client.RawPatch(types.MergePatchType, patch))).To(Succeed())
	c.liveness = terraform.LivenessGone
	c.reconcile()
	c.reconcile()
	var left corev1.SecretList
	c.Expect(c.server.List(t.Context(), &left, client.MatchingLabels{infrav1.ComponentLabel: record.ComponentRescue})).To(Succeed())
	c.Expect(left.Items).To(ConsistOf(HaveField("Name", record.ChunkName("kept", 0))))
}

// The cache has a rescued state for a while after the manager deleted it. A run has no
// access to a state that does not exist, and would fail.
func TestReconcile_namesOnlyRescuedStatesThatExist(t *testing.T) {
	c := newTestController(t, append(values(), newApply(), rescuedSecret("kept"))...)
	c.reconciler.Client = interceptor.NewClient(c.server, interceptor.Funcs{
		List: func(ctx context.Context, w client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			err := w.List(ctx, list, opts...)
			if secrets, ok := list.(*corev1.SecretList); ok {
				secrets.Items = append(secrets.Items, *rescuedSecret("deleted"))
			}
			return err
		},
	})
	c.reconcile()
	request, err := record.Request(c.runSecret("hello-r1"))
	c.Expect(err).NotTo(HaveOccurred())
	c.Expect(request.Rescued).To(ConsistOf("kept"))
}

// A run writes the labels of what it stores, but stores it under its own run. It must not
// choose the state of another workspace.
func TestReconcile_usesNoRescuedStateOfAnotherWorkspacesRun(t *testing.T) {
	forged, snapshot := rescuedSecret("rescue-hello-r1-0123"), rescuedSecret("snapshot-hello-r1-0123")
	forged.Labels[infrav1.RunLabel], snapshot.Labels[infrav1.RunLabel] = "other-r1", "other-r1"
	snapshot.Labels[infrav1.ComponentLabel] = record.ComponentSnapshot
	c := newTestController(t, append(values(), newApply(), forged, snapshot, rescuedSecret("kept"))...)
	c.reconcile()
	request, err := record.Request(c.runSecret("hello-r1"))
	c.Expect(err).NotTo(HaveOccurred())
	c.Expect(request.Rescued).To(ConsistOf("kept"))

	s := newScope("hello")
	s.Apply.Namespace = "n"
	c.Expect(c.reconciler.build().store.Secrets(t.Context(), s.Workspace, record.ComponentSnapshot)).To(BeEmpty(), "it does not displace others")
	c.Expect(c.reconciler.build().store.LiveSecrets(t.Context(), s.Workspace, record.ComponentSnapshot)).To(BeEmpty())
}

func rescuedSecret(name string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: record.ChunkName(name, 0), Labels: map[string]string{
		infrav1.ComponentLabel: record.ComponentRescue, infrav1.WorkspaceLabel: "hello",
	}, Finalizers: []string{record.StateFinalizer}}, Type: corev1.SecretTypeOpaque}
}

// The runs of the next workspace of the name have the same IDs. A manager that was
// suspended must not end them: the next run would break their locks.
func TestRecordLoss_keepsTheRunOfTheNextWorkspace(t *testing.T) {
	c := newTestController(t, append(values(), newApply())...)
	c.reconcile()
	old := c.runSecret("hello-r1")
	old.UID = "deleted"
	err := c.reconciler.build().execution.RecordLoss(t.Context(), &runs.Run{ID: "hello-r1", Secret: old})
	c.Expect(apierrors.IsConflict(err)).To(BeTrue(), "%v", err)
	c.Expect(record.Finished(c.runSecret("hello-r1"))).To(BeFalse())
}

func TestReconcile_doesNotOverwriteTheResultOfARun(t *testing.T) {
	c := newTestController(t, append(values(), newApply())...)
	c.reconcile()
	cached := c.runSecret("hello-r1")
	c.finish("hello-r1", outputsResult)
	err := c.reconciler.build().execution.RecordLoss(t.Context(), &runs.Run{ID: "hello-r1", Secret: cached})
	c.Expect(err).To(MatchError(ContainSubstring("has just ended")))
	result, err := record.Result(c.runSecret("hello-r1"))
	c.Expect(err).NotTo(HaveOccurred())
	c.Expect(result.Outcome).To(Equal(terraform.OutcomeSucceeded))
}

func TestReconcile_stopsACanceledRun(t *testing.T) {
	c := newTestController(t, append(values(), newApply())...)
	c.reconcile()
	c.request(newCancelOperation("hello-r1"))
	c.reconcile()
	c.Expect(c.interrupted).To(ConsistOf("hello-r1"))
	c.Expect(c.expect(infrav1.AppliedCondition, "False RunInProgress")).To(HaveSuffix("is stopping"))
}

func TestReconcile_startsAPendingRunAgain(t *testing.T) {
	c := newTestController(t, append(values(), newApply())...)
	c.reconcile()
	c.liveness = terraform.LivenessPending
	c.reconcile()
	c.Expect(c.started).To(Equal([]string{"hello-r1", "hello-r1"}))
	c.Expect(c.given[0].RunID).To(Equal("hello-r1"), "it was just created")
	c.Expect(c.given[1]).To(BeNil(), "the request may have changed since it was created")
	c.liveness = terraform.LivenessUnknown
	c.reconcile()
	c.expect(infrav1.AppliedCondition, "False LockHeld")
}

func TestReconcile_startsNoPendingRunThatIsObsolete(t *testing.T) {
	tests := map[string]func(*testController){
		"canceled": func(c *testController) { c.request(newCancelOperation("hello-r1")) },
		"deleted":  func(c *testController) { c.Expect(c.server.Delete(c.t.Context(), c.get())).To(Succeed()) },
		"other inputs": func(c *testController) {
			secret := &corev1.Secret{}
			c.Expect(c.server.Get(c.t.Context(), key("values"), secret)).To(Succeed())
			secret.Data["k"] = []byte("other")
			c.Expect(c.server.Update(c.t.Context(), secret)).To(Succeed())
		},
		"approval required": func(c *testController) {
			c.change(func(a *infrav1.WorkspaceTemplateApply) { a.Spec.Approval = infrav1.ApprovalManual })
		},
		"inputs missing": func(c *testController) {
			c.Expect(c.server.Delete(c.t.Context(), &infrav1.WorkspaceProviderConfig{ObjectMeta: objectMeta("aws")})).To(Succeed())
		},
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			c := newTestController(t, append(values(), newApply())...)
			c.reconcile()
			// The manager ended before the runner started.
			c.started, c.liveness = nil, terraform.LivenessPending
			change(c)
			c.reconcile()
			c.Expect(c.started).To(BeEmpty())
			result, err := record.Result(c.runSecret("hello-r1"))
			c.Expect(err).NotTo(HaveOccurred())
			c.Expect(result).To(HaveField("Unclaimed", BeTrue()))
			c.reconcile()
			c.Expect(c.started).NotTo(ContainElement("hello-r1"))
		})
	}
}

func TestReconcile_decidesAgainAfterAWithdrawnRun(t *testing.T) {
	c := newTestController(t, append(values(), newApply(), newRunOperation("now"))...)
	c.reconcile()
	c.started, c.liveness = nil, terraform.LivenessPending
	c.change(func(a *infrav1.WorkspaceTemplateApply) {
		a.Spec.Protect = []infrav1.ProtectPattern{"aws_db_instance.main"}
	})
	c.reconcile()
	c.Expect(c.started).To(BeEmpty(), "it would destroy what is protected now")
	c.reconcile()
	status := c.get().Status
	c.expectPhase("now", infrav1.OperationPending)
	c.Expect(c.runSecret("hello-r2").Annotations).To(HaveKeyWithValue(record.OperationsAnnotation, "uid-now"), "nothing was done")
	c.Expect(status.Failure).To(BeNil())
	c.Expect(c.started).To(Equal([]string{"hello-r2"}))
	c.Expect(c.forgotten).To(Equal([]string{"hello-r1"}), "its Role may exist")
}

func TestReconcile_retainsAlthoughADestroyWasRecorded(t *testing.T) {
	c := newTestController(t, append(values(), newApply())...)
	c.reconcile()
	c.finish("hello-r1", outputsResult)
	c.reconcile()
	c.Expect(c.server.Delete(t.Context(), c.get())).To(Succeed())
	c.reconcile()
	c.Expect(c.started).To(ContainElement("hello-r2"))
	c.started, c.liveness = nil, terraform.LivenessPending
	c.change(func(a *infrav1.WorkspaceTemplateApply) { a.Spec.RetainWorkspaceOnDelete = true })
	for range 3 {
		c.reconcile()
	}
	c.Expect(c.started).To(BeEmpty())
	c.Expect(c.deleted()).To(BeTrue())
}

// TestReconcile_retainsWhatTheCacheDoesNotHave retains a workspace right after a run that
// took a snapshot and has outputs.
func TestReconcile_retainsWhatTheCacheDoesNotHave(t *testing.T) {
	c := newTestController(t, append(values(), newApply(func(a *infrav1.WorkspaceTemplateApply) {
		a.Spec.RetainWorkspaceOnDelete, a.Spec.SnapshotLimit = true, new(int32(1))
	}))...)
	c.reconcile()
	c.finish("hello-r1", outputsResult)
	c.reconcile()
	store := func(name, component, run string, created time.Time) {
		meta := record.Meta(terraform.WorkspaceRef{Namespace: "n", Name: "hello", UID: string(c.get().UID)}, component, run)
		meta.Name, meta.CreationTimestamp = name, metav1.NewTime(created)
		c.Expect(c.server.Create(t.Context(), &corev1.Secret{ObjectMeta: meta})).To(Succeed())
	}
	store("capt-snapshot-hello-r1-a-0", record.ComponentSnapshot, "hello-r1", noon)
	store("capt-snapshot-hello-r2-b-0", record.ComponentSnapshot, "hello-r2", noon.Add(time.Minute))
	lagging := []string{"capt-snapshot-hello-r2-b-0", "hello-connection"}
	c.reconciler.Client = interceptor.NewClient(c.server, interceptor.Funcs{
		List: func(ctx context.Context, w client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			err := w.List(ctx, list, opts...)
			if secrets, ok := list.(*corev1.SecretList); ok {
				secrets.Items = slices.DeleteFunc(secrets.Items, func(secret corev1.Secret) bool { return slices.Contains(lagging, secret.Name) })
			}
			return err
		},
	})
	c.frame = c.reconciler.build().router()
	c.Expect(c.server.Delete(t.Context(), c.get())).To(Succeed())
	for range 3 {
		c.reconcile()
	}
	c.Expect(c.deleted()).To(BeTrue())
	for _, name := range lagging {
		kept := &corev1.Secret{}
		c.Expect(c.server.Get(t.Context(), client.ObjectKey{Namespace: "n", Name: name}, kept)).To(Succeed())
		c.Expect(kept.OwnerReferences).To(BeEmpty(), "the garbage collector would delete %s", name)
	}
	c.Expect(c.secrets()).NotTo(ContainElement("capt-snapshot-hello-r1-a-0"), "beyond the limit")
}

func TestReconcile_withdrawsARunOfADisabledExecutor(t *testing.T) {
	c := newTestController(t, append(values(), newApply())...)
	c.reconcile()
	c.reconciler.Runners = map[infrav1.Executor]terraform.Runner{infrav1.ExecutorJob: c}
	c.reconcile()
	c.Expect(record.Finished(c.runSecret("hello-r1"))).To(BeTrue())
}

func TestReconcile_sealsRunsAgainIfTheKeyWasLost(t *testing.T) {
	c := newTestController(t, append(values(), newApply())...)
	c.reconcile()
	c.finish("hello-r1", outputsResult)
	c.reconcile()
	secret := c.runSecret("hello-r1")
	delete(secret.Annotations, record.SealAnnotation)
	c.Expect(c.server.Update(t.Context(), secret)).To(Succeed())
	for range 3 {
		c.reconcile()
	}
	c.Expect(c.started).To(Equal([]string{"hello-r1"}), "a new key starts no run")
	c.expect(infrav1.AppliedCondition, "True Applied")
	c.Expect(runs.Records(testKey, c.get(), []corev1.Secret{*c.runSecret("hello-r1")})[0].Origin).To(Equal(runs.OriginSealed), "the history will forget it")
}

func TestReconcile_withdrawsNoRunThatHasJustStarted(t *testing.T) {
	c := newTestController(t, append(values(), newApply())...)
	c.reconcile()
	cached := c.runSecret("hello-r1")
	live := cached.DeepCopy()
	claim(c, &runs.Run{Secret: live}, record.Identity{Host: "h"})
	live.ResourceVersion = ""
	c.Expect(c.server.Update(t.Context(), live)).To(Succeed())
	err := c.reconciler.build().execution.Withdraw(t.Context(), &runs.Run{ID: "hello-r1", Secret: cached}, "It was canceled")
	c.Expect(err).To(MatchError(ContainSubstring("has just started")))
	c.Expect(record.Finished(c.runSecret("hello-r1"))).To(BeFalse())
}

func TestReconcile_releasesTheSlotOfAWorkspaceThatCannotRun(t *testing.T) {
	tests := map[string]func(*testController){
		"paused": func(c *testController) {
			c.change(func(a *infrav1.WorkspaceTemplateApply) {
				a.Annotations = map[string]string{"cluster.x-k8s.io/paused": ""}
			})
		},
		"a deletion without its credentials": func(c *testController) {
			c.Expect(c.server.Delete(c.t.Context(), c.get())).To(Succeed())
			c.Expect(c.server.Delete(c.t.Context(), &corev1.Secret{ObjectMeta: objectMeta("values")})).To(Succeed())
		},
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			c := newTestController(t, append(values(), newApply())...)
			c.reconcile()
			c.finish("hello-r1", outputsResult)
			c.reconcile()
			change(c)
			c.reconciler.queue.Acquire(queue.Key{Namespace: "n", Name: "hello"}, queue.Group{})
			c.reconcile()
			running, waiting := c.reconciler.queue.Len()
			c.Expect(running + waiting).To(BeZero())
		})
	}
}

func TestReconcile_keepsTheSlotOfARunWhilePaused(t *testing.T) {
	c := newTestController(t, append(values(), newApply())...)
	c.reconcile()
	c.change(func(a *infrav1.WorkspaceTemplateApply) {
		a.Annotations = map[string]string{"cluster.x-k8s.io/paused": ""}
	})
	c.reconcile()
	running, _ := c.reconciler.queue.Len()
	c.Expect(running).To(Equal(1))
	c.finish("hello-r1", outputsResult)
	c.reconcile()
	running, _ = c.reconciler.queue.Len()
	c.Expect(running).To(BeZero())
}

func TestReconcile_waitsForAFreeSlot(t *testing.T) {
	c := newTestController(t, append(values(), newApply())...)
	other := queue.Key{Namespace: "n", Name: "other"}
	c.reconciler.queue.Acquire(other, queue.Group{})
	c.reconcile()
	c.expect(infrav1.AppliedCondition, "False Queued")
	c.Expect(c.started).To(BeEmpty())

	// A workspace that becomes paused gives up its place in the queue.
	c.change(func(a *infrav1.WorkspaceTemplateApply) {
		a.Annotations = map[string]string{"cluster.x-k8s.io/paused": ""}
	})
	_, waiting := c.reconciler.queue.Len()
	c.Expect(waiting).To(Equal(1))
	c.reconcile()
	_, waiting = c.reconciler.queue.Len()
	c.Expect(waiting).To(BeZero())
}

func TestReconcile_releasesTheSlotOfAWorkspaceWithoutARun(t *testing.T) {
	c := newTestController(t, append(values(), newApply())...)
	c.reconciler.queue.Hold(queue.Key{Namespace: "n", Name: "hello"}, queue.Group{})
	c.change(func(a *infrav1.WorkspaceTemplateApply) { a.Spec.TemplateRef.Name = "missing" })
	c.reconcile()
	running, _ := c.reconciler.queue.Len()
	c.Expect(running).To(BeZero())

	c.change(func(a *infrav1.WorkspaceTemplateApply) { a.Spec.TemplateRef.Name = "vpc" })
	c.reconcile()
	running, _ = c.reconciler.queue.Len()
	c.Expect(running).To(Equal(1))
	c.finish("hello-r1", outputsResult)
	c.reconcile()
	running, _ = c.reconciler.queue.Len()
	c.Expect(running).To(BeZero())
}

func TestReconcile_doesNotStartOnAStaleCache(t *testing.T) {
	c := newTestController(t, append(values(), newApply())...)
	stale := c.get()
	c.change(func(a *infrav1.WorkspaceTemplateApply) {
		a.Finalizers = []string{infrav1.WorkspaceTemplateApplyFinalizer}
	})
	stale.Finalizers = []string{infrav1.WorkspaceTemplateApplyFinalizer}
	c.frame.own.Client = interceptor.NewClient(c.server, interceptor.Funcs{
		Get: func(ctx context.Context, w client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			if apply, ok := obj.(*infrav1.WorkspaceTemplateApply); ok {
				stale.DeepCopyInto(apply)
				return nil
			}
			return w.Get(ctx, key, obj, opts...)
		},
	})
	c.Expect(c.reconcile().RequeueAfter).To(Equal(time.Second))
	c.Expect(c.started).To(BeEmpty())
	running, _ := c.reconciler.queue.Len()
	c.Expect(running).To(Equal(1), "a run may exist that the cache does not have; the next reconcile decides")
}

func TestReconcile_doesNotStartARunThatOnlyTheCacheMisses(t *testing.T) {
	c := newTestController(t, append(values(), newApply())...)
	c.reconcile()
	c.Expect(c.started).To(Equal([]string{"hello-r1"}))
	// The status is lost, and the cache has no Secret yet.
	apply := c.get()
	apply.Status = infrav1.WorkspaceTemplateApplyStatus{}
	c.Expect(c.server.Status().Update(t.Context(), apply)).To(Succeed())
	c.frame.own.Client = interceptor.NewClient(c.server, interceptor.Funcs{
		List: func(ctx context.Context, w client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if _, ok := list.(*corev1.SecretList); ok {
				return nil
			}
			return w.List(ctx, list, opts...)
		},
	})
	c.reconciler.Client = c.frame.own.Client
	c.Expect(c.reconcile().RequeueAfter).To(Equal(time.Second))
	c.Expect(c.started).To(Equal([]string{"hello-r1"}))
	c.Expect(c.secrets()).NotTo(ContainElement(record.SecretName("hello-r2")))
}

func TestReconcile_refusesTheSecretOfAnotherOwner(t *testing.T) {
	c := newTestController(t, append(values(), newApply(), newSecret(objectMeta("hello-connection")))...)
	c.reconcile()
	c.finish("hello-r1", outputsResult)
	c.reconcile()
	c.Expect(c.expect(infrav1.OutputsWrittenCondition, "False SecretConflict")).To(ContainSubstring("Secret hello-connection"))
}

func TestReconcile_reportsInvalidOutputNames(t *testing.T) {
	c := newTestController(t, append(values(), newApply(func(a *infrav1.WorkspaceTemplateApply) { a.Spec.WriteConnectionSecretToRef = nil }))...)
	c.reconcile()
	result := outputsResult
	result.Outputs = map[string]terraform.Output{"grüße": output(`1`)}
	c.finish("hello-r1", result)
	c.reconcile()
	c.Expect(c.expect(infrav1.OutputsWrittenCondition, "False InvalidOutputName")).To(ContainSubstring("Outputs grüße"))
	c.Expect(c.secrets()).NotTo(ContainElement("hello-connection"))
}

func TestReconcile_plansAgainIfTheOutputsAreLost(t *testing.T) {
	c := newTestController(t, append(values(), newApply())...)
	c.reconcile()
	c.finish("hello-r1", outputsResult)
	c.reconcile()
	c.Expect(c.server.Delete(t.Context(), c.runSecret("hello-r1"))).To(Succeed())
	c.reconcile()
	c.expect(infrav1.OutputsWrittenCondition, "False WaitingForWorkspace")
	c.reconcile()
	c.Expect(c.started).To(ContainElement("hello-r2"))
}

func TestReconcile_deletesAWorkspaceThatNeverRan(t *testing.T) {
	c := newTestController(t, newApply())
	c.reconcile()
	c.Expect(c.server.Delete(t.Context(), c.get())).To(Succeed())
	c.reconcile()
	c.Expect(c.deleted()).To(BeTrue())
	c.Expect(c.started).To(BeEmpty())
}

func TestReconcile_destroysWhileTheLockIsHeld(t *testing.T) {
	c := newTestController(t, append(values(), newApply())...)
	c.reconcile()
	c.finish("hello-r1", terraform.Result{Outcome: terraform.OutcomeFailed, Class: terraform.ClassTerminal})
	c.reconcile()
	backend := (&runs.Workspace{Apply: c.get()}).KubernetesBackend()
	lease := &coordinationv1.Lease{ObjectMeta: objectMeta(backend.LeaseName())}
	lease.Spec.HolderIdentity = new("hello-r1")
	c.Expect(c.server.Create(t.Context(), lease)).To(Succeed())

	c.Expect(c.server.Delete(t.Context(), c.get())).To(Succeed())
	c.reconcile()
	c.Expect(c.runSecret("hello-r2").Annotations).To(HaveKeyWithValue(record.OperationAnnotation, "Destroy"), "resources may be missing from the state")
	c.finish("hello-r2", terraform.Result{Outcome: terraform.OutcomeNoChanges})
	c.reconcile()
	c.reconcile()
	c.Expect(c.deleted()).To(BeTrue())
	c.Expect(client.IgnoreNotFound(c.server.Get(t.Context(), key(lease.Name), lease))).To(Succeed())
}

// The next workspace of the name would refuse the state, or wait for its lock forever.
func TestReconcile_destroysAgainIfTheStateIsNotFree(t *testing.T) {
	c := newTestController(t, append(values(), newApply())...)
	c.reconcile()
	c.finish("hello-r1", terraform.Result{Outcome: terraform.OutcomeSucceeded, State: terraform.StateInfo{Lineage: "l", Serial: 1, Resources: 1}})
	c.reconcile()
	c.Expect(c.server.Delete(t.Context(), c.get())).To(Succeed())
	c.reconcile()
	c.finish("hello-r2", terraform.Result{Outcome: terraform.OutcomeSucceeded, State: terraform.StateInfo{Lineage: "l", Serial: 2}, LockLeft: true})
	c.reconcile()
	c.reconcile()
	c.Expect(c.started).To(ContainElement("hello-r3"))
	c.finish("hello-r3", terraform.Result{Outcome: terraform.OutcomeNoChanges, State: terraform.StateInfo{Lineage: "l", Serial: 3}})
	c.reconcile()
	c.reconcile()
	c.Expect(c.deleted()).To(BeTrue())
}

func TestReconcile_savesTheStateOfALostRunBeforeResourcesAreRetained(t *testing.T) {
	c := newTestController(t, append(values(), newApply(func(a *infrav1.WorkspaceTemplateApply) { a.Spec.RetainWorkspaceOnDelete = true }))...)
	c.reconcile()
	c.finish("hello-r1", terraform.Result{Outcome: runs.OutcomeLost})
	c.Expect(c.server.Delete(t.Context(), c.get())).To(Succeed())
	c.reconcile()
	c.Expect(c.runSecret("hello-r2").Annotations).To(HaveKeyWithValue(record.OperationAnnotation, "SaveState"))
	c.reconcile()
	c.Expect(c.stopped).To(BeEmpty())
	c.finish("hello-r2", terraform.Result{Outcome: terraform.OutcomeSucceeded})
	c.reconcile()
	c.reconcile()
	c.Expect(c.deleted()).To(BeTrue())
	c.Expect(c.forgotten).To(ContainElements("hello-r1", "hello-r2"))
	c.Expect(c.retained).To(ContainElement("hello"), "the next workspace continues what is left")
}

// A runner may still execute a run whose record was deleted, and must not report its
// result as that of another run.
func TestReconcile_usesNoRunNumberTwice(t *testing.T) {
	for failAt := 1; ; failAt++ {
		c := newTestController(t, append(values(), newApply())...)
		c.failAt = failAt
		request := ctrl.Request{NamespacedName: key("hello")}
		_, err := c.frame.Reconcile(t.Context(), request)
		if c.failAt > c.calls {
			c.Expect(err).NotTo(HaveOccurred())
			return
		}
		started := slices.Clone(c.started)
		c.failAt = 0
		for _, id := range started {
			c.Expect(c.server.Delete(t.Context(), c.runSecret(id))).To(Succeed())
		}
		c.reconcile()
		c.Expect(c.started).NotTo(BeEmpty())
		c.Expect(started).NotTo(ContainElement(c.started[len(c.started)-1]), "call %d failed", failAt)
	}
}

func TestReconcile_savesTheStateOfARunWithoutARecordBeforeResourcesAreRetained(t *testing.T) {
	for _, backend := range []string{"kubernetes", "s3"} {
		t.Run(backend, func(t *testing.T) {
			c := newTestController(t, append(values(), newApply(func(a *infrav1.WorkspaceTemplateApply) { a.Spec.RetainWorkspaceOnDelete = true }))...)
			c.reconcile()
			c.Expect(c.server.Delete(t.Context(), c.runSecret("hello-r1"))).To(Succeed())
			apply := c.get()
			apply.Status.State.Backend = backend
			c.Expect(c.server.Status().Update(t.Context(), apply)).To(Succeed())
			c.Expect(c.server.Delete(t.Context(), apply)).To(Succeed())
			c.reconcile()
			c.Expect(c.runSecret("hello-r2").Annotations).To(HaveKeyWithValue(record.OperationAnnotation, "SaveState"))
			c.finish("hello-r2", terraform.Result{Outcome: terraform.OutcomeSucceeded})
			c.reconcile()
			c.reconcile()
			c.Expect(c.deleted()).To(BeTrue())
		})
	}
}

// A run that cannot be created must not consume a number, and write the status, each time.
func TestReconcile_reusesTheNumberOfARunThatWasNotCreated(t *testing.T) {
	c := newTestController(t, append(values(), newApply())...)
	forbidden, writes := true, 0
	c.reconciler.Client = interceptor.NewClient(c.server, interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, w client.Client, sub string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			writes++
			return w.SubResource(sub).Patch(ctx, obj, patch, opts...)
		},
		Create: func(ctx context.Context, w client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			if forbidden {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, obj.GetName(), errors.New("exceeded quota"))
			}
			return w.Create(ctx, obj, opts...)
		},
	})
	c.reconciler.build()
	for range 3 {
		_, err := c.frame.Reconcile(t.Context(), ctrl.Request{NamespacedName: key("hello")})
		c.Expect(err).To(MatchError(ContainSubstring("exceeded quota")))
		running, _ := c.reconciler.queue.Len()
		c.Expect(running).To(BeZero(), "it would block other workspaces")
	}
	c.Expect(writes).To(Equal(1))
	forbidden = false
	c.reconcile()
	c.Expect(c.started).To(Equal([]string{"hello-r1"}))
}

// A manager that does not lead any more has taken the number of a run, and creates it when
// this one has seen that it does not exist.
func TestReconcile_startsNoRunBesideAnEarlierOne(t *testing.T) {
	c := newTestController(t, append(values(), newApply())...)
	c.reconcile()
	earlier := c.runSecret("hello-r1")
	c.Expect(c.server.Delete(t.Context(), earlier)).To(Succeed())
	earlier.ResourceVersion = ""
	c.started = nil
	inner := c.reconciler.Client
	c.reconciler.Client = interceptor.NewClient(c.server, interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, _ client.Client, sub string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			if data, err := patch.Data(obj); err != nil || strings.Contains(string(data), `"runs":2`) {
				c.Expect(c.server.Create(ctx, earlier)).To(Succeed())
			}
			return inner.SubResource(sub).Patch(ctx, obj, patch, opts...)
		},
	})
	c.reconcile()
	c.Expect(c.secrets()).To(ContainElement("capt-run-hello-r1"), "the other manager created it")
	c.Expect(c.started).To(BeEmpty())
	c.Expect(c.secrets()).NotTo(ContainElement("capt-run-hello-r2"))
}

// A manager that is suspended before it creates a run continues when another one has
// started a later run.
func TestReconcile_startsNoRunAfterALaterOne(t *testing.T) {
	c := newTestController(t, append(values(), newApply())...)
	inner := c.reconciler.Client
	c.reconciler.Client = interceptor.NewClient(c.server, interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, _ client.Client, sub string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			return inner.SubResource(sub).Patch(ctx, obj, patch, opts...)
		},
		Create: func(ctx context.Context, w client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			apply := c.get()
			apply.Status.Runs++
			c.Expect(c.server.Status().Update(ctx, apply)).To(Succeed())
			return w.Create(ctx, obj, opts...)
		},
	})
	c.Expect(c.reconcile().RequeueAfter).To(Equal(time.Second))
	c.Expect(c.started).To(BeEmpty())
	c.Expect(c.secrets()).NotTo(ContainElement("capt-run-hello-r1"))
	running, _ := c.reconciler.queue.Len()
	c.Expect(running).To(Equal(1), "a run may exist that the cache does not have; the next reconcile decides")
}

func TestReconcile_abandonsARunThatWasCreatedTooLate(t *testing.T) {
	c := newTestController(t, append(values(), newApply())...)
	c.reconcile()
	late := c.runSecret("hello-r1").DeepCopy()
	c.finish("hello-r1", outputsResult)
	c.reconcile()
	apply := c.get()
	apply.Status.Runs = 3
	c.Expect(c.server.Status().Update(t.Context(), apply)).To(Succeed())
	late.Name, late.ResourceVersion, late.UID = record.SecretName("hello-r2"), "", "late"
	late.Labels[infrav1.RunLabel] = "hello-r2"
	(&runs.Workspace{Key: testKey}).Seal(late)
	c.Expect(c.server.Create(t.Context(), late)).To(Succeed())
	c.reconcile()
	c.reconcile()
	c.Expect(c.started).NotTo(ContainElement("hello-r2"), "its inputs are outdated")
	c.Expect(c.secrets()).NotTo(ContainElement("capt-run-hello-r2"), "it would be recorded as the last run")
}

// forge creates the Secret of a run as a module can, which knows the Secret of its own
// run.
func (c *testController) forge(id string, change func(*corev1.Secret)) {
	c.t.Helper()
	forged := c.runSecret("hello-r1").DeepCopy()
	forged.Name, forged.ResourceVersion, forged.UID = record.SecretName(id), "", types.UID(id)
	forged.Labels[infrav1.RunLabel], forged.CreationTimestamp = id, metav1.NewTime(noon)
	change(forged)
	c.Expect(c.server.Create(c.t.Context(), forged)).To(Succeed())
}

func TestReconcile_startsNoRunThatAModuleCreated(t *testing.T) {
	c := newTestController(t, append(values(), newApply())...)
	c.reconcile()
	for _, id := range []string{"hello-r2", "hello-r3"} {
		c.forge(id, func(*corev1.Secret) {})
	}
	c.finish("hello-r1", outputsResult)
	c.reconcile()
	c.Expect(c.started).To(Equal([]string{"hello-r1"}))
	c.expect(infrav1.AppliedCondition, "True Applied")

	// The forged runs do not prevent the next one either.
	c.request(newRunOperation("now"))
	for range 3 {
		c.reconcile()
	}
	c.Expect(c.started).To(HaveLen(2))
	c.Expect(c.started[1]).NotTo(BeElementOf("hello-r1", "hello-r2", "hello-r3"))
}

func TestReconcile_stopsARunThatRemovesItsSeal(t *testing.T) {
	c := newTestController(t, append(values(), newApply())...)
	c.reconcile()
	secret := c.runSecret("hello-r1")
	delete(secret.Annotations, record.SealAnnotation)
	c.Expect(c.server.Update(t.Context(), secret)).To(Succeed())
	apply := c.get()
	apply.Status.Run = nil
	c.Expect(c.server.Status().Update(t.Context(), apply)).To(Succeed())
	c.reconcile()
	c.Expect(c.stopped).To(Equal([]string{"hello-r1"}))
	c.Expect(c.interrupted).To(BeEmpty(), "it may be creating a resource")
	c.Expect(c.started).To(Equal([]string{"hello-r1"}), "two runs at the same time")
	c.liveness = terraform.LivenessGone
	c.reconcile()
	c.Expect(c.started).To(HaveLen(2))
}

func TestReconcile_ignoresTheResultOfAForgedRun(t *testing.T) {
	c := newTestController(t, append(values(), newApply())...)
	c.reconcile()
	c.finish("hello-r1", outputsResult)
	c.reconcile()
	c.forge("hello-r2", func(secret *corev1.Secret) {
		secret.Annotations[record.OperationAnnotation] = string(terraform.OperationDestroy)
		c.Expect(record.SetResult(secret, &terraform.Result{RunID: "hello-r2", Operation: terraform.OperationDestroy, Outcome: terraform.OutcomeSucceeded})).To(Succeed())
	})
	c.Expect(c.server.Delete(t.Context(), c.get())).To(Succeed())
	for range 3 {
		c.reconcile()
	}
	c.Expect(c.deleted()).To(BeFalse(), "nothing was destroyed")
	c.Expect(c.started).To(HaveLen(2))
}

// The run itself writes its result, so the manager cannot seal it. Without the policy
// capt-reserved-secrets, a user who changes Secrets changes outputs, but starts and destroys
// nothing.
func TestReconcile_usesAChangedResultForOutputsOnly(t *testing.T) {
	c := newTestController(t, append(values(), newApply())...)
	c.reconcile()
	c.finish("hello-r1", outputsResult)
	c.reconcile()
	result := outputsResult
	result.Outputs = map[string]terraform.Output{"id": output(`"chosen"`)}
	result.State.Serial++
	c.finish("hello-r1", result)
	for range 3 {
		c.reconcile()
	}
	var connection corev1.Secret
	c.Expect(c.server.Get(t.Context(), key("hello-connection"), &connection)).To(Succeed())
	c.Expect(connection.Data).To(Equal(map[string][]byte{"id": []byte("chosen")}))
	c.Expect(c.started).To(Equal([]string{"hello-r1"}), "a result starts no run")

	secret := c.runSecret("hello-r1")
	result.RunID, result.Operation = "hello-r1", terraform.OperationDestroy
	c.Expect(record.SetResult(secret, &result)).To(Succeed())
	c.Expect(c.server.Update(t.Context(), secret)).To(Succeed())
	c.Expect(c.server.Delete(t.Context(), c.get())).To(Succeed())
	for range 3 {
		c.reconcile()
	}
	c.Expect(c.deleted()).To(BeFalse(), "it is the result of another operation")
	c.Expect(c.runSecret("hello-r2").Annotations).To(HaveKeyWithValue(record.OperationAnnotation, "Destroy"))
}

func TestReconcile_survivesAnyResultOfARun(t *testing.T) {
	bomb, err := record.Compress(bytes.Repeat([]byte(" "), 32<<20))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	object, err := record.Compress([]byte(`{"outcome":"Everything","class":"Other","operation":"Destroy"}`))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	for name, written := range map[string][]byte{"no gzip": []byte("x"), "too large": bomb, "unknown outcome": object} {
		t.Run(name, func(t *testing.T) {
			c := newTestController(t, append(values(), newApply())...)
			c.reconcile()
			secret := c.runSecret("hello-r1")
			secret.Data["result"], secret.CreationTimestamp = written, metav1.NewTime(noon)
			c.Expect(c.server.Update(t.Context(), secret)).To(Succeed())
			c.reconcile()
			c.Expect(c.get().Status.History[0]).To(And(HaveField("Outcome", BeEquivalentTo("Lost")), HaveField("Operation", BeEquivalentTo("PlanAndApply"))))
			c.reconcile()
			c.Expect(c.started).To(ContainElement("hello-r2"))
		})
	}
}

func TestReconcile_withdrawsARunWithAnotherRequest(t *testing.T) {
	c := newTestController(t, append(values(), newApply())...)
	c.reconcile()
	c.liveness, c.startError = terraform.LivenessPending, fmt.Errorf("starting run: %w", record.ErrForged)
	c.reconcile()
	result, err := record.Result(c.runSecret("hello-r1"))
	c.Expect(err).NotTo(HaveOccurred())
	c.Expect(result.Diagnostics[0].Detail).To(Equal("Its request was changed."))
}

// A Job or a RoleBinding that a user has created under the name of the run must not hold
// a slot forever.
func TestReconcile_freesTheSlotOfARunThatCannotStart(t *testing.T) {
	c := newTestController(t, append(values(), newApply())...)
	c.reconcile()
	secret := c.runSecret("hello-r1")
	secret.CreationTimestamp = metav1.NewTime(noon)
	c.Expect(c.server.Update(t.Context(), secret)).To(Succeed())
	c.liveness, c.startError = terraform.LivenessPending, errRefused
	_, err := c.frame.Reconcile(t.Context(), ctrl.Request{NamespacedName: key("hello")})
	c.Expect(err).To(MatchError(errRefused))
	c.reconciler.Now = func() time.Time { return noon.Add(execution.DefaultStartTimeout + time.Second) }
	c.reconcile()
	result, err := record.Result(c.runSecret("hello-r1"))
	c.Expect(err).NotTo(HaveOccurred())
	c.Expect(result.Diagnostics[0]).To(And(HaveField("Summary", "The run could not start"), HaveField("Detail", ContainSubstring("connection refused"))))
	c.reconcile()
	running, _ := c.reconciler.queue.Len()
	c.Expect(running).To(BeZero())
}

func TestReconcile_restoresTheStatusOfAMovedWorkspaceFromItsRuns(t *testing.T) {
	c := newTestController(t, append(values(), newApply())...)
	c.reconcile()
	c.finish("hello-r1", outputsResult)
	c.reconcile()
	apply := c.get()
	apply.Status = infrav1.WorkspaceTemplateApplyStatus{}
	c.Expect(c.server.Status().Update(t.Context(), apply)).To(Succeed())
	// The other management cluster has another key.
	other, err := seal.New(seal.Generate(), testKey.Created())
	c.Expect(err).NotTo(HaveOccurred())
	c.reconciler.SealKey = keyed(other)

	for range 3 {
		c.reconcile()
	}
	c.Expect(c.started).To(Equal([]string{"hello-r1"}))
	c.expect(infrav1.AppliedCondition, "True Applied")
	c.Expect(c.get().Status.Runs).To(BeEquivalentTo(1))
}

func TestReconcile_stopsTheRunOfADeletedWorkspace(t *testing.T) {
	c := newTestController(t, append(values(), newApply())...)
	c.reconcile()
	c.Expect(c.server.Delete(t.Context(), c.get())).To(Succeed())
	c.reconcile()
	c.Expect(c.interrupted).To(ConsistOf("hello-r1"))
	c.expect(infrav1.DestroyedCondition, "False RunInProgress")
}

func TestReconcile_waitsForItsOwner(t *testing.T) {
	owner := &infrav1.CAPTCluster{ObjectMeta: objectMeta("demo")}
	owner.UID, owner.Finalizers = "owner", []string{"test/keep"}
	c := newTestController(t, owner, newApply(func(a *infrav1.WorkspaceTemplateApply) {
		a.Finalizers = []string{infrav1.WorkspaceHeldFinalizer}
		a.OwnerReferences = []metav1.OwnerReference{{APIVersion: infrav1.GroupVersion.String(), Kind: "CAPTCluster", Name: "demo", UID: "owner", Controller: new(true)}}
	}))
	c.reconcile()
	c.Expect(c.server.Delete(t.Context(), c.get())).To(Succeed())

	c.Expect(c.reconcile().RequeueAfter).To(Equal(time.Minute))
	c.Expect(c.expect(infrav1.DestroyedCondition, "False HeldByOwner")).To(HavePrefix("CAPTCluster demo uses this workspace"))
	c.Expect(c.server.Delete(t.Context(), owner)).To(Succeed())
	c.reconcile()
	c.Expect(c.expect(infrav1.DestroyedCondition, "False HeldByOwner")).To(HavePrefix("CAPTCluster demo is being deleted"))

	c.calls, c.failAt = 0, 4
	c.reconcile()
	c.Expect(c.failAt).To(BeZero())
	c.Expect(c.server.Get(t.Context(), key("demo"), owner)).To(Succeed())
	owner.Finalizers = nil
	c.Expect(c.server.Update(t.Context(), owner)).To(Succeed())
	c.reconcile()
	c.Expect(c.deleted()).To(BeTrue(), "the owner was deleted by force")
}

func TestWorkspacesOfCluster(t *testing.T) {
	labelled := newApply(func(a *infrav1.WorkspaceTemplateApply) {
		a.Labels = map[string]string{"cluster.x-k8s.io/cluster-name": "demo"}
	})
	other := newApply(func(a *infrav1.WorkspaceTemplateApply) { a.Name = "other" })
	c := newTestController(t, labelled, other)
	requests := c.reconciler.build().resolver.WorkspacesOfCluster(t.Context(), &infrav1.CAPTCluster{ObjectMeta: objectMeta("demo")})
	c.Expect(requests).To(Equal([]ctrl.Request{{NamespacedName: key("hello")}}))
}

// A reconcile with an object of the cache may ask for a slot after the object was
// deleted. The slot must not be lost.
func TestReconcile_releasesTheSlotOfADeletedWorkspace(t *testing.T) {
	c := newTestController(t)
	admitted, _ := c.reconciler.queue.Acquire(queue.Key{Namespace: "default", Name: "deleted"}, queue.Group{})
	c.Expect(admitted).To(BeTrue())

	_, err := c.frame.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Namespace: "default", Name: "deleted"}})

	c.Expect(err).NotTo(HaveOccurred())
	running, waiting := c.reconciler.queue.Len()
	c.Expect(running + waiting).To(BeZero())
}

// A manager that was suspended while it deleted a workspace continues after the next
// workspace of the name exists. Whatever has the names of its objects belongs to the next
// one now.
func TestCleanUp_leavesTheObjectsOfTheNextWorkspace(t *testing.T) {
	for _, retain := range []bool{false, true} {
		state, run := newSecret(objectMeta("tfstate-default-hello-ws")), newSecret(objectMeta("capt-run-hello-r1"))
		for secret, component := range map[*corev1.Secret]string{state: record.ComponentState, run: record.ComponentRun} {
			secret.Labels = map[string]string{infrav1.WorkspaceLabel: "hello", infrav1.ComponentLabel: component}
			secret.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "WorkspaceTemplateApply", Name: "hello", UID: "next"}}
		}
		lease := &coordinationv1.Lease{ObjectMeta: objectMeta("lock-tfstate-default-hello-ws")}
		next := newApply(func(a *infrav1.WorkspaceTemplateApply) { a.UID = "next" })
		c := newTestController(t, next, state, run, lease)
		s := newScope("hello")
		s.Apply.UID, s.Apply.Spec.RetainWorkspaceOnDelete = "earlier", retain
		c.Expect(s.KubernetesBackend().LeaseName()).To(Equal(lease.Name))
		s.Runs = []*runs.Run{{ID: "hello-r1", Workspace: "hello", Number: 1, Secret: run}}

		err := c.reconciler.build().cleaner.CleanUp(t.Context(), s.Workspace)

		c.Expect(apierrors.IsConflict(err)).To(BeTrue(), "%v", err)
		c.Expect(c.secrets()).To(ContainElements(state.Name, run.Name))
		c.Expect(c.server.Get(t.Context(), client.ObjectKeyFromObject(lease), lease)).To(Succeed())
		c.Expect(c.server.Get(t.Context(), client.ObjectKeyFromObject(state), state)).To(Succeed())
		c.Expect(state.OwnerReferences).To(HaveLen(1))
		c.Expect(c.forgotten).To(BeEmpty())
		c.Expect(c.removed).To(BeEmpty())
		for _, component := range []string{record.ComponentState, record.ComponentRun} {
			c.Expect(apierrors.IsConflict(c.reconciler.build().cleaner.DeleteSecrets(t.Context(), s.Workspace, component))).To(BeTrue())
			c.Expect(apierrors.IsConflict(c.reconciler.build().store.ReleaseSecrets(t.Context(), s.Workspace, component))).To(BeTrue())
		}
		c.Expect(apierrors.IsConflict(c.reconciler.build().cleaner.DeleteLock(t.Context(), s.Workspace))).To(BeTrue())
	}
}

// A workspace of the name of a retained one, which it never used, leaves what that one has
// left.
func TestDeleteSecrets_keepsTheStateOfARetainedWorkspace(t *testing.T) {
	snapshot := func(uid, lineage string) *corev1.Secret {
		secret := newSecret(objectMeta("capt-snapshot-hello-r1-0"))
		secret.Labels = map[string]string{infrav1.WorkspaceLabel: "hello", infrav1.ComponentLabel: record.ComponentSnapshot}
		secret.Annotations = map[string]string{record.WorkspaceUIDAnnotation: uid, record.LineageAnnotation: lineage}
		return secret
	}
	kept := snapshot("", "")
	kept.Annotations = map[string]string{record.KeepAnnotation: "true"}
	for name, tc := range map[string]struct {
		secret *corev1.Secret
		known  string
		kept   bool
		alone  bool
	}{
		"a state that was not read":             {savedIn(NewWithT(t), "l", 3), "", true, false},
		"a state beside that in a bucket":       {savedIn(NewWithT(t), "l", 3), "x", true, false},
		"the state of the workspace":            {savedIn(NewWithT(t), "l", 3), "l", false, false},
		"a snapshot of another workspace":       {snapshot("retained", "l"), "", true, false},
		"a snapshot of another lineage":         {snapshot("retained", "l"), "x", true, false},
		"a snapshot of a state that is adopted": {snapshot("retained", "l"), "l", false, false},
		"a snapshot of the workspace":           {snapshot("u", "l"), "x", false, false},
		"a snapshot without a retained state":   {snapshot("retained", "l"), "", false, true},
		"the only copy of a state":              {kept, "x", true, false},
	} {
		t.Run(name, func(t *testing.T) {
			objects := []client.Object{newApply(), tc.secret}
			others := 0
			if tc.secret.Labels[infrav1.ComponentLabel] == record.ComponentSnapshot && !tc.alone {
				objects, others = append(objects, savedIn(NewWithT(t), "l", 3)), 1
			}
			c := newTestController(t, objects...)
			s := newScope("hello")
			s.Apply.Namespace, s.Apply.UID = "n", c.get().UID
			if uid := tc.secret.Annotations[record.WorkspaceUIDAnnotation]; uid == "u" {
				s.Apply.UID = "u"
				c.Expect(c.get().UID).To(BeEquivalentTo("u"))
			}
			s.Apply.Status.State = &infrav1.StateStatus{Backend: "s3", Lineage: tc.known}
			c.Expect(c.reconciler.build().cleaner.DeleteSecrets(t.Context(), s.Workspace, tc.secret.Labels[infrav1.ComponentLabel])).To(Succeed())
			c.Expect(len(c.secrets()) == 1+others).To(Equal(tc.kept))
		})
	}
}

// A user who restores an earlier state does not want what continues another one.
func TestReconcile_doesNotSaveWhatARestoreReplaced(t *testing.T) {
	rescued := func(run string) *corev1.Secret {
		secret := newSecret(objectMeta(record.ChunkName(record.RescueName(run, []byte("{}")), 0)))
		secret.Type = corev1.SecretTypeOpaque
		secret.Labels = map[string]string{infrav1.WorkspaceLabel: "hello", infrav1.ComponentLabel: record.ComponentRescue, infrav1.RunLabel: run}
		return secret
	}
	older, newer := rescued("hello-r1"), rescued("hello-r3")
	c := newTestController(t, newApply(), older, newer)
	s := newScope("hello")
	s.Apply.Namespace = "n"
	run := startRun(c, s, decision.Decision{Operation: terraform.OperationRestoreState})
	run.ID, run.Number = "hello-r2", 2

	c.Expect(c.reconciler.build().recorder.SupersedeRescued(t.Context(), s.Status, run, &terraform.Result{Outcome: terraform.OutcomeFailed})).To(Succeed())
	c.Expect(c.reconciler.build().store.RescuedStates(t.Context(), s.Workspace)).To(HaveLen(2))

	c.Expect(c.reconciler.build().recorder.SupersedeRescued(t.Context(), s.Status, run, &terraform.Result{Outcome: terraform.OutcomeSucceeded})).To(Succeed())
	c.Expect(c.reconciler.build().store.RescuedStates(t.Context(), s.Workspace)).To(ConsistOf(record.RescueName("hello-r3", []byte("{}"))))
	c.Expect(c.secrets()).To(HaveLen(2), "they are kept for the user")
}

func TestReconcile_startsNoRunBesideOneWhoseRecordWasDeleted(t *testing.T) {
	c := newTestController(t, append(values(), newApply())...)
	c.reconcile()
	c.Expect(c.started).To(Equal([]string{"hello-r1"}))
	c.Expect(c.server.Delete(t.Context(), c.runSecret("hello-r1"))).To(Succeed())
	c.unended = []string{"hello-r1"}
	c.reconcile()
	c.Expect(c.expect(infrav1.AppliedCondition, "False "+infrav1.RunInProgressReason)).To(ContainSubstring("hello-r1 was deleted"))
	c.Expect(c.started).To(HaveLen(1))

	c.unended = nil
	c.reconcile()
	c.Expect(c.started).To(Equal([]string{"hello-r1", "hello-r2"}))
}

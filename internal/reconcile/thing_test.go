package reconcile

import (
	"context"
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

const (
	testFinalizer  = "test.capt.appthrust.io/thing"
	otherFinalizer = "test.capt.appthrust.io/other"

	networkReady  = "NetworkReady"
	endpointReady = "EndpointReady"
	networkGone   = "NetworkGone"
)

// thing is the smallest kind that a frame can hold.
type thing struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	Spec   thingSpec   `json:"spec,omitzero"`
	Status thingStatus `json:"status,omitzero"`
}

type thingSpec struct {
	Endpoint string `json:"endpoint,omitempty"`
}

type thingStatus struct {
	ObservedGeneration int64              `json:"observedGeneration,omitempty"`
	RunID              string             `json:"runID,omitempty"`
	Conditions         []metav1.Condition `json:"conditions,omitempty"`
}

func (t *thing) DeepCopyObject() runtime.Object {
	c := *t
	c.ObjectMeta = *t.DeepCopy()
	c.Status.Conditions = slices.Clone(t.Status.Conditions)
	return &c
}

func (t *thing) GetConditions() []metav1.Condition      { return t.Status.Conditions }
func (t *thing) SetConditions(c []metav1.Condition)     { t.Status.Conditions = c }
func (t *thing) SetObservedGeneration(generation int64) { t.Status.ObservedGeneration = generation }

func newThing(mutate ...func(*thing)) *thing {
	t := &thing{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: "a", UID: "1", Generation: 3,
		Finalizers: []string{testFinalizer},
	}}
	for _, m := range mutate {
		m(t)
	}
	return t
}

func deleting(t *thing) {
	now := metav1.Now().Rfc3339Copy()
	t.DeletionTimestamp = &now
}

func withoutFinalizer(t *thing) { t.Finalizers = nil }

func withCondition(c metav1.Condition) func(*thing) {
	return func(t *thing) {
		c.ObservedGeneration = t.Generation
		t.Status.Conditions = append(t.Status.Conditions, c)
	}
}

// world is an API server that counts its writes and fails on request.
type world struct {
	client.Client

	t           *testing.T
	writes      []string
	failStatus  error
	failPatch   error
	beforePatch func(ctx context.Context, c client.WithWatch)
}

func newWorld(t *testing.T, objs ...client.Object) *world {
	t.Helper()
	g := NewWithT(t)

	scheme := runtime.NewScheme()
	gv := schema.GroupVersion{Group: "test.capt.appthrust.io", Version: "v1"}
	scheme.AddKnownTypeWithName(gv.WithKind("Thing"), &thing{})
	metav1.AddToGroupVersion(scheme, gv)
	g.Expect(clusterv1.AddToScheme(scheme)).To(Succeed())

	w := &world{t: t}
	w.Client = fake.NewClientBuilder().WithScheme(scheme).
		WithObjects(objs...).WithStatusSubresource(&thing{}).
		WithInterceptorFuncs(interceptor.Funcs{Patch: w.patch, SubResourcePatch: w.patchStatus}).
		Build()
	return w
}

func (w *world) patch(
	ctx context.Context, c client.WithWatch, obj client.Object, p client.Patch, opts ...client.PatchOption,
) error {
	if w.beforePatch != nil {
		w.beforePatch(ctx, c)
	}
	w.writes = append(w.writes, "object")
	if w.failPatch != nil {
		return w.failPatch
	}
	return c.Patch(ctx, obj, p, opts...)
}

func (w *world) patchStatus(
	ctx context.Context, c client.Client, sub string, obj client.Object, p client.Patch,
	opts ...client.SubResourcePatchOption,
) error {
	w.writes = append(w.writes, sub)
	if w.failStatus != nil {
		return w.failStatus
	}
	return c.SubResource(sub).Patch(ctx, obj, p, opts...)
}

func (w *world) get() *thing {
	w.t.Helper()
	obj := &thing{}
	NewWithT(w.t).Expect(w.Get(w.t.Context(), client.ObjectKey{Namespace: "default", Name: "a"}, obj)).To(Succeed())
	return obj
}

// scope is what the steps of a test share.
type scope struct {
	obj     *thing
	cluster *clusterv1.Cluster
	ran     []string
}

// bench is a frame over things, with the scope of its last run.
type bench struct {
	Frame[*thing, scope]

	last *scope
}

func newBench(w *world, steps ...Step[scope]) *bench {
	b := &bench{}
	b.Frame = Frame[*thing, scope]{
		Client:    w.Client,
		Finalizer: testFinalizer,
		Steps:     steps,
		Scope: func(_ context.Context, obj *thing, cluster *clusterv1.Cluster) (*scope, error) {
			b.last = &scope{obj: obj, cluster: cluster}
			return b.last, nil
		},
	}
	return b
}

func (b *bench) reconcile(t *testing.T) (ctrl.Result, error) {
	t.Helper()
	b.last = nil
	return b.Reconcile(t.Context(), ctrl.Request{
		NamespacedName: client.ObjectKey{Namespace: "default", Name: "a"},
	})
}

// step returns a step that notes that it ran and ends with what err gives.
func step(condition string, err func() error) Step[scope] {
	return Step[scope]{Condition: condition, Run: func(_ context.Context, s *scope) error {
		s.ran = append(s.ran, condition)
		return err()
	}}
}

func ends(err error) func() error { return func() error { return err } }

type condition = metav1.Condition

// state is a condition without the time.
type state struct {
	status  metav1.ConditionStatus
	reason  string
	message string
}

func stateOf(obj conditions.Getter, conditionType string) state {
	c := conditions.Get(obj, conditionType)
	if c == nil {
		return state{}
	}
	return state{status: c.Status, reason: c.Reason, message: c.Message}
}

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

// thing is a minimal API object.
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

// apiServer is a fake API server that records its writes and fails on request.
type apiServer struct {
	client.Client

	t           *testing.T
	writes      []string
	failStatus  error
	failPatch   error
	beforePatch func(ctx context.Context, c client.WithWatch)
}

func newAPIServer(t *testing.T, objs ...client.Object) *apiServer {
	t.Helper()
	g := NewWithT(t)

	scheme := runtime.NewScheme()
	gv := schema.GroupVersion{Group: "test.capt.appthrust.io", Version: "v1"}
	scheme.AddKnownTypeWithName(gv.WithKind("Thing"), &thing{})
	metav1.AddToGroupVersion(scheme, gv)
	g.Expect(clusterv1.AddToScheme(scheme)).To(Succeed())

	server := &apiServer{t: t}
	server.Client = fake.NewClientBuilder().WithScheme(scheme).
		WithObjects(objs...).WithStatusSubresource(&thing{}).
		WithInterceptorFuncs(interceptor.Funcs{Patch: server.patch, SubResourcePatch: server.patchStatus}).
		Build()
	return server
}

func (server *apiServer) patch(
	ctx context.Context, c client.WithWatch, obj client.Object, p client.Patch, opts ...client.PatchOption,
) error {
	if server.beforePatch != nil {
		server.beforePatch(ctx, c)
	}
	server.writes = append(server.writes, "object")
	if server.failPatch != nil {
		return server.failPatch
	}
	return c.Patch(ctx, obj, p, opts...)
}

func (server *apiServer) patchStatus(
	ctx context.Context, c client.Client, sub string, obj client.Object, p client.Patch,
	opts ...client.SubResourcePatchOption,
) error {
	server.writes = append(server.writes, sub)
	if server.failStatus != nil {
		return server.failStatus
	}
	return c.SubResource(sub).Patch(ctx, obj, p, opts...)
}

func (server *apiServer) get() *thing {
	server.t.Helper()
	obj := &thing{}
	NewWithT(server.t).Expect(server.Get(server.t.Context(), client.ObjectKey{Namespace: "default", Name: "a"}, obj)).To(Succeed())
	return obj
}

// scope is the data that the steps of a test share.
type scope struct {
	obj     *thing
	cluster *clusterv1.Cluster
	ran     []string
}

// testFrame is a frame for things. It keeps the scope of its last run.
type testFrame struct {
	Frame[*thing, scope]

	last *scope
}

func newTestFrame(server *apiServer, steps ...Step[scope]) *testFrame {
	frame := &testFrame{}
	frame.Frame = Frame[*thing, scope]{
		Client:    server.Client,
		Finalizer: testFinalizer,
		Steps:     steps,
		Scope: func(_ context.Context, obj *thing, cluster *clusterv1.Cluster) (*scope, error) {
			frame.last = &scope{obj: obj, cluster: cluster}
			return frame.last, nil
		},
	}
	return frame
}

func (frame *testFrame) reconcile(t *testing.T) (ctrl.Result, error) {
	t.Helper()
	frame.last = nil
	return frame.Reconcile(t.Context(), ctrl.Request{
		NamespacedName: client.ObjectKey{Namespace: "default", Name: "a"},
	})
}

// step returns a step that records that it ran and returns the result of err.
func step(condition string, err func() error) Step[scope] {
	return Step[scope]{Condition: condition, Run: func(_ context.Context, s *scope) error {
		s.ran = append(s.ran, condition)
		return err()
	}}
}

func returns(err error) func() error { return func() error { return err } }

type condition = metav1.Condition

// state is a condition without time and generation.
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

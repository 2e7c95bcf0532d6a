package captaddon

import (
	"context"
	"errors"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusteraddonsv1 "sigs.k8s.io/cluster-api/api/addons/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/addon/render"
	"github.com/appthrust/capt/internal/kubernetes/scheme"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// metadataCache reads metadata from a client.
type metadataCache struct {
	cache.Cache
	reader client.Reader
}

func (m metadataCache) Get(ctx context.Context, key client.ObjectKey, obj client.Object, options ...client.GetOption) error {
	return m.reader.Get(ctx, key, obj, options...)
}

// newReconciler returns a reconciler with a client for objects. The functions
// replace calls of the client.
func newReconciler(funcs interceptor.Funcs, objects ...client.Object) *Reconciler {
	c := fake.NewClientBuilder().WithScheme(scheme.New()).WithObjects(objects...).WithInterceptorFuncs(funcs).Build()
	return &Reconciler{Client: c, Live: c, Metadata: metadataCache{reader: c}}
}

func configMapManifest(name, text string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + ", namespace: default}\ndata: {a: " + text + "}\n"
}

// inlineAddon returns an add-on with an inline manifest.
func inlineAddon(text string) *addonsv1.CAPTAddon {
	addon := newAddon("flux")
	addon.UID = "uid"
	addon.Spec.Manifests = []addonsv1.ManifestSource{{Name: "all", Inline: text}}
	return addon
}

func storedSecret(t *testing.T, r *Reconciler) *corev1.Secret {
	t.Helper()
	secret := &corev1.Secret{}
	NewWithT(t).Expect(r.Client.Get(t.Context(), client.ObjectKey{Namespace: "fleet", Name: render.Name("flux", "a")}, secret)).To(Succeed())
	return secret
}

func TestRequest_writesSecretAndResourceSet(t *testing.T) {
	g := NewWithT(t)
	s, in := &scope{addon: inlineAddon(configMapManifest("one", "x") + "---\n" + configMapManifest("two", "x")), now: now}, selected("a")
	r := newReconciler(interceptor.Funcs{}, in.cluster)
	g.Expect(r.request(t.Context(), s, in, 0)).To(Succeed())
	g.Expect(storedSecret(t, r).Annotations).NotTo(HaveKey(addonsv1.PruneAnnotation), "no object is dropped")
	g.Expect(r.Client.Get(t.Context(), client.ObjectKeyFromObject(in.resourceSet), &clusteraddonsv1.ClusterResourceSet{})).To(Succeed())
	g.Expect(r.Client.Get(t.Context(), client.ObjectKeyFromObject(in.cluster), in.cluster)).To(Succeed())
	g.Expect(in.cluster.Labels).To(HaveKeyWithValue(addonsv1.ClusterLabel, "a"))
	cached, _ := r.renderings.Load(in.renderingKey(s))
	g.Expect(in.rendered).To(BeIdenticalTo(cached))
	first := in.rendered.Hash

	// The resource set is written once. The Secret follows the content.
	g.Expect(r.Client.Delete(t.Context(), in.resourceSet)).To(Succeed())
	s.addon.Spec.Manifests[0].Inline = configMapManifest("one", "y")
	g.Expect(r.request(t.Context(), s, in, 1)).To(Succeed())
	g.Expect(in.rendered.Hash).NotTo(Equal(first))
	g.Expect(storedSecret(t, r).Annotations[addonsv1.PruneAnnotation]).To(ContainSubstring("two"))
	err := r.Client.Get(t.Context(), client.ObjectKeyFromObject(in.resourceSet), &clusteraddonsv1.ClusterResourceSet{})
	g.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%v", err)
}

// Fields of content that Cluster API applied and that was then replaced have to be removed.
func TestRequest_marksContentThatReplacesAnotherBeforeItWasApplied(t *testing.T) {
	g := NewWithT(t)
	s, in := &scope{addon: inlineAddon(configMapManifest("one", "x")), now: now}, selected("a")
	r := newReconciler(interceptor.Funcs{}, in.cluster)
	request := func(round int) {
		t.Helper()
		g.Expect(r.request(t.Context(), s, in, round)).To(Succeed())
	}
	request(0)
	request(1)
	g.Expect(in.createdFromOtherContent()).To(BeFalse(), "another round has the same content")
	s.addon.Spec.Manifests[0].Inline = configMapManifest("one", "y")
	request(1)
	g.Expect(storedSecret(t, r).Annotations).To(HaveKey(addonsv1.ContentReplacedAnnotation))
	request(2)
	g.Expect(in.createdFromOtherContent()).To(BeTrue(), "until it is applied")
	in.previous.AppliedHash = in.rendered.Hash
	request(3)
	g.Expect(storedSecret(t, r).Annotations).NotTo(HaveKey(addonsv1.ContentReplacedAnnotation))
}

func TestRequest_returnsErrorsOfCalls(t *testing.T) {
	refused := errors.New("refused")
	failSecrets := interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, options ...client.GetOption) error {
		if _, secret := obj.(*corev1.Secret); secret {
			return refused
		}
		return c.Get(ctx, key, obj, options...)
	}}
	for name, test := range map[string]struct {
		funcs interceptor.Funcs
		want  string
	}{
		"label": {interceptor.Funcs{Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
			return refused
		}}, "labelling the Cluster: refused"},
		"previous Secret": {failSecrets, "reading the rendered Secret: refused"},
	} {
		t.Run(name, func(t *testing.T) {
			s, in := &scope{addon: inlineAddon(configMapManifest("one", "x")), now: now}, selected("a")
			r := newReconciler(test.funcs, in.cluster)
			NewWithT(t).Expect(r.request(t.Context(), s, in, 0)).To(MatchError(test.want))
		})
	}
}

func TestRetry_returnsErrorsOfTheRequest(t *testing.T) {
	g := NewWithT(t)
	s, in := &scope{addon: inlineAddon("not: {"), now: now}, selected("a")
	in.secret = requestedAgo(settleTime)
	r := newReconciler(interceptor.Funcs{}, in.cluster)
	drifted := &problem{reason: addonsv1.DriftedReason, message: "ConfigMap one was changed", drifted: true}
	_, stalled := fault.AsStalled(r.retry(t.Context(), s, in, drifted))
	g.Expect(stalled).To(BeTrue(), "the content cannot be rendered")

	s.addon = inlineAddon(configMapManifest("one", "x"))
	in.current.Attempts = 0
	waiting, found := fault.AsWaiting(r.retry(t.Context(), s, in, drifted))
	g.Expect(found).To(BeTrue())
	g.Expect(waiting.Reason).To(Equal(addonsv1.DriftedReason))
	g.Expect(in.current.Attempts).To(BeEquivalentTo(1))
	g.Expect(render.Round(storedSecret(t, r))).To(Equal(1))
}

func TestRenderOne_rendersOnlyChangedInputs(t *testing.T) {
	g := NewWithT(t)
	source := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: "source"}, Data: map[string]string{"all.yaml": configMapManifest("one", "x")}}
	addon := newAddon("flux")
	addon.Spec.Manifests = []addonsv1.ManifestSource{{Name: "all", ConfigMapRef: &infrav1.LocalReference{Name: "source"}}}
	s, in := &scope{addon: addon, now: now}, selected("a")
	r := newReconciler(interceptor.Funcs{})
	waiting, found := fault.AsWaiting(r.renderOne(t.Context(), s, in))
	g.Expect(found).To(BeTrue())
	g.Expect(waiting.Message()).To(Equal("ConfigMap source does not exist"))
	_, err := r.renderData(t.Context(), s, in, 0)
	g.Expect(err).To(MatchError("SourceNotFound: ConfigMap source does not exist"))
	_, err = secretData(t.Context(), r.Live, "fleet", "source", "Missing")
	g.Expect(err).To(MatchError("Missing: Secret source does not exist"))

	g.Expect(r.Client.Create(t.Context(), source)).To(Succeed())
	g.Expect(r.renderOne(t.Context(), s, in)).To(Succeed())
	first := in.rendered
	g.Expect(r.renderOne(t.Context(), s, in)).To(Succeed())
	g.Expect(in.rendered).To(BeIdenticalTo(first), "no input has changed")

	source.Data["all.yaml"] = configMapManifest("one", "y")
	g.Expect(r.Client.Update(t.Context(), source)).To(Succeed())
	g.Expect(r.renderOne(t.Context(), s, in)).To(Succeed())
	g.Expect(in.rendered.Hash).NotTo(Equal(first.Hash))
}

func TestRemoveOne_deletesObjectsBeforeTheRenderedSecret(t *testing.T) {
	for name, test := range map[string]struct {
		policy      addonsv1.DeletionPolicy
		unreachable bool
		exists      bool
	}{
		"remove":                        {policy: addonsv1.DeletionPolicyRemove, exists: false},
		"leave":                         {policy: addonsv1.DeletionPolicyLeave, exists: true},
		"remove, cluster not reachable": {policy: addonsv1.DeletionPolicyRemove, unreachable: true, exists: true},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s, in := &scope{addon: inlineAddon(configMapManifest("one", "x")), now: now}, selected("a")
			s.addon.Spec.DeletionPolicy = test.policy
			r := newReconciler(interceptor.Funcs{}, in.cluster)
			g.Expect(r.request(t.Context(), s, in, 0)).To(Succeed())
			object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "one", Labels: map[string]string{addonsv1.AddonLabel: "flux"}}}
			c := workloadCluster(t, object)
			r.Clusters = clustercache.NewFakeClusterCache(c, client.ObjectKeyFromObject(in.cluster))
			if test.unreachable {
				in.cluster.Status.Initialization.ControlPlaneInitialized = new(false)
			}
			in.selected = false
			// Deleting an object takes one call, and confirming the deletion another.
			for range 3 {
				if err := r.removeOne(t.Context(), s, in); err == nil {
					break
				} else if _, waits := fault.AsWaiting(err); !waits {
					t.Fatal(err)
				}
			}
			err := c.Get(t.Context(), client.ObjectKeyFromObject(object), object)
			g.Expect(apierrors.IsNotFound(err)).To(Equal(!test.exists), "%v", err)
			err = r.Client.Get(t.Context(), client.ObjectKeyFromObject(in.secret), &corev1.Secret{})
			g.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "the rendered Secret is deleted: %v", err)
			err = r.Client.Get(t.Context(), client.ObjectKeyFromObject(in.resourceSet), &clusteraddonsv1.ClusterResourceSet{})
			g.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "the ClusterResourceSet is deleted: %v", err)
		})
	}
}

// A paused cluster does not change. What exists only in the management cluster is deleted at once.
func TestRemoveOne_changesNothingInAPausedCluster(t *testing.T) {
	for name, pause := range map[string]func(*clusterv1.Cluster){
		"paused": func(c *clusterv1.Cluster) { c.Spec.Paused = new(true) },
		"moved": func(c *clusterv1.Cluster) {
			c.Annotations = map[string]string{"clusterctl.cluster.x-k8s.io/delete-for-move": ""}
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s, in := &scope{addon: inlineAddon(configMapManifest("one", "x")), now: now}, selected("a")
			s.addon.Spec.DeletionPolicy = addonsv1.DeletionPolicyRemove
			r := newReconciler(interceptor.Funcs{}, in.cluster)
			g.Expect(r.request(t.Context(), s, in, 0)).To(Succeed())
			in.selected = false
			pause(in.cluster)
			g.Expect(r.removeOne(t.Context(), s, in)).To(MatchError(HavePrefix(addonsv1.ClusterPausedReason + ": Cluster is paused")))
			g.Expect(r.Client.Get(t.Context(), client.ObjectKeyFromObject(in.secret), &corev1.Secret{})).To(Succeed())
			g.Expect(r.Client.Get(t.Context(), client.ObjectKeyFromObject(in.resourceSet), &clusteraddonsv1.ClusterResourceSet{})).To(Succeed())

			s.addon.Spec.DeletionPolicy = addonsv1.DeletionPolicyLeave
			g.Expect(r.removeOne(t.Context(), s, in)).To(Succeed(), "it leaves the objects in the cluster")
		})
	}
}

func TestRemoveOne_returnsErrorsOfDeletions(t *testing.T) {
	for name, in := range map[string]*installation{
		"deleting the ClusterResourceSet: refused": {name: "a", resourceSet: &clusteraddonsv1.ClusterResourceSet{}},
		"deleting the rendered Secret: refused":    {name: "a", secret: &corev1.Secret{}},
	} {
		r := newReconciler(interceptor.Funcs{Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error {
			return errors.New("refused")
		}})
		NewWithT(t).Expect(r.removeOne(t.Context(), &scope{addon: newAddon("flux"), now: now}, in)).To(MatchError(name))
	}
}

func TestObserver_readsObjects(t *testing.T) {
	secret := render.Object{GroupVersionKind: schema.GroupVersionKind{Version: "v1", Kind: "Secret"}, Namespace: "ns", Name: "s"}
	for name, test := range map[string]struct {
		object  render.Object
		objects []client.Object
		failure error
		want    string
		drifted bool
	}{
		"existing":      {object: secret, objects: []client.Object{&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "s"}}}},
		"missing":       {object: secret, want: "Secret ns/s does not exist", drifted: true},
		"failing":       {object: secret, failure: errors.New("refused"), want: "reading Secret ns/s: refused"},
		"unknown kind":  {object: render.Object{GroupVersionKind: release, Name: "r"}, want: "Kind HelmRelease is not installed", drifted: true},
		"not connected": {object: render.Object{GroupVersionKind: role, Name: "r"}, want: "WaitingForControlPlane: Workload cluster is unreachable"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			base, ok := workloadCluster(t, test.objects...).(client.WithWatch)
			g.Expect(ok).To(BeTrue())
			c := interceptor.NewClient(base, interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, options ...client.GetOption) error {
				if test.failure != nil {
					return test.failure
				}
				return c.Get(ctx, key, obj, options...)
			}})
			key := client.ObjectKey{Namespace: "fleet", Name: "a"}
			o := &observer{r: &Reconciler{Clusters: clustercache.NewFakeClusterCache(c, key, "captaddon-secret")}, c: c, cluster: key}
			if name == "not connected" {
				o.r.Clusters = clustercache.NewFakeEmptyClusterCache()
			}
			obj, err := o.get(t.Context(), test.object)
			if test.want == "" {
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(obj.GetName()).To(Equal("s"))
				return
			}
			g.Expect(err).To(MatchError(test.want))
			var p *problem
			g.Expect(errors.As(err, &p)).To(Equal(test.drifted))
		})
	}
}

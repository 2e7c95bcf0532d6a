package manager

import (
	"bytes"
	"cmp"
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/terraform/record"
	"github.com/appthrust/capt/internal/testenv"
	_ "github.com/appthrust/capt/internal/testenv/waits"
)

var env *testenv.Environment

func TestMain(m *testing.M) { os.Exit(testenv.Run(m, &env)) }

// caches starts the caches of a manager until the test ends.
func caches(t *testing.T) (ctrl.Manager, cache.Cache) {
	t.Helper()
	g := NewWithT(t)
	o := NewOptions()
	flags := pflag.NewFlagSet("manager", pflag.ContinueOnError)
	o.AddFlags(flags)
	g.Expect(flags.Parse([]string{"--health-addr=0", "--diagnostics-address=0", "--insecure-diagnostics", "--webhook-port=0"})).To(Succeed())
	account, err := env.ManagerAccount()
	g.Expect(err).NotTo(HaveOccurred())
	mgr, err := New(account.Config, o)
	g.Expect(err).NotTo(HaveOccurred())
	objects, err := metadataCache(mgr, o)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(mgr.Add(objects)).To(Succeed())
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		NewWithT(t).Expect(<-done).To(Succeed())
	})
	return mgr, objects
}

// A user or a module who can create Secrets must not be able to fill the memory of the
// manager.
func TestCache_keepsNoForeignSecrets(t *testing.T) {
	g := NewWithT(t)
	namespace := env.Namespace(t)
	large := bytes.Repeat([]byte("x"), 1<<20-1024)
	for _, component := range []string{"x", "", "runs", "run", "plan", "connection", "kubeconfig", "bootstrap", "addon", "transfer"} {
		g.Expect(env.Client.Create(t.Context(), &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "flood-" + cmp.Or(component, "empty"), Labels: map[string]string{infrav1.ComponentLabel: component}},
			Data:       map[string][]byte{"result": large},
		})).To(Succeed())
	}
	mgr, _ := caches(t)
	var list corev1.SecretList
	g.Eventually(func(g Gomega) {
		g.Expect(mgr.GetClient().List(t.Context(), &list, client.InNamespace(namespace))).To(Succeed())
		g.Expect(list.Items).To(HaveLen(7), "only components that exist are cached")
	}).Should(Succeed())
	for _, secret := range list.Items {
		g.Expect(size(secret.Data)).To(BeNumerically("<", 1024), secret.Name)
	}
}

// A controller that does not find its Secret in the cache reads the API server each time.
func TestComponents_areAllThatControllersUse(t *testing.T) {
	g := NewWithT(t)
	declared := regexp.MustCompile(`(?m)^(?:const)?\s*[cC]omponent[A-Z]\w*\s*=\s*"([a-z-]+)"`)
	var found []string
	for _, root := range []string{"../controllers", "../terraform/record", "../../api"} {
		g.Expect(filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || filepath.Ext(path) != ".go" {
				return err
			}
			text, err := os.ReadFile(path)
			for _, match := range declared.FindAllStringSubmatch(string(text), -1) {
				found = append(found, match[1])
			}
			return err
		})).To(Succeed())
	}
	slices.Sort(found)
	g.Expect(slices.Compact(found)).To(ConsistOf(components()))
}

func TestCaches_holdOnlyWhatControllersRead(t *testing.T) {
	g := NewWithT(t)
	namespace := env.Namespace(t)
	secret := func(name, component string, keys ...string) {
		s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: map[string][]byte{}}
		if component != "" {
			s.Labels = map[string]string{infrav1.ComponentLabel: component}
		}
		for _, key := range keys {
			s.Data[key] = []byte("x")
		}
		g.Expect(env.Client.Create(t.Context(), s)).To(Succeed())
	}
	secret("run", record.ComponentRun, "request", "identity", "result", "log")
	secret("state", record.ComponentState, "tfstate")
	secret("snapshot", record.ComponentSnapshot, "chunk")
	secret("outputs", "connection", "vpc_id")
	secret("credentials", "", "key")
	g.Expect(env.Client.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "vars"}})).To(Succeed())
	mgr, objects := caches(t)

	t.Run("the parts of CAPT's own Secrets that controllers read", func(t *testing.T) {
		for name, keys := range map[string][]string{"run": {"identity", "result"}, "state": nil, "snapshot": nil, "outputs": {"vpc_id"}} {
			g := NewWithT(t)
			var s corev1.Secret
			g.Eventually(func() error {
				return mgr.GetClient().Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, &s)
			}).Should(Succeed(), "the cache holds %s", name)
			var kept []string
			for key := range s.Data {
				kept = append(kept, key)
			}
			g.Expect(kept).To(ConsistOf(keys), name)
			g.Expect(s.ManagedFields).To(BeEmpty())
		}
	})
	t.Run("no other Secret", func(t *testing.T) {
		err := mgr.GetClient().Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "credentials"}, &corev1.Secret{})
		NewWithT(t).Expect(apierrors.IsNotFound(err)).To(BeTrue())
	})
	t.Run("the names of objects that users may refer to", func(t *testing.T) {
		g := NewWithT(t)
		for kind, names := range map[string][]string{"Secret": {"outputs", "credentials"}, "ConfigMap": {"vars"}} {
			for _, name := range names {
				obj := &metav1.PartialObjectMetadata{}
				obj.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind))
				g.Eventually(func() error {
					return objects.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, obj)
				}).Should(Succeed(), "%s %s is watched", kind, name)
			}
		}
		run := &metav1.PartialObjectMetadata{}
		run.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
		g.Expect(apierrors.IsNotFound(objects.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "run"}, run))).To(BeTrue(), "no object refers to a run")
	})
}

// kubectl apply stores each object a second time, and a controller must not remove that.
func TestStrip_removesWhatRepeatsTheObject(t *testing.T) {
	g := NewWithT(t)
	template := &infrav1.WorkspaceTemplate{ObjectMeta: metav1.ObjectMeta{
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl"}},
		Annotations:   map[string]string{corev1.LastAppliedConfigAnnotation: "{}", "mine": "kept"},
	}}
	kept, err := strip(template)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(kept).To(HaveField("ObjectMeta", Equal(metav1.ObjectMeta{Annotations: map[string]string{"mine": "kept"}})))

	for _, request := range []client.Object{&infrav1.WorkspaceApproval{}, &infrav1.WorkspaceOperation{}} {
		request.SetAnnotations(map[string]string{"mine": "large"})
		kept, err := strip(request)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(kept).To(HaveField("ObjectMeta", Equal(metav1.ObjectMeta{})))
	}
}

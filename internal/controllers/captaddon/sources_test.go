package captaddon

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"weak"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/kubernetes/manifest"
	"github.com/appthrust/capt/internal/reconcile/fault"
	_ "github.com/appthrust/capt/internal/testenv/waits"
)

// liveReader returns the same ConfigMap each time, and a Secret with the same data.
type liveReader struct {
	client.Reader
	data map[string]string

	mu    sync.Mutex
	reads int
	// read are the values that were returned.
	read []weak.Pointer[byte]
}

func (r *liveReader) Get(ctx context.Context, _ client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reads++
	data := map[string][]byte{}
	for key, text := range r.data {
		data[key] = []byte(text)
		r.read = append(r.read, weak.Make(&data[key][0]))
	}
	switch obj := obj.(type) {
	case *corev1.ConfigMap:
		obj.BinaryData = data
	case *corev1.Secret:
		obj.Data = data
	}
	return nil
}

func (r *liveReader) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.reads
}

// kept returns how many of the values are still in memory.
func (r *liveReader) kept() int {
	runtime.GC()
	r.mu.Lock()
	defer r.mu.Unlock()
	kept := 0
	for _, value := range r.read {
		if value.Value() != nil {
			kept++
		}
	}
	return kept
}

// referring returns an add-on that refers to a ConfigMap, or to a Secret, as often as it may.
func referring(secrets bool) *scope {
	addon := newAddon("mine")
	for i := range 32 {
		source := addonsv1.ManifestSource{Name: fmt.Sprintf("set%d", i)}
		if ref := (&infrav1.LocalReference{Name: "big"}); secrets {
			source.SecretRef = ref
		} else {
			source.ConfigMapRef = ref
		}
		addon.Spec.Manifests = append(addon.Spec.Manifests, source)
	}
	return &scope{addon: addon}
}

func occupy(t *testing.T) (end func()) {
	t.Helper()
	end, err := manifest.Turn{Namespace: "other"}.Begin(t.Context())
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return sync.OnceFunc(end)
}

// A ConfigMap of 1 MiB to which an add-on refers 32 times is not read 32 times.
func TestRenderData_stopsReadingAtTheLimit(t *testing.T) {
	for name, secrets := range map[string]bool{"ConfigMap": false, "Secret": true} {
		g := NewWithT(t)
		live := &liveReader{data: map[string]string{"a": strings.Repeat("# a\n", 1<<18)}}
		_, err := (&Reconciler{Live: live}).renderData(t.Context(), referring(secrets), selected("a"), 0)
		g.Expect(err).To(MatchError("TooLarge: Add-on mine: with " + name + " big, it is made of more than 2048 KiB, the limit: split it into two add-ons with dependsOn, or remove keys that it does not need"))
		g.Expect(live.count()).To(Equal(3), "one without a turn, and two with it")
	}
}

func TestRenderData_countsTheKeys(t *testing.T) {
	g := NewWithT(t)
	live := &liveReader{data: map[string]string{}}
	for i := range 40_000 {
		live.data[fmt.Sprintf("k%d", i)] = "#"
	}
	_, err := (&Reconciler{Live: live}).renderData(t.Context(), referring(false), selected("a"), 0)
	g.Expect(err).To(MatchError(HavePrefix("TooLarge: Add-on mine: with ConfigMap big, it is made of more than 2048 KiB")))
}

// Ten workers wait at the same time.
func TestRenderData_keepsNothingWhileItWaits(t *testing.T) {
	g := NewWithT(t)
	end := occupy(t)
	defer end()
	live := &liveReader{data: map[string]string{"a": strings.Repeat("# a\n", 1<<15) + configMapManifest("one", "x")}}
	r := &Reconciler{Live: live}
	s := referring(false)
	s.addon.Spec.Manifests = s.addon.Spec.Manifests[:2]
	ended := make(chan error)
	go func() {
		_, err := r.renderData(t.Context(), s, selected("a"), 0)
		ended <- err
	}()
	g.Eventually(live.count).Should(Equal(1))
	g.Eventually(live.kept).Should(BeZero())
	g.Expect(live.count()).To(Equal(1), "the rest is read when it is its turn")
	g.Expect(ended).NotTo(Receive())
	end()
	g.Eventually(ended).Should(Receive(BeNil()))
}

func TestReadPrevious_keepsNothingWhileItWaits(t *testing.T) {
	g := NewWithT(t)
	end := occupy(t)
	defer end()
	live := &liveReader{data: map[string]string{"a": strings.Repeat("# a\n", 1<<15)}}
	r, s := &Reconciler{Live: live}, &scope{addon: newAddon("mine")}
	ended := make(chan error)
	go func() {
		in := selected("a")
		_, err := r.readPrevious(t.Context(), s, in, in.rendered.Rendered)
		ended <- err
	}()
	g.Eventually(live.count).Should(Equal(1))
	g.Eventually(live.kept).Should(BeZero())
	g.Expect(ended).NotTo(Receive())
	end()
	g.Eventually(ended).Should(Receive(BeNil()))
}

// What is small alone may be large together, or with its placeholders.
func TestRenderData_waitsForTheSum(t *testing.T) {
	text := "apiVersion: v1\nkind: A\nmetadata: {name: a}\nspec: [" + strings.Repeat("1,", 1_500) + "1]\n"
	many := map[string]string{}
	for i := range 55 {
		many[fmt.Sprintf("k%02d", i)] = strings.Replace(text, "name: a", fmt.Sprintf("name: a%d", i), 1)
	}
	inline := func(texts ...string) *scope {
		s := &scope{addon: inlineAddon(texts[0])}
		for i, text := range texts[1:] {
			s.addon.Spec.Manifests = append(s.addon.Spec.Manifests, addonsv1.ManifestSource{Name: fmt.Sprint(i), Inline: text})
		}
		s.addon.Spec.Connection = &addonsv1.ConnectionSource{Keys: []string{"k00"}}
		return s
	}
	keys := referring(false)
	keys.addon.Spec.Manifests = keys.addon.Spec.Manifests[:1]
	list := "[" + strings.Repeat("1,", 2_000) + "1]"
	output := strings.Repeat("x", 20<<10)
	const thing = "apiVersion: v1\nkind: A\nmetadata: {name: a}\nspec:\n"
	for name, test := range map[string]struct {
		s     *scope
		data  map[string]string
		waits bool
	}{
		"keys":                  {keys, many, true},
		"one of the keys":       {keys, map[string]string{"k00": many["k00"]}, false},
		"inline manifests":      {inline(text, text), map[string]string{"k00": "a"}, true},
		"one inline manifest":   {inline(text), map[string]string{"k00": "a"}, false},
		"a string, often":       {inline(thing + strings.Repeat("- ${k00}\n", 20)), map[string]string{"k00": output}, true},
		"a string, once":        {inline(thing + "- ${k00}\n"), map[string]string{"k00": output}, false},
		"JSON, often":           {inline(thing + strings.Repeat("- ${json:k00}\n", 5)), map[string]string{"k00": list}, true},
		"JSON, once":            {inline(thing + "- ${json:k00}\n"), map[string]string{"k00": list}, false},
		"a large output":        {inline(thing + "- ${k00}\n"), map[string]string{"k00": strings.Repeat("x", 100<<10)}, true},
		"another large output":  {inline(thing + "- ${k00}\n"), map[string]string{"k00": "a", "k01": strings.Repeat("x", 100<<10)}, false},
		"lines, deeply nested":  {inline(thing + "- " + strings.Repeat("{a: ", 100) + "'${k00}'" + strings.Repeat("}", 100)), map[string]string{"k00": strings.Repeat("a\n", 2_000)}, true},
		"text, not that deeply": {inline(thing + "- {a: '${k00}'}"), map[string]string{"k00": strings.Repeat("a\n", 2_000)}, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			end := occupy(t)
			defer end()
			r := &Reconciler{Live: &liveReader{data: test.data}}
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() {
				_, err := r.renderData(ctx, test.s, selected("a"), 0)
				ended <- err
			}()
			if !test.waits {
				g.Eventually(ended).Should(Receive(BeNil()))
				cancel()
				return
			}
			g.Eventually(r.Live.(*liveReader).count).ShouldNot(BeZero())
			cancel()
			var err error
			g.Eventually(ended).Should(Receive(&err))
			g.Expect(err).To(MatchError(context.Canceled))
			g.Expect(fault.Is(err)).To(BeFalse())

			end()
			_, err = r.renderData(t.Context(), test.s, selected("a"), 0)
			g.Expect(err).NotTo(HaveOccurred())
		})
	}
}

func TestSources_haveTextAndBinaryData(t *testing.T) {
	g := NewWithT(t)
	s := referring(false)
	s.addon.Spec.Manifests = s.addon.Spec.Manifests[:1]
	r := newReconciler(interceptor.Funcs{}, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: "big"},
		Data:       map[string]string{"a": configMapManifest("text", "x")}, BinaryData: map[string][]byte{"b": []byte(configMapManifest("binary", "x"))},
	})
	rendered, err := r.renderData(t.Context(), s, selected("a"), 0)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(rendered.Objects).To(HaveLen(2))
}

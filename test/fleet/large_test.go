package fleet

import (
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	bootstrapv1 "github.com/appthrust/capt/api/bootstrap/v1beta1"
	"github.com/appthrust/capt/internal/testenv"
)

// largeSize is the size of a large object.
const largeSize = 512 << 10

// largeObject returns an object of one of the kinds in which a tenant stores most.
func largeObject(namespace string, i int) client.Object {
	meta := metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("large-%03d", i)}
	line := strings.Repeat("x", 1000)
	lines := (largeSize - 4096) / (len(line) + len("    \n"))
	switch i % 3 {
	case 0:
		large := template(meta.Name, vpcModule+strings.Repeat("# "+line+"\n", lines), nil)
		large.Namespace = namespace
		return large
	case 1:
		manifest := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: large, namespace: default}\ndata:\n  text: |\n"
		return &addonsv1.CAPTAddon{ObjectMeta: meta, Spec: addonsv1.CAPTAddonSpec{
			ClusterSelector: metav1.LabelSelector{MatchLabels: map[string]string{"fleet": "true"}},
			Manifests:       []addonsv1.ManifestSource{{Name: "large", Inline: manifest + strings.Repeat("    "+line+"\n", lines)}},
		}}
	default:
		// Neither may have more: the rest is in annotations.
		half := strings.Repeat(line, lines/2)
		meta.Annotations = map[string]string{"example.com/note": half}
		return &bootstrapv1.CAPTBootstrapConfig{ObjectMeta: meta, Spec: bootstrapv1.CAPTBootstrapConfigSpec{UserData: half}}
	}
}

// One tenant must not stop the manager for the others.
func TestFleet_reconcilesBesideLargeObjectsOfATenant(t *testing.T) {
	count := number(t, "CAPT_LARGE_OBJECTS", 0)
	if count == 0 {
		t.Skip("run `make scale`")
	}
	g := NewWithT(t)
	env := testenv.New(t)
	in := install(t, env)
	tenant, other := env.Namespace(t), env.Namespace(t)
	// There are no nodes, so the Job of a run does not start.
	reconciles := func(name string) {
		t.Helper()
		createWorkspace(t, env, other, name)
		g.Eventually(func() error {
			return env.Client.Get(t.Context(), client.ObjectKey{Namespace: other, Name: "capt-run-" + name + "-r1"}, &batchv1.Job{})
		}, testTimeout, time.Second).Should(Succeed(), "the workspace of another tenant")
	}

	manager := in.start(t, "--runner-image=runner:test")
	vpc := template("vpc", vpcModule, nil)
	vpc.Namespace = other
	g.Expect(env.Client.Create(t.Context(), vpc)).To(Succeed())
	reconciles("before")
	empty := manager.memory(t)
	for i := range count {
		g.Expect(env.Client.Create(t.Context(), largeObject(tenant, i))).To(Succeed())
	}
	reconciles("beside")
	created := manager.memory(t)
	manager.stop()
	restarted := in.start(t, "--runner-image=runner:test")
	reconciles("after")
	restart := restarted.memory(t)
	limit := float64(in.limit >> 20)
	t.Logf("%d objects of %d KiB, limit %v MiB: before %+v, created %+v, after a restart %+v", count, largeSize>>10, limit, empty, created, restart)
	for when, found := range map[string]memory{"with the objects": created, "after a restart": restart} {
		g.Expect(found.limitedMiB()).To(BeNumerically("<", limit), when)
	}
	restarted.scraped(t)
}

package tenancy

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/terraform/record"
)

// reserved are Secrets of CAPT, by name and component.
var reserved = map[string]string{
	"capt-run-b-r5": "run", "capt-plan-0123456789abcdef-0": "plan", "capt-snapshot-b-r1-abc-0": "snapshot", "capt-rescue-b-r1-abc-0": "rescue",
	"capt-module-b-abc-0": "module", "capt-input-x-0": "transfer", "tfstate-default-b-ws": "state", "capt-seal-key": "",
	"b-connection": "connection", "demo-kubeconfig": "kubeconfig", "flux-demo-0123abcd": "addon", "some": "anything",
}

func TestSecretWriter_cannotForgeSecretsOfCAPT(t *testing.T) {
	ns := env.Namespace(t)
	writer := secretWriter(t, ns)
	allowed(t, "a Secret of his own", func() error { return writer.Create(t.Context(), secret(ns, "mine", "")) })
	for _, name := range []string{"capt-outputs", "tfstate-default-theirs", "b-ws", "demo-kubeconfig", "capt-seal-key-of-mine"} {
		NewWithT(t).Expect(writer.Create(t.Context(), secret(ns, name, ""), client.DryRunAll)).To(Succeed(), name)
	}

	for name, component := range reserved {
		refused(t, name, writer.Create(t.Context(), secret(ns, name, component)))
	}
	for _, name := range []string{"capt-run-b-r5", "capt-output-x-0", "capt-token-b-r1", "tfstate-default-b-ws", "capt-seal-key"} {
		refused(t, name+" without a label", writer.Create(t.Context(), secret(ns, name, "")))
	}
	generated := secret(ns, "", "")
	generated.GenerateName = "capt-run-b-r"
	refused(t, "a generated name", writer.Create(t.Context(), generated))

	mine := &corev1.Secret{}
	NewWithT(t).Expect(env.Client.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: "mine"}, mine)).To(Succeed())
	refused(t, "a label on an existing Secret", patched(writer, mine, func(s *corev1.Secret) {
		s.Labels = map[string]string{infrav1.ComponentLabel: "x"}
	}))
}

func TestSecretWriter_cannotChangeSecretsOfCAPT(t *testing.T) {
	g := NewWithT(t)
	ns := env.Namespace(t)
	writer, manager := secretWriter(t, ns), as(t, managerUser)
	allowed(t, "a Secret of his own", func() error { return writer.Create(t.Context(), secret(ns, "mine", "")) })
	for name, component := range reserved {
		if name == "capt-seal-key" {
			continue
		}
		s := secret(ns, name, component, infrav1.WorkspaceLabel, "b")
		s.Annotations = map[string]string{"capt.appthrust.io/seal": "v1:x"}
		allowed(t, "the manager creates "+name, func() error { return manager.Create(t.Context(), s) })
		for change, apply := range map[string]func(*corev1.Secret){
			"data":        func(s *corev1.Secret) { s.Data["k"] = []byte("w") },
			"another key": func(s *corev1.Secret) { s.Data["l"] = []byte("w") },
			"the component": func(s *corev1.Secret) {
				delete(s.Labels, infrav1.ComponentLabel)
				delete(s.Labels, infrav1.WorkspaceLabel)
			},
			"a label of CAPT":     func(s *corev1.Secret) { s.Labels[infrav1.RunLabel] = "b-r9" },
			"the seal":            func(s *corev1.Secret) { s.Annotations = nil },
			"an annotation":       func(s *corev1.Secret) { s.Annotations["capt.appthrust.io/inputs"] = "x" },
			"a finalizer":         func(s *corev1.Secret) { s.Finalizers = []string{"example.com/x"} },
			"immutability":        func(s *corev1.Secret) { s.Immutable = new(true) },
			"the controlling one": func(s *corev1.Secret) { s.OwnerReferences = []metav1.OwnerReference{owner(true)} },
		} {
			refused(t, name+": "+change, patched(writer, s, apply))
		}
		g.Expect(patched(writer, s, func(s *corev1.Secret) {
			s.Labels["team"], s.Annotations["team"] = "a", "b"
		})).To(Succeed(), "%s: what others add", name)
		owned := func(s *corev1.Secret) { s.OwnerReferences = append(s.OwnerReferences, owner(false)) }
		switch component {
		case "connection", "kubeconfig", "addon":
			g.Expect(patched(writer, s, owned)).To(Succeed(), "%s: as Cluster API does", name)
			g.Expect(writer.Delete(t.Context(), s)).To(Succeed(), "CAPT creates %s again", name)
		default:
			refused(t, name+": an owner that does not exist, so that the garbage collector deletes it", patched(writer, s, owned))
			refused(t, "deleting "+name, writer.Delete(t.Context(), s))
		}
	}
	err := writer.DeleteAllOf(t.Context(), &corev1.Secret{}, client.InNamespace(ns), client.MatchingLabels{infrav1.ComponentLabel: "state"})
	refused(t, "deleting all states", err)

	gc := as(t, "system:serviceaccount:kube-system:generic-garbage-collector")
	g.Expect(gc.Delete(t.Context(), secret(ns, "capt-run-b-r5", ""))).To(Succeed(), "the garbage collector")
	g.Expect(as(t, "system:serviceaccount:kube-system:namespace-controller").Delete(t.Context(), secret(ns, "tfstate-default-b-ws", ""))).To(Succeed(), "the namespace is deleted")
	g.Expect(env.Client.Create(t.Context(), secret(ns, "tfstate-default-b-ws", "state"))).To(Succeed(), "an administrator moves or restores a state")
}

func owner(controller bool) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "x", UID: "0", Controller: &controller}
}

// A user who may update all Secrets can give an account the permission for single ones.
func TestSecretWriter_cannotPretendToBeARun(t *testing.T) {
	ns := env.Namespace(t)
	manager := as(t, managerUser)
	account := withRules(t, ns, "system:serviceaccount:"+ns+":mine", secretRule([]string{"get", "update", "patch"}, "capt-run-a-r1", "tfstate-default-a-ws"))
	for name, component := range map[string]string{"capt-run-a-r1": "run", "tfstate-default-a-ws": "state"} {
		s := secret(ns, name, component, infrav1.RunLabel, "a-r1")
		allowed(t, "the manager creates "+name, func() error { return manager.Create(t.Context(), s) })
		allowed(t, "reading "+name, func() error { return account.Get(t.Context(), client.ObjectKeyFromObject(s), s) })
		refused(t, name, patched(account, s, func(s *corev1.Secret) { s.Data["result"] = []byte("x") }))
	}
}

// A module runs with the account of its run.
func TestModule_reachesOnlyItsRunAndState(t *testing.T) {
	ns := env.Namespace(t)
	manager := as(t, managerUser)
	for _, s := range []*corev1.Secret{
		secret(ns, "capt-run-a-r1", "run", infrav1.RunLabel, "a-r1"), secret(ns, "tfstate-default-a-ws", "state"),
		secret(ns, "capt-run-b-r1", "run", infrav1.RunLabel, "b-r1"), secret(ns, "tfstate-default-b-ws", "state"),
	} {
		s.Annotations = map[string]string{"capt.appthrust.io/operation": "Plan", "capt.appthrust.io/seal": "v1:x"}
		allowed(t, "the manager", func() error { return manager.Create(t.Context(), s) })
	}
	const own = "capt-run-a-r1"
	base := []string{own, "tfstate-default-a-ws"}
	byName := "system:serviceaccount:" + ns + ":" + own
	shared := "system:serviceaccount:" + ns + ":terraform"
	runs := map[string]client.Client{
		"a run": withRules(t, ns, byName, secretRule([]string{"get", "update", "patch"}, base...), secretRule([]string{"create"}),
			captRule("store", "a-r1", "workspace:a", own, "tfstate-default-a-ws")),
		"a run with an account that may write Secrets": withRules(t, ns, shared, secretRule([]string{"*"}),
			captRule("store", "a-r1", "workspace:a", own, "tfstate-default-a-ws")),
	}
	for who, run := range runs {
		t.Run(who, func(t *testing.T) {
			g := NewWithT(t)
			suffix := map[string]string{"a run": "x"}[who]
			stored := func(component, name, run string) *corev1.Secret {
				return secret(ns, name+suffix, component, infrav1.RunLabel, run, infrav1.WorkspaceLabel, "a")
			}
			for component, name := range map[string]string{
				"plan": "capt-plan-0123456789abcdef-0", "snapshot": "capt-snapshot-a-r1-abc-0", "rescue": "capt-rescue-a-r1-abc-0",
				"module": "capt-module-a-abc-0", "transfer": "capt-output-abc-0",
			} {
				allowed(t, component, func() error { return run.Create(t.Context(), stored(component, name, "a-r1")) })
			}
			for what, s := range map[string]*corev1.Secret{
				"the next run":              stored("run", "capt-run-a-r2", "a-r1"),
				"a run of another":          stored("run", "capt-run-b-r2", "a-r1"),
				"a run as a snapshot":       stored("snapshot", "capt-run-a-r3", "a-r1"),
				"a plan of another run":     stored("plan", "capt-plan-1123456789abcdef-0", "b-r1"),
				"a plan without its run":    stored("plan", "capt-plan-2123456789abcdef-0", ""),
				"the state of another":      stored("state", "tfstate-default-c-ws", "a-r1"),
				"an add-on":                 stored("addon", "flux-demo", "a-r1"),
				"what a user pushes":        stored("transfer", "capt-input-abc-0", "a-r1"),
				"a kubeconfig":              stored("kubeconfig", "demo-kubeconfig", "a-r1"),
				"a flood of unknown things": stored("x", "flood", "a-r1"),
				"a state for another":       secret(ns, "capt-rescue-b-r1-abc-0"+suffix, "rescue", infrav1.RunLabel, "a-r1", infrav1.WorkspaceLabel, "b"),
			} {
				if s.Labels[infrav1.RunLabel] == "" {
					delete(s.Labels, infrav1.RunLabel)
				}
				s.Name = s.Name[:len(s.Name)-len(suffix)]
				refused(t, what, run.Create(t.Context(), s))
			}
			if who == "a run" {
				token := &corev1.Secret{Type: corev1.SecretTypeServiceAccountToken, ObjectMeta: metav1.ObjectMeta{
					Namespace: ns, Name: "any", Annotations: map[string]string{corev1.ServiceAccountNameKey: "default"},
				}}
				refused(t, "a token of another account", run.Create(t.Context(), token))
				refused(t, "a Secret with another name", run.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "any"}}))
			}
			kept := stored("snapshot", "capt-snapshot-a-r1-kept-0", "a-r1")
			kept.Finalizers = []string{"example.com/x"}
			refused(t, "a Secret that keeps the namespace", run.Create(t.Context(), kept))
			for _, component := range []string{"snapshot", "rescue", "plan"} {
				state := stored(component, "capt-"+component+"-a-r1-state-0", "a-r1")
				state.Finalizers = []string{record.StateFinalizer}
				err := run.Create(t.Context(), state)
				if component == "plan" {
					refused(t, "a plan with the finalizer of states", err)
					continue
				}
				g.Expect(err).NotTo(HaveOccurred(), "%s: CAPT removes its finalizer", component)
			}
			token := stored("snapshot", "capt-snapshot-token", "a-r1")
			token.Type, token.Annotations = corev1.SecretTypeServiceAccountToken, map[string]string{corev1.ServiceAccountNameKey: "default"}
			refused(t, "a token as a snapshot", run.Create(t.Context(), token))

			for _, name := range base {
				s := &corev1.Secret{}
				g.Expect(run.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: name}, s)).To(Succeed())
				g.Expect(patched(run, s, func(s *corev1.Secret) { s.Data["result"] = []byte(who) })).To(Succeed(), name)
			}
			changesOnlyData(t, run, ns, own, "tfstate-default-a-ws")
			for _, name := range []string{"capt-run-b-r1", "tfstate-default-b-ws"} {
				s := secret(ns, name, "")
				err := patched(run, s, func(s *corev1.Secret) { s.Data["result"] = []byte(who) })
				g.Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%s: %v", name, err)
				err = run.Delete(t.Context(), s)
				g.Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%s: %v", name, err)
			}
		})
	}
}

// changesOnlyData expects that a run cannot change which run it is, what it does, or whether
// its Secrets can be deleted.
func changesOnlyData(t *testing.T, run client.Client, ns, own, state string) {
	t.Helper()
	g := NewWithT(t)
	for what, change := range map[string]func(*corev1.Secret){
		"another operation":      func(s *corev1.Secret) { s.Annotations["capt.appthrust.io/operation"] = "Destroy" },
		"another seal":           func(s *corev1.Secret) { s.Annotations["capt.appthrust.io/seal"] = "v1:y" },
		"another requester":      func(s *corev1.Secret) { s.Annotations["capt.appthrust.io/request"] = "{}" },
		"no annotations":         func(s *corev1.Secret) { s.Annotations = nil },
		"a hidden run":           func(s *corev1.Secret) { delete(s.Labels, infrav1.ComponentLabel) },
		"the ID of another run":  func(s *corev1.Secret) { s.Labels[infrav1.RunLabel] = "b-r1" },
		"another workspace":      func(s *corev1.Secret) { s.OwnerReferences = []metav1.OwnerReference{owner(true)} },
		"a finalizer":            func(s *corev1.Secret) { s.Finalizers = []string{"example.com/x"} },
		"a Secret that is ended": func(s *corev1.Secret) { s.Immutable = new(true) },
		"data and what it is for": func(s *corev1.Secret) {
			s.Data["result"], s.Annotations["capt.appthrust.io/inputs"] = []byte("x"), "y"
		},
	} {
		s := &corev1.Secret{}
		g.Expect(run.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: own}, s)).To(Succeed())
		refused(t, what, patched(run, s, change))
	}
	for what, change := range map[string]func(*corev1.Secret){
		"a finalizer":   func(s *corev1.Secret) { s.Finalizers = []string{"example.com/x"} },
		"a fixed state": func(s *corev1.Secret) { s.Immutable = new(true) },
		"an owner that does not exist, so that the garbage collector deletes it": func(s *corev1.Secret) {
			s.OwnerReferences = append(s.OwnerReferences, owner(false))
		},
	} {
		s := &corev1.Secret{}
		g.Expect(run.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: state}, s)).To(Succeed())
		refused(t, what, patched(run, s, change))
	}
}

func TestTransfer_ofStatesNeedsAnApprover(t *testing.T) {
	g := NewWithT(t)
	ns := env.Namespace(t)
	writer := secretWriter(t, ns)
	pusher := withRules(t, ns, "approver", secretRule([]string{"*"}))
	withRoles(t, ns, "approver", "capt-approver")
	allowed(t, "a Secret of his own", func() error { return writer.Create(t.Context(), secret(ns, "mine", "")) })

	allowed(t, "captctl state push of an approver", func() error { return pusher.Create(t.Context(), secret(ns, "capt-input-abc-0", "transfer")) })
	refused(t, "replacing what is pushed", writer.Delete(t.Context(), secret(ns, "capt-input-abc-0", "")))
	refused(t, "captctl state push", writer.Create(t.Context(), secret(ns, "capt-input-def-0", "transfer")))
	g.Expect(pusher.Delete(t.Context(), secret(ns, "capt-input-abc-0", ""))).To(Succeed())

	g.Expect(env.Client.Create(t.Context(), secret(ns, "capt-output-abc-0", "transfer"))).To(Succeed())
	g.Expect(writer.Delete(t.Context(), secret(ns, "capt-output-abc-0", ""))).To(Succeed(), "captctl state pull deletes what it has read")
	manager := withRules(t, ns, "mover", secretRule([]string{"*"}), captRule("manage"))
	allowed(t, "a user who moves clusters", func() error { return manager.Create(t.Context(), secret(ns, "capt-run-moved-r1", "run")) })
}

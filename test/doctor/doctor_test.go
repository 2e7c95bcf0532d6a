// Package doctor_test runs captctl's doctor against a real API server.
package doctor_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"os"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	clusteraddonsv1 "sigs.k8s.io/cluster-api/api/addons/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cli/doctor"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
	"github.com/appthrust/capt/internal/terraform/runner"
	"github.com/appthrust/capt/internal/testenv"
	"github.com/appthrust/capt/internal/webhooks"
)

var env *testenv.Environment

func TestMain(m *testing.M) {
	os.Exit(testenv.Run(m, &env, testenv.WithWebhooks(webhooks.Setup)))
}

// harness is a namespace with a Doctor that checks only this namespace.
type harness struct {
	t         *testing.T
	g         *WithT
	namespace string
	doctor    *doctor.Doctor
	client    client.Client
}

func newHarness(t *testing.T) *harness {
	t.Helper()
	g := NewWithT(t)
	namespace := env.Namespace(t)
	d, err := doctor.New(env.Config, namespace)
	g.Expect(err).NotTo(HaveOccurred())
	return &harness{t: t, g: g, namespace: namespace, doctor: d, client: d.Client}
}

func (p *harness) create(objects ...client.Object) {
	p.t.Helper()
	for _, obj := range objects {
		status := obj.DeepCopyObject().(client.Object)
		p.g.Expect(p.client.Create(context.Background(), obj)).To(Succeed())
		switch obj.(type) {
		case *infrav1.WorkspaceTemplateApply, *infrav1.WorkspaceProviderConfig, *addonsv1.CAPTAddon:
			status.SetResourceVersion(obj.GetResourceVersion())
			status.SetUID(obj.GetUID())
			p.g.Expect(p.client.Status().Update(context.Background(), status)).To(Succeed())
		}
	}
}

func (p *harness) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: p.namespace, Name: name}
}

func (p *harness) examine() []doctor.Result { return p.doctor.Examine(context.Background()) }

func problem(check string, status doctor.Status, object, message, fix string) types.GomegaMatcher {
	return ContainElement(And(
		HaveField("Check", check), HaveField("Status", status), HaveField("Object", ContainSubstring(object)),
		HaveField("Message", ContainSubstring(message)), HaveField("Fix", ContainSubstring(fix)),
	))
}

func healthy(check, message string) types.GomegaMatcher {
	return ContainElement(And(HaveField("Check", check), HaveField("Status", doctor.OK), HaveField("Message", ContainSubstring(message))))
}

func TestExamine_healthyCluster(t *testing.T) {
	p := newHarness(t)
	results := p.examine()
	p.g.Expect(doctor.Healthy(results)).To(BeTrue(), "%v", results)
	for check, message := range map[string]string{
		"api-server": "Kubernetes v1.", "cluster-api": "Cluster API serves cluster.x-k8s.io/v1beta2", "crds": "CRDs are installed and served",
		"manager": "a manager outside of the cluster serves the webhooks at 127.0.0.1:", "webhooks": "webhooks are configured and reachable", "credentials": "0 provider configs", "add-ons": "no add-ons", "versions": "no control plane is in extended support of EKS, or will be within 60 days", "grants": "all references",
		"runs": "0 workspaces", "locks": "0 locks", "deletions": "no deletion", "leftovers": "no leftovers",
	} {
		p.g.Expect(results).To(healthy(check, message))
	}
}

func TestExamine_unreachableAPIServer(t *testing.T) {
	g := NewWithT(t)
	d, err := doctor.New(&rest.Config{Host: "https://127.0.0.1:1"}, "")
	g.Expect(err).NotTo(HaveOccurred())
	results := d.Examine(t.Context())
	g.Expect(results).To(HaveLen(1))
	g.Expect(results).To(problem("api-server", doctor.Fail, "", "the API server is unreachable", "kubectl cluster-info"))
	g.Expect(doctor.Healthy(results)).To(BeFalse())
}

func TestExamine_crds(t *testing.T) {
	p := newHarness(t)
	ctx := context.Background()
	change := func(name string, do func(*apiextensionsv1.CustomResourceDefinition)) {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		p.g.Expect(p.client.Get(ctx, client.ObjectKey{Name: name}, crd)).To(Succeed())
		before := crd.DeepCopy()
		do(crd)
		p.g.Expect(p.client.Update(ctx, crd)).To(Succeed())
		t.Cleanup(func() {
			ctx := context.Background()
			now := &apiextensionsv1.CustomResourceDefinition{}
			p.g.Expect(p.client.Get(ctx, client.ObjectKey{Name: name}, now)).To(Succeed())
			now.Spec, now.Labels = before.Spec, before.Labels
			p.g.Expect(p.client.Update(ctx, now)).To(Succeed())
		})
	}
	const pools, sets = "captmachinepools.infrastructure.cluster.x-k8s.io", "captmachinesets.infrastructure.cluster.x-k8s.io"
	change(pools, func(crd *apiextensionsv1.CustomResourceDefinition) { delete(crd.Labels, "cluster.x-k8s.io/v1beta2") })
	change(sets, func(crd *apiextensionsv1.CustomResourceDefinition) {
		spec := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
		spec.Description = "older"
		crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"] = spec
	})

	results := p.examine()

	p.g.Expect(results).To(problem("crds", doctor.Fail, pools, "label cluster.x-k8s.io/v1beta2=v1beta1 is missing", "kubectl label crd "+pools+" cluster.x-k8s.io/v1beta2=v1beta1"))
	p.g.Expect(results).To(problem("crds", doctor.Warn, sets, "the schema differs from this captctl's", "clusterctl upgrade apply --contract v1beta2"))
}

func TestExamine_manager(t *testing.T) {
	p := newHarness(t)
	labels := map[string]string{"control-plane": "controller-manager"}
	p.create(
		&appsv1.Deployment{ObjectMeta: p.meta("capt-controller-manager"), Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "manager", Image: "capt", Args: []string{"--executor=job"}}}},
			},
		}},
		&coordinationv1.Lease{ObjectMeta: p.meta("capt-manager-leader"), Spec: coordinationv1.LeaseSpec{
			HolderIdentity: new("pod-1"), LeaseDurationSeconds: new(int32(15)), RenewTime: &metav1.MicroTime{Time: time.Now().Add(-10 * time.Minute)},
		}},
	)
	t.Cleanup(func() {
		for _, obj := range []client.Object{&appsv1.Deployment{ObjectMeta: p.meta("capt-controller-manager")}, &coordinationv1.Lease{ObjectMeta: p.meta("capt-manager-leader")}} {
			p.g.Expect(p.client.Delete(context.Background(), obj)).To(Succeed())
		}
	})

	results := p.examine()

	p.g.Expect(results).To(problem("manager", doctor.Fail, "Deployment "+p.namespace+"/capt-controller-manager", "0 of 1 pods are available", "kubectl logs"))
	p.g.Expect(results).To(problem("manager", doctor.Fail, "Lease "+p.namespace+"/capt-manager-leader", "leader pod-1 has not renewed it for 10m", "kubectl rollout restart"))

	lease := &coordinationv1.Lease{}
	p.g.Expect(p.client.Get(context.Background(), client.ObjectKey{Namespace: p.namespace, Name: "capt-manager-leader"}, lease)).To(Succeed())
	lease.Spec.RenewTime = &metav1.MicroTime{Time: time.Now().Add(time.Hour)}
	p.g.Expect(p.client.Update(context.Background(), lease)).To(Succeed())
	p.g.Expect(p.examine()).NotTo(problem("manager", doctor.Fail, "Lease", "", ""))
}

func TestExamine_webhooks(t *testing.T) {
	p := newHarness(t)
	authority, expired := certificate(t, time.Hour), certificate(t, -time.Hour)
	create := func(name string, config admissionregistrationv1.WebhookClientConfig) {
		// The resource does not exist, so that the broken webhook blocks nothing.
		none := admissionregistrationv1.SideEffectClassNone
		configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{
				Name: p.namespace + "-" + name, Annotations: map[string]string{"cert-manager.io/inject-ca-from": "capt/serving"},
			},
			Webhooks: []admissionregistrationv1.ValidatingWebhook{{
				Name: "broken.capt.appthrust.io", ClientConfig: config, SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
				Rules: []admissionregistrationv1.RuleWithOperations{{
					Operations: []admissionregistrationv1.OperationType{"CREATE"},
					Rule: admissionregistrationv1.Rule{
						APIGroups: []string{"infrastructure.cluster.x-k8s.io"}, APIVersions: []string{"v1beta1"}, Resources: []string{"captnothings"},
					},
				}},
			}},
		}
		p.create(configuration)
		t.Cleanup(func() { p.g.Expect(p.client.Delete(context.Background(), configuration)).To(Succeed()) })
	}
	service := func(name string) *admissionregistrationv1.ServiceReference {
		return &admissionregistrationv1.ServiceReference{Namespace: p.namespace, Name: name}
	}
	p.create(&corev1.Service{ObjectMeta: p.meta("empty"), Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 443}}}})
	create("none", admissionregistrationv1.WebhookClientConfig{Service: service("missing")})
	create("expired", admissionregistrationv1.WebhookClientConfig{Service: service("empty"), CABundle: expired})
	create("silent", admissionregistrationv1.WebhookClientConfig{URL: new("https://127.0.0.1:1/x"), CABundle: authority})

	results := p.examine()

	p.g.Expect(results).To(problem("webhooks", doctor.Fail, "-none", "no caBundle", "cert-manager"))
	p.g.Expect(results).To(problem("webhooks", doctor.Fail, "-none", "Service "+p.namespace+"/missing does not exist", "clusterctl init"))
	p.g.Expect(results).To(problem("webhooks", doctor.Fail, "-expired", "expired 60m ago", "kubectl delete secret -n capt $(kubectl get certificate -n capt serving "))
	p.g.Expect(results).To(problem("webhooks", doctor.Fail, "-expired", "Service "+p.namespace+"/empty has no ready endpoint", "kubectl get pods"))
	p.g.Expect(results).To(problem("webhooks", doctor.Fail, "-silent", "127.0.0.1:1 is unreachable", "start the server of the webhook"))
}

func TestExamine_webhookThatBlocksEveryChange(t *testing.T) {
	p := newHarness(t)
	none := admissionregistrationv1.SideEffectClassNone
	configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: p.namespace},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "blocking.capt.appthrust.io", SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
			ClientConfig:      admissionregistrationv1.WebhookClientConfig{URL: new("https://127.0.0.1:1/x"), CABundle: certificate(t, time.Hour)},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": p.namespace}},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{"CREATE"},
				Rule: admissionregistrationv1.Rule{
					APIGroups: []string{"infrastructure.cluster.x-k8s.io"}, APIVersions: []string{"v1beta1"}, Resources: []string{"workspaceproviderconfigs"},
				},
			}},
		}},
	}
	p.create(configuration)
	t.Cleanup(func() { p.g.Expect(p.client.Delete(context.Background(), configuration)).To(Succeed()) })

	p.g.Eventually(p.examine, 2*time.Minute).Should(
		problem("webhooks", doctor.Fail, "", "the API server cannot call the webhooks and refuses every change", "kubectl get pods"),
		"the API server observes the configuration after a moment")
}

func TestExamine_credentials(t *testing.T) {
	p := newHarness(t)
	notReady := func(reason, message string) []metav1.Condition {
		return []metav1.Condition{{Type: infrav1.ReadyCondition, Status: metav1.ConditionFalse, Reason: reason, Message: message, LastTransitionTime: metav1.Now(), ObservedGeneration: 1}}
	}
	workspace := func(name, reason, message string) *infrav1.WorkspaceTemplateApply {
		return &infrav1.WorkspaceTemplateApply{
			ObjectMeta: p.meta(name), Spec: infrav1.WorkspaceTemplateApplySpec{TemplateRef: infrav1.TemplateReference{Name: "network"}},
			Status: infrav1.WorkspaceTemplateApplyStatus{ObservedGeneration: 1, Conditions: notReady(reason, message)},
		}
	}
	p.create(
		&infrav1.WorkspaceProviderConfig{ObjectMeta: p.meta("aws"), Status: infrav1.WorkspaceProviderConfigStatus{Conditions: notReady(infrav1.WaitingForSecretReason, "Secret absent does not exist")}},
		&infrav1.WorkspaceProviderConfig{ObjectMeta: p.meta("s3"), Status: infrav1.WorkspaceProviderConfigStatus{Conditions: notReady(infrav1.ConfigurationInvalidReason, "no bucket")}},
		workspace("without-config", infrav1.WaitingForProviderConfigReason, "WorkspaceProviderConfig gcp does not exist"),
		workspace("without-template", infrav1.WaitingForTemplateReason, "WorkspaceTemplate missing does not exist"),
	)

	results := p.examine()

	p.g.Expect(results).To(problem("credentials", doctor.Fail, "WorkspaceProviderConfig "+p.namespace+"/aws", "Secret absent does not exist", "kubectl create secret generic -n "+p.namespace))
	p.g.Expect(results).To(problem("credentials", doctor.Fail, "/s3", "ConfigurationInvalid: no bucket", "kubectl edit -n "+p.namespace+" workspaceproviderconfig/s3"))
	p.g.Expect(results).To(problem("credentials", doctor.Fail, "/without-config", "WorkspaceProviderConfig gcp does not exist", "provider-config-aws.yaml"))
	p.g.Expect(results).To(problem("credentials", doctor.Fail, "/without-template", "WorkspaceTemplate missing does not exist", "spec.templateRef"))
}

func TestExamine_failedAddons(t *testing.T) {
	p := newHarness(t)
	p.create(&addonsv1.CAPTAddon{
		ObjectMeta: p.meta("karpenter"),
		Spec: addonsv1.CAPTAddonSpec{
			ClusterSelector: metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}},
			Manifests:       []addonsv1.ManifestSource{{Name: "all", ConfigMapRef: &infrav1.LocalReference{Name: "all"}}},
		},
		Status: addonsv1.CAPTAddonStatus{Clusters: []addonsv1.ClusterAddonStatus{
			{Name: "one", Ready: new(false), Reason: addonsv1.ReleaseStalledReason, Message: "retries are exhausted", Since: metav1.NewTime(time.Now().Add(-3 * time.Hour))},
			{Name: "two", Ready: new(false), Reason: addonsv1.ApplyingReason, Message: "being applied", Since: metav1.Now()},
		}},
	})

	results := p.examine()

	p.g.Expect(results).To(problem("add-ons", doctor.Fail, "CAPTAddon "+p.namespace+"/karpenter", "in cluster one for 3h: ReleaseStalled: retries are exhausted", "captctl addon trigger karpenter -n "+p.namespace))
	p.g.Expect(results).NotTo(problem("add-ons", doctor.Fail, "", "cluster two", ""))
}

func TestExamine_runsThatNeedAction(t *testing.T) {
	p := newHarness(t)
	waiting := func(name, reason, message string, age time.Duration) *infrav1.WorkspaceTemplateApply {
		at := metav1.NewTime(time.Now().Add(-age))
		condition := func(kind string) metav1.Condition {
			return metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: reason, Message: message, LastTransitionTime: at, ObservedGeneration: 1}
		}
		return &infrav1.WorkspaceTemplateApply{
			ObjectMeta: p.meta(name), Spec: infrav1.WorkspaceTemplateApplySpec{TemplateRef: infrav1.TemplateReference{Name: "network"}},
			Status: infrav1.WorkspaceTemplateApplyStatus{ObservedGeneration: 1, Conditions: []metav1.Condition{condition(infrav1.AppliedCondition), condition(infrav1.ReadyCondition)}},
		}
	}
	p.create(
		template(p.meta("network")),
		waiting("failed", infrav1.RunFailedReason, "access denied", 10*time.Minute),
		waiting("approval", infrav1.WaitingForApprovalReason, "plan-1 waits", 3*time.Hour),
		waiting("soon", infrav1.WaitingForApprovalReason, "plan-2 waits", time.Minute),
		waiting("slow", infrav1.RunInProgressReason, "applying 1 of 2", 5*time.Hour),
		&infrav1.WorkspaceTemplateApply{ObjectMeta: p.meta("unobserved"), Spec: infrav1.WorkspaceTemplateApplySpec{TemplateRef: infrav1.TemplateReference{Name: "network"}}},
	)

	results := p.examine()
	p.g.Expect(results).To(problem("runs", doctor.Fail, "/failed", "for 10m: RunFailed: access denied", "captctl reconcile -n "+p.namespace+" failed"))
	p.g.Expect(results).To(problem("runs", doctor.Warn, "/approval", "for 3h: WaitingForApproval: plan-1 waits", "captctl approve -n "+p.namespace+" approval"))
	p.g.Expect(results).To(problem("runs", doctor.Warn, "/slow", "applying 1 of 2", "captctl logs -f"))
	p.g.Expect(results).NotTo(problem("runs", doctor.Warn, "/soon", "", ""))
	p.g.Expect(results).NotTo(problem("runs", doctor.Warn, "/unobserved", "", ""), "it is new")

	p.doctor.Now = func() time.Time { return time.Now().Add(10 * time.Minute) }
	p.g.Expect(p.examine()).To(problem("runs", doctor.Warn, "/unobserved", "no manager has observed its latest change", "a manager is running"))
}

func TestExamine_locksWithoutRunningHolder(t *testing.T) {
	p := newHarness(t)
	lock := func(name, holder, who string) *coordinationv1.Lease {
		meta := p.meta("lock-tfstate-default-" + name + "-ws")
		meta.Labels = map[string]string{infrav1.WorkspaceLabel: name}
		meta.Annotations = map[string]string{"app.terraform.io/lock-info": `{"Who": "` + who + `", "Created": "2026-01-01T00:00:00Z"}`}
		return &coordinationv1.Lease{ObjectMeta: meta, Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder}}
	}
	run := func(id, identity string, finished bool) *corev1.Secret {
		secret := &corev1.Secret{ObjectMeta: p.meta(record.SecretName(id)), Data: map[string][]byte{"identity": []byte(identity)}}
		if finished {
			p.g.Expect(record.SetResult(secret, &terraform.Result{})).To(Succeed())
		}
		return secret
	}
	self, err := runner.Self()
	p.g.Expect(err).NotTo(HaveOccurred())
	p.create(
		lock("forgotten", "forgotten-1", "capt/ns/forgotten-1@host"),
		lock("ended", "ended-1", "capt/ns/ended-1@host"), run("ended-1", "{}", true),
		lock("podless", "podless-1", "capt/ns/podless-1@host"), run("podless-1", `{"podName":"old","podNamespace":"`+p.namespace+`","podUID":"1"}`, false),
		lock("dead", "dead-1", "capt/ns/dead-1@host"), run("dead-1", asJSON(p.g, record.Identity{Host: self.Host, Boot: self.Boot, PID: 1 << 22, Started: 1}), false),
		lock("person", "5f2c", "ada@laptop"),
		lock("alive", "alive-1", "capt/ns/alive-1@host"), run("alive-1", asJSON(p.g, self), false),
		lock("free", "", ""),
	)

	results := p.examine()

	for name, message := range map[string]string{
		"forgotten": "run forgotten-1, which does not exist any more", "ended": "run ended-1, which is not running (the run has ended)",
		"podless": "run podless-1, which is not running (pod " + p.namespace + "/old)", "dead": "run dead-1, which is not running (process ",
	} {
		p.g.Expect(results).To(problem("locks", doctor.Fail, name, message, "captctl unlock -n "+p.namespace+" "+name))
	}
	p.g.Expect(results).To(problem("locks", doctor.Warn, "person", "locked by ada@laptop since 2026-01-01T00:00:00Z, not by a run", "captctl unlock -n "+p.namespace))
	for _, result := range results {
		p.g.Expect(result.Object).NotTo(ContainSubstring("alive"))
		p.g.Expect(result.Object).NotTo(ContainSubstring("free"))
	}
}

func TestExamine_longDeletions(t *testing.T) {
	p := newHarness(t)
	meta := p.meta("stuck")
	meta.Finalizers = []string{infrav1.WorkspaceHeldFinalizer}
	apply := &infrav1.WorkspaceTemplateApply{
		ObjectMeta: meta, Spec: infrav1.WorkspaceTemplateApplySpec{TemplateRef: infrav1.TemplateReference{Name: "network"}},
		Status: infrav1.WorkspaceTemplateApplyStatus{Conditions: []metav1.Condition{{
			Type: infrav1.DestroyedCondition, Status: metav1.ConditionFalse, Reason: infrav1.HeldByOwnerReason, Message: "CAPTCluster demo needs this workspace", LastTransitionTime: metav1.Now(),
		}}},
	}
	p.create(apply)
	p.g.Expect(p.client.Delete(context.Background(), apply)).To(Succeed())

	p.g.Expect(p.examine()).To(healthy("deletions", "no deletion"))
	p.doctor.Now = func() time.Time { return time.Now().Add(2 * time.Hour) }
	p.g.Expect(p.examine()).To(problem("deletions", doctor.Warn, "WorkspaceTemplateApply "+p.namespace+"/stuck",
		"deletion started 120m ago; finalizers: "+infrav1.WorkspaceHeldFinalizer+"; CAPTCluster demo needs this workspace", "kubectl describe -n "+p.namespace+" workspacetemplateapply stuck"))
}

func TestExamine_leftovers(t *testing.T) {
	p := newHarness(t)
	secret := func(name, workspace, component, state string) *corev1.Secret {
		meta := p.meta(name)
		meta.Labels = map[string]string{infrav1.WorkspaceLabel: workspace, infrav1.ComponentLabel: component}
		return &corev1.Secret{ObjectMeta: meta, Data: map[string][]byte{"tfstate": zipped(state)}}
	}
	addon := p.meta("old-addon")
	addon.Labels = map[string]string{addonsv1.AddonLabel: "flux"}
	p.create(
		template(p.meta("network")),
		&infrav1.WorkspaceTemplateApply{ObjectMeta: p.meta("here"), Spec: infrav1.WorkspaceTemplateApplySpec{TemplateRef: infrav1.TemplateReference{Name: "network"}}},
		secret("tfstate-here", "here", record.ComponentState, `{"resources": [{}]}`),
		secret("tfstate-full", "old", record.ComponentState, `{"resources": [{}]}`),
		secret("tfstate-empty", "old", record.ComponentState, `{"resources": []}`),
		secret("capt-run-1", "old", record.ComponentRun, ""),
		secret("rescued", "old", record.ComponentRescue, ""),
		&corev1.Secret{ObjectMeta: addon},
		&clusteraddonsv1.ClusterResourceSet{ObjectMeta: addon, Spec: clusteraddonsv1.ClusterResourceSetSpec{
			Strategy: "Reconcile", ClusterSelector: metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}},
			Resources: []clusteraddonsv1.ResourceRef{{Kind: "Secret", Name: "old-addon"}},
		}},
	)

	results := p.examine()

	p.g.Expect(results).To(problem("leftovers", doctor.Warn, "tfstate-full", "still has resources", "create WorkspaceTemplateApply old again"))
	p.g.Expect(results).To(problem("leftovers", doctor.Warn, "tfstate-empty", "without resources", "kubectl delete secret -n "+p.namespace+" tfstate-empty"))
	p.g.Expect(results).To(problem("leftovers", doctor.Warn, "capt-run-1", "run of the deleted workspace old", "kubectl delete secret"))
	p.g.Expect(results).To(problem("leftovers", doctor.Fail, "rescued", "that a run could not save and that was never restored", "create WorkspaceTemplateApply old again"))
	p.g.Expect(results).To(problem("leftovers", doctor.Warn, "Secret "+p.namespace+"/old-addon", "rendered for the deleted CAPTAddon flux", "kubectl delete secret"))
	p.g.Expect(results).To(problem("leftovers", doctor.Warn, "ClusterResourceSet "+p.namespace+"/old-addon", "rendered for the deleted CAPTAddon flux", "kubectl delete clusterresourceset"))
	p.g.Expect(results).NotTo(problem("leftovers", doctor.Warn, "tfstate-here", "", ""))
}

func template(meta metav1.ObjectMeta) *infrav1.WorkspaceTemplate {
	t := &infrav1.WorkspaceTemplate{ObjectMeta: meta}
	t.Spec.Template.Spec.ForProvider = infrav1.ModuleParameters{Source: infrav1.ModuleSourceInline, Module: `output "a" { value = 1 }`}
	return t
}

func zipped(text string) []byte {
	if text == "" {
		return nil
	}
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write([]byte(text))
	_ = w.Close()
	return b.Bytes()
}

// certificate returns a CA certificate that expires after the given time.
func certificate(t *testing.T, after time.Duration) []byte {
	t.Helper()
	g := NewWithT(t)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	g.Expect(err).NotTo(HaveOccurred())
	content := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-24 * time.Hour), NotAfter: time.Now().Add(after), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, content, content, &key.PublicKey, key)
	g.Expect(err).NotTo(HaveOccurred())
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func asJSON(g *WithT, v any) string {
	content, err := json.Marshal(v)
	g.Expect(err).NotTo(HaveOccurred())
	return string(content)
}

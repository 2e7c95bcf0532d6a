package doctor

import (
	"bytes"
	"compress/gzip"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/client/operate"
	"github.com/appthrust/capt/internal/cluster/grant"
	"github.com/appthrust/capt/internal/reconcile/fault"
	"github.com/appthrust/capt/internal/terraform/record"
)

func messages(results []Result) []string {
	var all []string
	for _, r := range results {
		all = append(all, string(r.Status)+": "+r.Message)
	}
	return all
}

// The version that a control plane serves counts, because an upgrade may wait.
func TestVersionProblem(t *testing.T) {
	now := time.Date(2026, time.November, 19, 0, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		status, spec string
		source       controlplanev1.KubeconfigSource
		deleted      bool
		want         string
	}{
		"standard support":      {status: "v1.35.1", spec: "v1.35.0"},
		"it ends soon":          {status: "v1.34.3", spec: "v1.35.0", want: "warn: EKS ends the standard support of Kubernetes 1.34 on 2026-12-02: the control plane then costs 0.60"},
		"extended support":      {status: "v1.33.9", spec: "v1.33.0", want: "warn: Kubernetes 1.33 is in extended support of EKS since 2026-07-29"},
		"not created yet":       {spec: "v1.33.0"},
		"another control plane": {status: "v1.33.9", source: controlplanev1.KubeconfigSourceOutput},
		"being deleted":         {status: "v1.33.9", deleted: true},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			c := &controlplanev1.CAPTControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "demo"}}
			c.Spec.Version, c.Status.Version = tc.spec, tc.status
			if tc.source != "" {
				c.Spec.Kubeconfig = &controlplanev1.KubeconfigConfig{Source: tc.source}
			}
			if tc.deleted {
				c.DeletionTimestamp = &metav1.Time{Time: now}
			}
			problem := versionProblem(c, now)
			if tc.want == "" {
				g.Expect(problem).To(BeNil())
				return
			}
			g.Expect(messages([]Result{*problem})[0]).To(HavePrefix(tc.want))
			g.Expect(problem.Object).To(Equal("CAPTControlPlane team/demo"))
			g.Expect(problem.Fix).To(ContainSubstring("edit captcontrolplane demo"))
		})
	}
}

func TestCRDProblems(t *testing.T) {
	crd := func() *apiextensionsv1.CustomResourceDefinition {
		d := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "things", Labels: map[string]string{"contract": "v1"}}}
		d.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true, Schema: &apiextensionsv1.CustomResourceValidation{}}}
		d.Status.StoredVersions = []string{"v1"}
		d.Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{
			{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue}, {Type: apiextensionsv1.Terminating, Status: apiextensionsv1.ConditionFalse},
		}
		return d
	}
	for name, tc := range map[string]struct {
		change func(*apiextensionsv1.CustomResourceDefinition)
		want   []string
	}{
		"equal": {func(*apiextensionsv1.CustomResourceDefinition) {}, nil},
		"not established": {func(d *apiextensionsv1.CustomResourceDefinition) {
			d.Status.Conditions[0].Status, d.Status.Conditions[0].Reason, d.Status.Conditions[0].Message = "False", "Conflict", "names"
		}, []string{"fail: not served: Conflict: names"}},
		"version not served":  {func(d *apiextensionsv1.CustomResourceDefinition) { d.Spec.Versions[0].Served = false }, []string{"fail: does not serve v1"}},
		"old stored version":  {func(d *apiextensionsv1.CustomResourceDefinition) { d.Status.StoredVersions = []string{"v0", "v1"} }, []string{"warn: objects may still be stored as v0"}},
		"version not storage": {func(d *apiextensionsv1.CustomResourceDefinition) { d.Spec.Versions[0].Storage = false }, []string{"warn: objects may still be stored as v1"}},
		"no label":            {func(d *apiextensionsv1.CustomResourceDefinition) { d.Labels = nil }, []string{"fail: label contract=v1 is missing; Cluster API reads the supported versions from it"}},
		"label of the contract": {
			func(d *apiextensionsv1.CustomResourceDefinition) { d.Labels["cluster.x-k8s.io/v1beta2"] = "v1" },
			[]string{"fail: label cluster.x-k8s.io/v1beta2 is only for kinds of the contract: with it, users who may create Clusters can have Cluster API delete objects of this kind"},
		},
		"label of others": {func(d *apiextensionsv1.CustomResourceDefinition) { d.Labels["cluster.x-k8s.io/provider"] = "capt" }, nil},
		"other schema": {func(d *apiextensionsv1.CustomResourceDefinition) {
			d.Spec.Versions[0].Schema.OpenAPIV3Schema = &apiextensionsv1.JSONSchemaProps{Type: "object"}
		}, []string{"warn: the schema differs from this captctl's: one of them is outdated"}},
		"deleted": {func(d *apiextensionsv1.CustomResourceDefinition) { d.DeletionTimestamp = new(ago(0)) }, []string{"fail: being deleted with all of its objects"}},
	} {
		t.Run(name, func(t *testing.T) {
			installed := crd()
			tc.change(installed)
			NewWithT(t).Expect(messages(crdProblems(crd(), installed))).To(Equal(tc.want))
		})
	}
}

func TestAddonProblems(t *testing.T) {
	addon := &addonsv1.CAPTAddon{ObjectMeta: named("karpenter")}
	addon.Status.Clusters = []addonsv1.ClusterAddonStatus{
		{Name: "ready", Ready: new(true), Reason: addonsv1.TimedOutReason},
		{Name: "applying", Ready: new(false), Reason: addonsv1.ApplyingReason, Since: ago(100 * time.Hour)},
		{Name: "failed", Ready: new(false), Reason: addonsv1.MissingKeyReason, Message: "no key", Since: ago(time.Hour)},
		{Name: "unknown", Reason: addonsv1.TimedOutReason, Message: "too slow", Since: ago(time.Hour)},
	}
	problems := addonProblems(addon, now)
	g := NewWithT(t)
	g.Expect(messages(problems)).To(Equal([]string{"fail: in cluster failed for 60m: MissingKey: no key", "fail: in cluster unknown for 60m: TimedOut: too slow"}))
	g.Expect(problems[0].Fix).To(Equal("kubectl edit captaddon -n team karpenter: change valuesKey, or set a default"))
}

func TestGrantProblem_isReportedOnce(t *testing.T) {
	g := NewWithT(t)
	apply := &infrav1.WorkspaceTemplateApply{ObjectMeta: named("net")}
	g.Expect(grantProblem(apply)).To(BeNil())
	for _, kind := range []string{infrav1.ReadyCondition, infrav1.DependenciesReadyCondition} {
		apply.Status.Conditions = append(apply.Status.Conditions, metav1.Condition{Type: kind, Status: "False", Reason: infrav1.NotGrantedReason, Message: kind})
	}
	problem := grantProblem(apply)
	g.Expect(problem.Object).To(Equal("WorkspaceTemplateApply team/net"))
	g.Expect(problem.Message).To(Equal(infrav1.DependenciesReadyCondition))

	mirrored := []metav1.Condition{{Type: clusterv1.ClusterInfrastructureReadyCondition, Status: "False", Reason: infrav1.NotGrantedReason}}
	g.Expect(grantProblem(&clusterv1.Cluster{Status: clusterv1.ClusterStatus{Conditions: mirrored}})).To(BeNil())
	g.Expect(grantProblem(&clusterv1.Machine{Status: clusterv1.MachineStatus{Conditions: mirrored}})).To(BeNil())
}

func TestGrantProblem_fixIsThatOfTheMessage(t *testing.T) {
	platform := client.ObjectKey{Namespace: "platform", Name: "vpc"}
	checker := &grant.Checker{Client: fake.NewClientBuilder().WithScheme(Scheme()).Build()}
	for name, tc := range map[string]struct {
		err error
		fix string
	}{
		"a grant is missing": {
			checker.Check(t.Context(), "team", infrav1.GrantedWorkspaceTemplate, platform),
			"create the CAPTReferenceGrant in the namespace that the message names; see docs/catalogue.md",
		},
		"no grant helps": {
			(&grant.Checker{Denied: true}).Check(t.Context(), "team", infrav1.GrantedWorkspaceTemplate, platform),
			"see docs/catalogue.md",
		},
		"the provider config refuses templates": {
			grant.CheckTemplate(&infrav1.WorkspaceProviderConfig{ObjectMeta: named("aws")}, platform),
			"see docs/catalogue.md",
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			condition := metav1.Condition{Type: infrav1.DependenciesReadyCondition, Status: "False"}
			if waiting, ok := fault.AsWaiting(tc.err); ok {
				condition.Reason, condition.Message = waiting.Reason, waiting.Message()
			} else if stalled, ok := fault.AsStalled(tc.err); ok {
				condition.Reason, condition.Message = stalled.Reason, stalled.Message()
			}
			apply := &infrav1.WorkspaceTemplateApply{ObjectMeta: named("net")}
			apply.Status.Conditions = []metav1.Condition{condition}
			g.Expect(grantProblem(apply)).To(Equal(&Result{Status: Fail, Object: "WorkspaceTemplateApply team/net", Message: condition.Message, Fix: tc.fix}))
		})
	}
}

func TestOwners_isLeftover(t *testing.T) {
	o := owners{label: infrav1.WorkspaceLabel, names: map[client.ObjectKey]bool{}}
	o.add(&infrav1.WorkspaceTemplateApply{ObjectMeta: named("net")})
	for name, tc := range map[string]struct {
		namespace, workspace string
		deleted              *metav1.Time
		want                 bool
	}{
		"the workspace exists":                {"team", "net", nil, false},
		"the workspace was deleted":           {"team", "old", nil, true},
		"another namespace":                   {"other", "net", nil, true},
		"the Secret is being deleted as well": {"team", "old", new(ago(0)), false},
	} {
		t.Run(name, func(t *testing.T) {
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: tc.namespace, DeletionTimestamp: tc.deleted, Labels: map[string]string{infrav1.WorkspaceLabel: tc.workspace}}}
			NewWithT(t).Expect(o.isLeftover(secret)).To(Equal(tc.want))
		})
	}
}

// A state that cannot be read may have resources: no fix deletes it.
func TestSecretLeftover(t *testing.T) {
	const remove = "kubectl delete secret -n team s"
	for name, tc := range map[string]struct {
		component, state string
		want, fix        string
	}{
		"a state with resources": {record.ComponentState, `{"resources": [{}]}`, "warn: state of the deleted workspace net, which still has resources", "create WorkspaceTemplateApply net again to manage them; or, to abandon them, " + remove},
		"an empty state":         {record.ComponentState, `{"resources": []}`, "warn: state of the deleted workspace net, without resources", remove},
		"an unreadable state":    {record.ComponentState, `no state`, "warn: state of the deleted workspace net, unreadable: ", "kubectl describe secret -n team s"},
		"a rescued state":        {record.ComponentRescue, "", "fail: state of the deleted workspace net that a run could not save and that was never restored", "create WorkspaceTemplateApply net again, which restores it"},
		"a run":                  {record.ComponentRun, "", "warn: run of the deleted workspace net", remove},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			var zipped bytes.Buffer
			w := gzip.NewWriter(&zipped)
			_, err := w.Write([]byte(tc.state))
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(w.Close()).To(Succeed())
			secret := &corev1.Secret{ObjectMeta: named("s"), Data: map[string][]byte{"tfstate": zipped.Bytes()}}
			secret.Labels = map[string]string{infrav1.WorkspaceLabel: "net", infrav1.ComponentLabel: tc.component}
			result := secretLeftover(secret)
			g.Expect(messages([]Result{result})).To(HaveExactElements(HavePrefix(tc.want)))
			g.Expect(result.Fix).To(Equal(tc.fix))
		})
	}
}

func TestUnknownHolder(t *testing.T) {
	for name, tc := range map[string]struct {
		lock   operate.Lock
		want   string
		status Status
	}{
		"a run":           {operate.Lock{ID: "net-r1", Who: "capt/team/net-r1@host"}, "state is locked by run net-r1, which does not exist any more", Fail},
		"a user":          {operate.Lock{ID: "1", Who: "ada@laptop", Created: "today"}, "state is locked by ada@laptop since today, not by a run", Warn},
		"an unknown user": {operate.Lock{ID: "1"}, "state is locked by an unknown user, not by a run", Warn},
	} {
		t.Run(name, func(t *testing.T) {
			message, status := unknownHolder(&tc.lock)
			NewWithT(t).Expect(message).To(Equal(tc.want))
			NewWithT(t).Expect(status).To(Equal(tc.status))
		})
	}
}

func TestUnlockCommand(t *testing.T) {
	for want, labels := range map[string]map[string]string{
		"captctl unlock -n team net":       {infrav1.WorkspaceLabel: "net"},
		"captctl unlock -n team WORKSPACE": nil,
	} {
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "lock", Labels: labels}}
		NewWithT(t).Expect(unlockCommand(lease)).To(Equal(want))
	}
}

func TestWebhook_isOurs(t *testing.T) {
	for name, tc := range map[string]struct {
		groups, resources []string
		want              bool
	}{
		"our kinds":              {[]string{infrav1.GroupVersion.Group}, []string{"captclusters"}, true},
		"our workspaces":         {[]string{"other", infrav1.GroupVersion.Group}, []string{"other", "workspacetemplates"}, true},
		"our bootstrap configs":  {[]string{"bootstrap.cluster.x-k8s.io"}, []string{"captbootstrapconfigtemplates"}, true},
		"other kinds":            {[]string{infrav1.GroupVersion.Group}, []string{"awsclusters"}, false},
		"same kind, other group": {[]string{"example.com"}, []string{"captclusters"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			h := webhook{rules: []admissionregistrationv1.RuleWithOperations{{Rule: admissionregistrationv1.Rule{APIGroups: tc.groups, Resources: tc.resources}}}}
			NewWithT(t).Expect(h.isOurs()).To(Equal(tc.want))
		})
	}
}

func TestWebhook_renewCertificate(t *testing.T) {
	g := NewWithT(t)
	g.Expect(webhook{certificate: "capt-addon-system/capt-addon-serving-cert"}.renewCertificate()).To(HaveSuffix("kubectl delete secret -n capt-addon-system $(kubectl get certificate -n capt-addon-system capt-addon-serving-cert -o jsonpath={.spec.secretName})"))
	g.Expect(webhook{}.renewCertificate()).NotTo(ContainSubstring("cert-manager"))
}

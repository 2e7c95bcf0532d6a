package captcontrolplane

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	apiversion "k8s.io/apimachinery/pkg/version"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/desired"
	"github.com/appthrust/capt/internal/cluster/workload"
	"github.com/appthrust/capt/internal/kubernetes/kubeversion"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// noon is the time of all tests.
var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// newControlPlane returns a control plane of the cluster production after changes.
func newControlPlane(changes ...func(*controlplanev1.CAPTControlPlane)) *controlplanev1.CAPTControlPlane {
	c := &controlplanev1.CAPTControlPlane{ObjectMeta: metav1.ObjectMeta{
		Namespace: "team", Name: "main", UID: "1", Labels: map[string]string{clusterv1.ClusterNameLabel: "production"},
	}}
	c.Spec.Version = "v1.33.0"
	c.Spec.WorkspaceTemplateRef = infrav1.TemplateReference{Name: "eks"}
	for _, change := range changes {
		change(c)
	}
	return c
}

// newScope returns the scope of a control plane whose Cluster does not exist.
func newScope(changes ...func(*controlplanev1.CAPTControlPlane)) *scope {
	return &scope{controlPlane: newControlPlane(changes...), now: noon, notes: map[string]note{}}
}

// newWorkspace returns an applied workspace with outputs.
func newWorkspace(outputs map[string]string) *infrav1.WorkspaceTemplateApply {
	apply := &infrav1.WorkspaceTemplateApply{ObjectMeta: metav1.ObjectMeta{
		Namespace: "team", Name: "production", Finalizers: []string{infrav1.WorkspaceHeldFinalizer},
	}}
	apply.Status.ConnectionSecretName = "production-eks-connection"
	for name, value := range outputs {
		if apply.Status.Outputs == nil {
			apply.Status.Outputs = map[string]infrav1.Value{}
		}
		apply.Status.Outputs[name] = infrav1.Value{Raw: []byte(value)}
	}
	conditions.Set(apply, metav1.Condition{Type: clusterv1.ReadyCondition, Status: metav1.ConditionTrue, Reason: "Ready"})
	return apply
}

// result is the outcome of a step as a text: "", "wait REASON", "stall REASON" or
// "error".
func result(err error) string {
	if err == nil {
		return ""
	}
	if s, ok := fault.AsStalled(err); ok {
		return "stall " + s.Reason
	}
	if w, ok := fault.AsWaiting(err); ok {
		return "wait " + w.Reason
	}
	return "error"
}

func TestDeletionProgress(t *testing.T) {
	const limit = 15 * time.Minute
	unreachable := unreachableError{errors.New("connection refused")}
	seven := []string{"a", "b", "c", "d", "e", "f", "g"}
	for name, c := range map[string]struct {
		remaining []string
		err       error
		waited    time.Duration
		want      string
		text      []string
		without   string
	}{
		"deleted":               {want: ""},
		"deleted at last":       {waited: limit * 2, want: ""},
		"remaining":             {remaining: []string{"Service a"}, want: "wait " + infrav1.DeletingReason, text: []string{"Waiting for the deletion of Service a"}, without: "annotation"},
		"many":                  {remaining: seven, want: "wait " + infrav1.DeletingReason, text: []string{"a, b, c, d, e and 2 more"}},
		"at the limit":          {remaining: []string{"Service a"}, waited: limit, want: "wait " + infrav1.DeletingReason, without: "annotation"},
		"overdue":               {remaining: seven, waited: limit + 1, want: "wait " + controlplanev1.DeadlineExceededReason, text: []string{"Not deleted after 15m0s: a, b, c, d, e, f, g; ", "set the annotation capt.appthrust.io/skip-deletion-checks: nodes"}},
		"unreachable":           {err: unreachable, want: "wait " + controlplanev1.APIServerUnreachableReason, text: []string{"Workload cluster is unreachable: connection refused"}, without: "annotation"},
		"unreachable, overdue":  {err: unreachable, waited: limit + 1, want: "wait " + controlplanev1.DeadlineExceededReason, text: []string{"Workload cluster is unreachable: connection refused; to continue", "skip-deletion-checks: nodes"}},
		"account":               {err: lookupError{fault.Wait("R", "denied")}, want: "wait " + controlplanev1.LeftoversUnknownReason, text: []string{"The account cannot be searched for what the cluster left: denied"}},
		"unreachable, not late": {err: unreachable, waited: limit, want: "wait " + controlplanev1.APIServerUnreachableReason},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			err := deletionProgress("nodes", c.remaining, c.err, c.waited, limit)
			g.Expect(result(err)).To(Equal(c.want))
			for _, text := range c.text {
				g.Expect(err).To(MatchError(ContainSubstring(text)))
			}
			if c.without != "" {
				g.Expect(err.Error()).NotTo(ContainSubstring(c.without))
			}
			if waiting, ok := fault.AsWaiting(err); ok {
				g.Expect(waiting.RetryAfter).To(Equal(deletionInterval), "no watch reports changes of the workload cluster")
			}
		})
	}
}

func TestDeletionStep(t *testing.T) {
	released := newWorkspace(nil)
	released.DeletionTimestamp, released.Finalizers = new(metav1.NewTime(noon)), []string{"other"}
	held := newWorkspace(nil)
	held.DeletionTimestamp = new(metav1.NewTime(noon))
	skip := func(value string) func(*controlplanev1.CAPTControlPlane) {
		return func(c *controlplanev1.CAPTControlPlane) {
			c.Annotations = map[string]string{controlplanev1.SkipDeletionChecksAnnotation: value}
		}
	}
	waiting := func(status metav1.ConditionStatus, since time.Duration) func(*controlplanev1.CAPTControlPlane) {
		return func(c *controlplanev1.CAPTControlPlane) {
			conditions.Set(c, metav1.Condition{Type: controlplanev1.NodesGoneCondition, Status: status, Reason: "R", LastTransitionTime: metav1.NewTime(noon.Add(-since))})
		}
	}
	timeout := func(c *controlplanev1.CAPTControlPlane) {
		c.Spec.ControlPlaneConfig = &controlplanev1.ControlPlaneConfig{Timeouts: &controlplanev1.ControlPlaneTimeouts{DeletionStep: &metav1.Duration{Duration: time.Minute}}}
	}
	deleting, overdue := "wait "+infrav1.DeletingReason, "wait "+controlplanev1.DeadlineExceededReason
	for name, c := range map[string]struct {
		apply   *infrav1.WorkspaceTemplateApply
		changes []func(*controlplanev1.CAPTControlPlane)
		err     error
		want    string
		skipped bool
	}{
		"held":                     {apply: newWorkspace(nil), want: deleting},
		"no workspace":             {skipped: true},
		"being destroyed":          {apply: released, skipped: true},
		"deleted but held":         {apply: held, want: deleting},
		"skipped":                  {apply: held, changes: []func(*controlplanev1.CAPTControlPlane){skip("machines, nodes")}, skipped: true},
		"another one skipped":      {apply: held, changes: []func(*controlplanev1.CAPTControlPlane){skip("load-balancers")}, want: deleting},
		"waiting for long":         {apply: held, changes: []func(*controlplanev1.CAPTControlPlane){waiting(metav1.ConditionFalse, 16*time.Minute)}, want: overdue},
		"waiting":                  {apply: held, changes: []func(*controlplanev1.CAPTControlPlane){waiting(metav1.ConditionFalse, 14*time.Minute)}, want: deleting},
		"complete for long":        {apply: held, changes: []func(*controlplanev1.CAPTControlPlane){waiting(metav1.ConditionTrue, 16*time.Minute)}, want: deleting},
		"unknown for long":         {apply: held, changes: []func(*controlplanev1.CAPTControlPlane){waiting(metav1.ConditionUnknown, 16*time.Minute)}, want: deleting},
		"a shorter timeout":        {apply: held, changes: []func(*controlplanev1.CAPTControlPlane){timeout, waiting(metav1.ConditionFalse, 2*time.Minute)}, want: overdue},
		"unreachable":              {apply: held, err: unreachableError{errors.New("refused")}, want: "wait " + controlplanev1.APIServerUnreachableReason},
		"an error of this cluster": {apply: held, err: errors.New("refused"), want: "error"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s := newScope(c.changes...)
			s.apply = c.apply
			called := false
			err := s.deletionStep(skipNodes, controlplanev1.NodesGoneCondition, func() ([]string, error) {
				called = true
				if c.err != nil {
					return nil, c.err
				}
				return []string{"NodePool default"}, nil
			})
			g.Expect(result(err)).To(Equal(c.want), "%v", err)
			g.Expect(called).To(Equal(!c.skipped))
		})
	}
}

// Nothing is applied during a deletion, also no other network of the endpoint.
func TestUnreachable_namesTheCommandThatAdmitsAnAddress(t *testing.T) {
	const command = ". If its endpoint no longer admits the address of CAPT, run: aws eks update-cluster-config --region eu-west-1 --name in-eks --resources-vpc-config "
	timeout := fmt.Errorf("listing nodes: %w", context.DeadlineExceeded)
	for name, c := range map[string]struct {
		source controlplanev1.KubeconfigSource
		err    error
		named  bool
	}{
		"timeout":          {source: controlplanev1.KubeconfigSourceEKS, err: timeout, named: true},
		"refused":          {source: controlplanev1.KubeconfigSourceEKS, err: errors.New("connection refused")},
		"of another cloud": {source: controlplanev1.KubeconfigSourceOutput, err: timeout},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s := newScope(func(p *controlplanev1.CAPTControlPlane) {
				p.Spec.Kubeconfig = &controlplanev1.KubeconfigConfig{Source: c.source}
				p.Spec.ControlPlaneConfig = &controlplanev1.ControlPlaneConfig{Region: "eu-west-1"}
			})
			s.apply = newWorkspace(map[string]string{"cluster_name": `"in-eks"`})
			err := s.unreachable(c.err)
			_, reason, unreachable := isUnreachable(err)
			g.Expect(unreachable).To(BeTrue())
			g.Expect(reason).To(Equal(controlplanev1.APIServerUnreachableReason))
			g.Expect(strings.Contains(err.Error(), command)).To(Equal(c.named), "%v", err)
		})
	}
}

func TestDeletionTimeout_hasADefault(t *testing.T) {
	g := NewWithT(t)
	g.Expect(newScope().deletionTimeout()).To(Equal(defaultDeletionTimeout))
	for _, config := range []*controlplanev1.ControlPlaneConfig{{}, {Timeouts: &controlplanev1.ControlPlaneTimeouts{}}} {
		s := newScope(func(c *controlplanev1.CAPTControlPlane) { c.Spec.ControlPlaneConfig = config })
		g.Expect(s.deletionTimeout()).To(Equal(defaultDeletionTimeout))
	}
}

func TestEndpoint(t *testing.T) {
	at := func(host string, port int32) clusterv1.APIEndpoint {
		return clusterv1.APIEndpoint{Host: host, Port: port}
	}
	for name, c := range map[string]struct {
		apply     *infrav1.WorkspaceTemplateApply
		published clusterv1.APIEndpoint
		want      string
		endpoint  clusterv1.APIEndpoint
	}{
		"no workspace":   {want: "wait " + controlplanev1.WaitingForOutputsReason},
		"no outputs":     {apply: newWorkspace(nil), want: "wait " + controlplanev1.WaitingForOutputsReason},
		"published":      {apply: newWorkspace(map[string]string{"cluster_endpoint": `"https://a"`}), endpoint: at("a", 443)},
		"the same again": {apply: newWorkspace(map[string]string{"cluster_endpoint": `"https://a"`}), published: at("a", 443), endpoint: at("a", 443)},
		"changed":        {apply: newWorkspace(map[string]string{"cluster_endpoint": `"https://b"`}), published: at("a", 443), want: "stall " + controlplanev1.EndpointChangedReason, endpoint: at("a", 443)},
		"missing":        {apply: newWorkspace(map[string]string{"cluster_name": `"x"`}), want: "stall " + controlplanev1.MissingOutputReason},
		"invalid":        {apply: newWorkspace(map[string]string{"cluster_endpoint": `"https://a:0"`}), want: "stall " + controlplanev1.MissingOutputReason},
		"no text":        {apply: newWorkspace(map[string]string{"cluster_endpoint": `["a"]`}), want: "error"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s := newScope(func(cp *controlplanev1.CAPTControlPlane) { cp.Spec.ControlPlaneEndpoint = c.published })
			s.apply = c.apply
			g.Expect(result(endpoint(t.Context(), s))).To(Equal(c.want))
			g.Expect(s.controlPlane.Spec.ControlPlaneEndpoint).To(Equal(c.endpoint))
		})
	}
	s := newScope(func(cp *controlplanev1.CAPTControlPlane) { cp.Spec.ControlPlaneEndpoint = at("2001:db8::1", 6443) })
	NewWithT(t).Expect(endpointMessage(s)).To(Equal("[2001:db8::1]:6443"))
}

func TestUpgradeOutcome(t *testing.T) {
	minor := func(m int) kubeversion.Minor { return kubeversion.Minor{Major: 1, Minor: m} }
	running := fault.Wait("Running", "3 of 9")
	for name, c := range map[string]struct {
		outcome      error
		served       string
		next, target int
		want         string
		text         string
	}{
		"not available yet":         {running, "", 33, 33, "wait Running", "3 of 9"},
		"at the target":             {nil, "v1.33.4", 33, 33, "", ""},
		"changed at the target":     {running, "v1.33.4", 33, 33, "wait Running", "3 of 9"},
		"last step runs":            {running, "v1.32.4", 33, 33, "wait " + controlplanev1.UpgradingReason, "Upgrading from 1.32 to 1.33: 3 of 9"},
		"first step runs":           {running, "v1.31.4", 32, 33, "wait " + controlplanev1.UpgradingReason, "Upgrading from 1.31 to 1.32 on the way to 1.33: 3 of 9"},
		"applied, not served yet":   {nil, "v1.32.4", 33, 33, "wait " + controlplanev1.UpgradingReason, "Upgrading from 1.32 to 1.33"},
		"failed":                    {fault.Stall("Failed", "denied"), "v1.32.4", 33, 33, "stall Failed", "denied"},
		"failed with another error": {errors.New("boom"), "v1.33.4", 33, 33, "error", "boom"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			err := upgradeOutcome(c.outcome, c.served, desired.Version{Next: minor(c.next), Target: minor(c.target)})
			g.Expect(result(err)).To(Equal(c.want))
			if c.text != "" {
				g.Expect(err).To(MatchError(HaveSuffix(c.text)))
			}
		})
	}
}

func TestRecordVersion_initializesOnceTheEndpointIsPublished(t *testing.T) {
	g := NewWithT(t)
	s := newScope()
	s.recordVersion(&apiversion.Info{Major: "1", Minor: "33", GitVersion: "v1.33.5-eks-1"})
	g.Expect(s.controlPlane.Status.Version).To(Equal("v1.33.5"))
	g.Expect(s.controlPlane.Status.Versions).To(Equal([]clusterv1.StatusVersion{{Version: "v1.33.5"}}))
	g.Expect(isInitialized(s)).To(BeFalse())

	s.endpointPublished = true
	s.recordVersion(&apiversion.Info{Major: "1", Minor: "33", GitVersion: "v1.33.5-eks-1"})
	g.Expect(isInitialized(s)).To(BeTrue())

	s.controlPlane.Status.Initialization.ControlPlaneInitialized = new(false)
	g.Expect(isInitialized(s)).To(BeFalse())
}

func TestNewTokenVersion_renewsBeforeExpiry(t *testing.T) {
	for name, c := range map[string]struct{ expires, lifetime, want time.Duration }{
		"after the lifetime":                   {14 * time.Minute, 5 * time.Minute, 5 * time.Minute},
		"credentials that expire soon":         {3 * time.Minute, 10 * time.Minute, 2 * time.Minute},
		"two thirds of the time until expiry":  {15 * time.Minute, 10 * time.Minute, 10 * time.Minute},
		"a lifetime that exceeds the token's":  {12 * time.Minute, time.Hour, 8 * time.Minute},
		"credentials that have expired before": {-3 * time.Minute, 10 * time.Minute, -2 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			version := newTokenVersion("x", noon, noon.Add(c.expires), c.lifetime)
			g.Expect(version).To(Equal(kubeconfigVersion{inputs: "x", renewedAt: noon, renewAt: noon.Add(c.want), expiresAt: noon.Add(c.expires)}))
		})
	}
}

func TestKubeconfigVersion_isOutdated(t *testing.T) {
	version := kubeconfigVersion{inputs: "x", renewAt: noon}
	for name, c := range map[string]struct {
		version kubeconfigVersion
		inputs  string
		now     time.Time
		want    bool
	}{
		"recent":       {version, "x", noon.Add(-1), false},
		"due":          {version, "x", noon, true},
		"overdue":      {version, "x", noon.Add(1), true},
		"other inputs": {version, "y", noon.Add(-1), true},
		"no time":      {kubeconfigVersion{inputs: "x"}, "x", noon, true},
	} {
		NewWithT(t).Expect(c.version.isOutdated(c.inputs, c.now)).To(Equal(c.want), name)
	}
}

func TestKubeconfigVersion_survivesInAnnotations(t *testing.T) {
	g := NewWithT(t)
	for _, version := range []kubeconfigVersion{
		{inputs: "x", renewedAt: noon, renewAt: noon.Add(time.Minute), expiresAt: noon.Add(time.Hour)},
		{inputs: "x", renewedAt: noon},
	} {
		s := newScope().newSecret(workload.UserKubeconfig, nil)
		version.annotate(s)
		g.Expect(versionOf(s)).To(Equal(version))
		g.Expect(s.Annotations).To(HaveLen(2 + len(map[bool][]int{true: nil, false: {1, 2}}[version.renewAt.IsZero()])))
	}
	broken := newScope().newSecret(workload.UserKubeconfig, nil)
	broken.Annotations = map[string]string{inputsAnnotation: "x", renewAtAnnotation: "soon"}
	g.Expect(versionOf(broken)).To(Equal(kubeconfigVersion{inputs: "x"}))
	g.Expect(versionOf(nil)).To(Equal(kubeconfigVersion{}))
}

func TestRenewsIn(t *testing.T) {
	g := NewWithT(t)
	s := newScope()
	g.Expect(renewsIn(s)).To(BeZero())
	s.renewAt = noon.Add(time.Minute)
	g.Expect(renewsIn(s)).To(Equal(time.Minute))
}

func TestTokenLifetime(t *testing.T) {
	g := NewWithT(t)
	g.Expect(newScope().tokenLifetime()).To(Equal(defaultTokenLifetime))
	s := newScope(func(c *controlplanev1.CAPTControlPlane) {
		c.Spec.Kubeconfig = &controlplanev1.KubeconfigConfig{TokenLifetime: &metav1.Duration{Duration: time.Minute}}
	})
	g.Expect(s.tokenLifetime()).To(Equal(time.Minute))
}

func TestTokenCluster(t *testing.T) {
	g := NewWithT(t)
	s := newScope()
	s.apply = newWorkspace(map[string]string{"cluster_endpoint": `"https://a"`, "cluster_certificate_authority_data": `"Q0E="`})
	cluster, err := s.tokenCluster()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(cluster.Name).To(Equal("production"), "the name of the Cluster is the default")
	g.Expect(cluster.Endpoint).To(Equal("https://a"))

	s.apply = newWorkspace(map[string]string{"cluster_name": `"prod-eu"`, "cluster_certificate_authority_data": `"Q0E="`})
	cluster, err = s.tokenCluster()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(cluster.Name).To(Equal("prod-eu"))

	s.apply = newWorkspace(map[string]string{"cluster_name": `"prod-eu"`})
	_, err = s.tokenCluster()
	g.Expect(result(err)).To(Equal("stall " + controlplanev1.MissingOutputReason))

	s.apply = newWorkspace(map[string]string{"cluster_certificate_authority_data": `[]`})
	_, err = s.tokenCluster()
	g.Expect(result(err)).To(Equal("error"))
}

func TestFingerprint_separatesItsParts(t *testing.T) {
	g := NewWithT(t)
	g.Expect(fingerprint("a", "b")).To(Equal(fingerprint("a", "b")))
	g.Expect(fingerprint("a", "b")).NotTo(Equal(fingerprint("ab", "")))
	g.Expect(fingerprint("a", "b")).NotTo(Equal(fingerprint("b", "a")))
}

func TestWantsSpotRole(t *testing.T) {
	for name, c := range map[string]struct {
		mode   controlplanev1.SpotRolePolicy
		source controlplanev1.KubeconfigSource
		want   bool
	}{
		"EKS by default":        {"", controlplanev1.KubeconfigSourceEKS, true},
		"not others by default": {"", controlplanev1.KubeconfigSourceOutput, false},
		"others on request":     {controlplanev1.SpotRoleEnsure, controlplanev1.KubeconfigSourceOutput, true},
		"not EKS on request":    {controlplanev1.SpotRoleSkip, controlplanev1.KubeconfigSourceEKS, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s := newScope(func(cp *controlplanev1.CAPTControlPlane) {
				cp.Spec.SpotServiceLinkedRole = c.mode
				cp.Spec.Kubeconfig = &controlplanev1.KubeconfigConfig{Source: c.source}
			})
			g.Expect(s.wantsSpotRole()).To(Equal(c.want))
			g.Expect(spotRoleReason(s) == controlplanev1.SpotRoleSkippedReason).To(Equal(!c.want))
		})
	}
}

func TestMustDelete(t *testing.T) {
	owner := func(uid string, controller bool) metav1.OwnerReference {
		return metav1.OwnerReference{APIVersion: "v1", Kind: "X", Name: "x", UID: types.UID(uid), Controller: &controller}
	}
	for name, c := range map[string]struct {
		owners   []metav1.OwnerReference
		deleting bool
		want     bool
	}{
		"without an owner":       {nil, false, true},
		"of the control plane":   {[]metav1.OwnerReference{owner("1", true)}, false, true},
		"of another object":      {[]metav1.OwnerReference{owner("2", true)}, false, false},
		"not controlled":         {[]metav1.OwnerReference{owner("2", false)}, false, true},
		"being deleted":          {nil, true, false},
		"being deleted as owned": {[]metav1.OwnerReference{owner("1", true)}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			machine := &infrav1.CAPTMachine{ObjectMeta: metav1.ObjectMeta{OwnerReferences: c.owners}}
			if c.deleting {
				machine.DeletionTimestamp = new(metav1.NewTime(noon))
			}
			NewWithT(t).Expect(newScope().mustDelete(machine)).To(Equal(c.want))
		})
	}
}

func TestInstalledAddons(t *testing.T) {
	addon := func(name string, clusters ...addonsv1.ClusterAddonStatus) addonsv1.CAPTAddon {
		return addonsv1.CAPTAddon{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: addonsv1.CAPTAddonStatus{Clusters: clusters}}
	}
	got := installedAddons([]addonsv1.CAPTAddon{
		addon("flux", addonsv1.ClusterAddonStatus{Name: "staging"}, addonsv1.ClusterAddonStatus{Name: "production"}),
		addon("karpenter", addonsv1.ClusterAddonStatus{Name: "production", Message: "Waiting for nodes"}),
		addon("other", addonsv1.ClusterAddonStatus{Name: "staging"}),
		addon("none"),
	}, "production")
	NewWithT(t).Expect(got).To(Equal([]string{"CAPTAddon flux", "CAPTAddon karpenter (Waiting for nodes)"}))
}

func TestWithContent_keepsWhatOthersSet(t *testing.T) {
	g := NewWithT(t)
	s := newScope()
	wanted := s.newSecret(workload.UserKubeconfig, []byte("new"))
	found := wanted.DeepCopy()
	g.Expect(withContent(found, wanted)).To(Equal(found), "a Secret without annotations is not written again")

	found.Labels, found.Annotations = map[string]string{"team": "blue"}, map[string]string{"note": "x"}
	found.Data = map[string][]byte{"value": []byte("old"), "other": nil}
	kubeconfigVersion{inputs: "x"}.annotate(wanted)
	changed := withContent(found, wanted)
	g.Expect(changed.Data).To(Equal(wanted.Data))
	g.Expect(changed.Labels).To(And(HaveKeyWithValue("team", "blue"), HaveKeyWithValue(clusterv1.ClusterNameLabel, "production")))
	g.Expect(changed.Annotations).To(Equal(map[string]string{"note": "x", inputsAnnotation: "x"}))

	found.Labels, found.Annotations = nil, nil
	changed = withContent(found, wanted)
	g.Expect(changed.Labels).To(Equal(wanted.Labels))
	g.Expect(changed.Annotations).To(Equal(wanted.Annotations))
}

func TestRecordWorkspace(t *testing.T) {
	g := NewWithT(t)
	s := newScope()
	s.recordWorkspace()
	g.Expect(s.controlPlane.Status.WorkspaceRef).To(BeNil())
	s.apply = newWorkspace(nil)
	s.recordWorkspace()
	g.Expect(s.controlPlane.Status.WorkspaceRef).To(HaveField("Name", "production"))
	g.Expect(s.controlPlane.Status.ConnectionSecretName).To(Equal("production-eks-connection"))
	g.Expect(workspaceMessage(s)).To(Equal("WorkspaceTemplateApply production is applied"))
}

package webhooks

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/kubernetes/kubeversion"
)

func clusterWith(variables ...string) *infrav1.CAPTCluster {
	c := &infrav1.CAPTCluster{Spec: infrav1.CAPTClusterSpec{Variables: map[string]infrav1.Value{}}}
	for _, name := range variables {
		c.Spec.Variables[name] = infrav1.StringValue("x")
	}
	return c
}

func TestValidator_keepsOldObjectsEditable(t *testing.T) {
	g := NewWithT(t)
	ctx := context.Background()
	v := &validator[*infrav1.CAPTCluster]{rules: captClusterRules}

	g.Expect(v.ValidateCreate(ctx, clusterWith("count"))).Error().To(MatchError(ContainSubstring("spec.variables[count]")))
	g.Expect(v.ValidateUpdate(ctx, clusterWith("count"), clusterWith("count", "fine"))).Error().NotTo(HaveOccurred(), "existing violations are allowed")
	g.Expect(v.ValidateUpdate(ctx, clusterWith("count"), clusterWith("count", "version"))).Error().To(MatchError(And(ContainSubstring("version"), Not(ContainSubstring("count")))))
}

// The API server sends any number of objects at once, and one may need much memory.
func TestValidator_checksFewObjectsAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		// Only a channel of the test lets its clock advance.
		outside := checking
		checking = make(chan struct{}, cap(outside))
		defer func() { checking = outside }()
		v := &validator[*infrav1.CAPTCluster]{rules: rules[*infrav1.CAPTCluster]{object: func(*infrav1.CAPTCluster) field.ErrorList {
			time.Sleep(time.Second)
			return nil
		}}}
		began := time.Now()
		var all sync.WaitGroup
		for range 3 * cap(checking) {
			all.Go(func() { _, _ = v.ValidateCreate(t.Context(), clusterWith()) })
		}
		all.Wait()
		g.Expect(time.Since(began)).To(Equal(3 * time.Second))
	})
}

// Requests that the API server has given up do not keep later ones waiting.
func TestValidator_leavesTheQueueWithItsRequest(t *testing.T) {
	g := NewWithT(t)
	outside := checking
	checking = make(chan struct{})
	defer func() { checking = outside }()
	v := &validator[*infrav1.CAPTCluster]{rules: captClusterRules}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := v.ValidateCreate(ctx, clusterWith())
	g.Expect(err).To(MatchError(ContainSubstring("try again")))
}

// A policy that nothing enforces can be labelled and deleted, but neither created nor changed.
func TestClusterPolicy_thatNothingEnforcesCannotBeChanged(t *testing.T) {
	g := NewWithT(t)
	v := &validator[*infrav1.ClusterWorkspacePolicy]{rules: refusedClusterPolicyRules}
	before := &infrav1.ClusterWorkspacePolicy{Spec: infrav1.ClusterWorkspacePolicySpec{Rules: []infrav1.PolicyRule{{Name: "a", Expression: "true"}}}}
	g.Expect(v.ValidateCreate(t.Context(), before)).Error().To(MatchError(ContainSubstring("--cluster-policies=false")))
	after := before.DeepCopy()
	after.Labels = map[string]string{"a": "b"}
	g.Expect(v.ValidateUpdate(t.Context(), before, after)).Error().NotTo(HaveOccurred())
	after.Spec.Rules[0].Expression = "does not compile("
	g.Expect(v.ValidateUpdate(t.Context(), before, after)).Error().To(MatchError(ContainSubstring("--cluster-policies=false")))
	after.DeletionTimestamp = &metav1.Time{}
	after.DeletionTimestamp.Time = time.Now()
	g.Expect(v.ValidateUpdate(t.Context(), before, after)).Error().NotTo(HaveOccurred())
	g.Expect(v.ValidateDelete(t.Context(), before)).Error().NotTo(HaveOccurred())
}

func TestValidator_neverBlocksDeletion(t *testing.T) {
	g := NewWithT(t)
	v := &validator[*infrav1.CAPTCluster]{rules: captClusterRules}
	deleting := clusterWith("count")
	deleting.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}

	g.Expect(v.ValidateUpdate(context.Background(), clusterWith(), deleting)).Error().NotTo(HaveOccurred(), "finalizers must be removable")
	g.Expect(v.ValidateDelete(context.Background(), deleting)).Error().NotTo(HaveOccurred())
}

// An update that does not change the version, such as one of a controller, repeats
// no warning.
func TestControlPlane_warnsOfVersionsInExtendedSupport(t *testing.T) {
	g := NewWithT(t)
	november := time.Date(2026, time.November, 16, 0, 0, 0, 0, time.UTC)
	controlPlane := func(version string) *controlplanev1.CAPTControlPlane {
		return &controlplanev1.CAPTControlPlane{Spec: controlplanev1.CAPTControlPlaneSpec{Version: version}}
	}
	warns := ConsistOf(And(HavePrefix("spec.version: "), ContainSubstring("until 2027-07-29")))
	old := controlPlane("v1.33.0")

	g.Expect(captControlPlaneRules.warnings(nil, old, november)).To(warns)
	g.Expect(captControlPlaneRules.warnings(nil, controlPlane(kubeversion.EKSDefault), november)).To(BeEmpty())
	g.Expect(captControlPlaneRules.warnings(&old, controlPlane("v1.33.4"), november)).To(BeEmpty())
	older := controlPlane("v1.32.0")
	g.Expect(captControlPlaneRules.warnings(&older, old, november)).To(warns)
	local := controlPlane("v1.33.0")
	local.Spec.Kubeconfig = &controlplanev1.KubeconfigConfig{Source: controlplanev1.KubeconfigSourceOutput}
	g.Expect(captControlPlaneRules.warnings(nil, local, november)).To(BeEmpty(), "it is not EKS")
	g.Expect(captClusterRules.warnings(nil, clusterWith(), november)).To(BeEmpty())
}

func TestAllowUndecodable_allowsOnlyDecodeErrors(t *testing.T) {
	tests := map[string]struct {
		response admission.Response
		allowed  bool
	}{
		"allowed":         {admission.Allowed(""), true},
		"denied":          {admission.Denied("no"), false},
		"does not decode": {admission.Errored(http.StatusBadRequest, context.Canceled), true},
		"broken":          {admission.Errored(http.StatusInternalServerError, context.Canceled), false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			h := allowUndecodable(admission.HandlerFunc(func(context.Context, admission.Request) admission.Response { return tt.response }))
			NewWithT(t).Expect(h.Handle(context.Background(), admission.Request{}).Allowed).To(Equal(tt.allowed))
		})
	}
}

func TestInvalid_quotesOneShortLine(t *testing.T) {
	g := NewWithT(t)
	g.Expect(invalid(nil, "short", "").BadValue).To(Equal("short"))
	g.Expect(invalid(nil, "  first\nsecond", "").BadValue).To(Equal("first…"))
	g.Expect(invalid(nil, strings.Repeat("x", 80), "").BadValue).To(HaveLen(80))
	g.Expect(invalid(nil, strings.Repeat("x", 80)+"\nsecond", "").BadValue).To(HaveSuffix("x…"))
	long := invalid(nil, string(make([]rune, 500)), "").BadValue.(string)
	g.Expect([]rune(long)).To(HaveLen(80))
}

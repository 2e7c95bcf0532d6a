package migrate

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"testing"

	. "github.com/onsi/gomega"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	addonrender "github.com/appthrust/capt/internal/addon/render"
)

func plan(destroy int32, changes ...string) *infrav1.PlanStatus {
	p := &infrav1.PlanStatus{ID: "plan-1", Destroy: destroy}
	for i := 0; i < len(changes); i += 2 {
		p.Changes = append(p.Changes, infrav1.ResourceChange{Action: changes[i], Address: changes[i+1]})
	}
	return p
}

const release = `module.karpenter.helm_release.karpenter["main"]`

func TestCheckForget_passesOnlyAPlanThatForgetsTheRelease(t *testing.T) {
	for name, c := range map[string]struct {
		plan *infrav1.PlanStatus
		says string
	}{
		"forgets":                    {plan(0, "forget", release, "update", "aws_eks_cluster.this", "move", "module.karpenter_iam.aws_iam_role.a"), ""},
		"forgets a root release":     {plan(0, "forget", "helm_release.karpenter"), ""},
		"destroys the release":       {plan(1, "delete", release), "would delete"},
		"replaces something else":    {plan(1, "forget", release, "replace", "aws_eks_cluster.this"), "would replace aws_eks_cluster.this"},
		"destroys what is not shown": {plan(2, "forget", release), "would destroy 2"},
		"forgets something else":     {plan(0, "forget", release, "forget", "aws_vpc.this"), "which is no release"},
		"changes the release":        {plan(0, "update", release), "instead of forgetting"},
		"forgets nothing":            {plan(0, "update", "aws_eks_cluster.this"), "forgets no helm_release"},
		"is not shown whole":         {&infrav1.PlanStatus{ID: "plan-1", OmittedChanges: 3}, "3 changes that are not listed"},
	} {
		t.Run(name, func(t *testing.T) { expect(t, checkForget(c.plan), c.says) })
	}
}

func TestCheckImport_refusesToInstallAnew(t *testing.T) {
	for name, c := range map[string]struct {
		plan *infrav1.PlanStatus
		says string
	}{
		"imports":               {plan(0, "import", release), ""},
		"imports and changes":   {plan(0, "update", release), ""},
		"nothing":               {plan(0), ""},
		"installs":              {plan(0, "create", release), "instead of importing"},
		"destroys":              {plan(1, "delete", "aws_vpc.this"), "would delete"},
		"forgets something":     {plan(0, "forget", "aws_vpc.this"), "would forget"},
		"replaces the release":  {plan(1, "replace", release), "would replace"},
		"creates what it lacks": {plan(0, "import", release, "create", "aws_sqs_queue.this"), ""},
	} {
		t.Run(name, func(t *testing.T) { expect(t, checkImport(c.plan), c.says) })
	}
}

func TestCheckTakeOver_letsTheReleaseBeMade(t *testing.T) {
	expect(t, checkTakeOver(plan(0, "create", release)), "")
	expect(t, checkTakeOver(plan(0, "forget", release)), "would forget")
	expect(t, checkTakeOver(plan(1, "create", release, "delete", "module.karpenter_iam.aws_iam_role.a")), "would delete")
}

func expect(t *testing.T, err error, says string) {
	t.Helper()
	g := NewWithT(t)
	if says == "" {
		g.Expect(err).NotTo(HaveOccurred())
		return
	}
	g.Expect(err).To(MatchError(ContainSubstring(says)))
}

func TestDifferences_namesKeysAndNoValues(t *testing.T) {
	g := NewWithT(t)
	own := map[string]any{"replicas": 2, "settings": map[string]any{"clusterName": "", "batch": "10s"}, "labels": map[string]any{}}
	runs := map[string]any{
		"settings":       map[string]any{"clusterName": "demo"},
		"serviceAccount": map[string]any{"annotations": map[string]any{"eks.amazonaws.com/role-arn": "secret"}},
	}
	same := map[string]any{
		"replicas": float64(2), "settings": map[string]any{"batch": "10s", "clusterName": "demo"},
		"serviceAccount": map[string]any{"annotations": map[string]any{"eks.amazonaws.com/role-arn": "secret"}},
	}
	g.Expect(differences(overlay(own, runs), overlay(own, same))).To(BeEmpty(), "a default that is written out is no difference")
	other := map[string]any{"settings": map[string]any{"clusterName": nil}, "replicas": 3}
	g.Expect(differences(overlay(own, runs), overlay(own, other))).To(Equal([]string{
		"replicas", `serviceAccount.annotations.eks\.amazonaws\.com/role-arn`, "settings.clusterName",
	}))
}

func TestFluxValues_areThoseThatTheReleaseGets(t *testing.T) {
	g := NewWithT(t)
	addon := &addonsv1.CAPTAddon{}
	addon.Name = "karpenter"
	addon.Spec.Helm = &addonsv1.HelmRelease{
		Namespace: "karpenter", Chart: addonsv1.ChartSource{Repository: "oci://charts", Name: "karpenter", Version: "1.14.1"},
		Values: &infrav1.Value{Raw: []byte(`{"replicas":1,"settings":{"clusterName":"${CLUSTER_NAME}"}}`)},
		ValuesFrom: []addonsv1.OutputValue{
			{ValuesKey: "endpoint", TargetPath: "settings.clusterEndpoint", Mode: "Literal"},
			{ValuesKey: "on", TargetPath: `flags[1].a\.b`, Mode: "Parsed"},
		},
	}
	rendered, err := addonrender.Render(addonrender.Input{
		Addon: addon, Cluster: addonrender.Cluster{Name: "demo", Namespace: "default"},
		Connection: map[string][]byte{"endpoint": []byte("a,b"), "on": []byte("true")},
	})
	g.Expect(err).NotTo(HaveOccurred())
	values, err := fluxValues(rendered)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(normal(values)).To(Equal(map[string]any{
		"replicas": float64(1), "settings": map[string]any{"clusterName": "demo", "clusterEndpoint": "a,b"},
		"flags": []any{nil, map[string]any{"a.b": true}},
	}))
}

func TestDecodeRelease_readsWhatHelmKeeps(t *testing.T) {
	g := NewWithT(t)
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, err := w.Write([]byte(`{"name":"karpenter","namespace":"karpenter","version":3,"info":{"status":"deployed"},"chart":{"metadata":{"name":"karpenter","version":"1.14.1"},"values":{"a":1}},"config":{"a":2}}`))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(w.Close()).To(Succeed())
	found, err := decodeRelease([]byte(base64.StdEncoding.EncodeToString(packed.Bytes())))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(found.Revision).To(Equal(3))
	g.Expect(found.Chart.Metadata.Version).To(Equal("1.14.1"))
	_, err = decodeRelease([]byte("not a release: token"))
	g.Expect(err).To(MatchError(Not(ContainSubstring("token"))))
}

func TestClassOf_findsTheVariableThatSetsTheTemplate(t *testing.T) {
	g := NewWithT(t)
	c := &clusterv1.ClusterClass{}
	c.Name = "eks"
	c.Spec.ControlPlane.TemplateRef.Name = "eks"
	g.Expect(classOf(c).variable).To(BeEmpty())
	g.Expect(classOf(c).advice("v2")).To(And(ContainSubstring("ClusterClass eks"), ContainSubstring(templatePath)))
	c.Spec.Patches = []clusterv1.ClusterClassPatch{{Definitions: []clusterv1.PatchDefinition{{
		Selector:    clusterv1.PatchSelector{Kind: "CAPTControlPlaneTemplate"},
		JSONPatches: []clusterv1.JSONPatch{{Op: "replace", Path: templatePath, ValueFrom: &clusterv1.JSONPatchValue{Variable: "template"}}},
	}}}}
	g.Expect(classOf(c).variable).To(Equal("template"))
}

package captcontrolplane

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/grant"
)

// lent are a template and a provider config of the namespace platform that are lent to the
// namespace team.
func lent(name string) []client.Object {
	template := newTemplate()
	template.Namespace, template.Name = "platform", name
	template.Spec.Template.Spec.ProviderConfigRef = &infrav1.LocalReference{Name: name}
	config := &infrav1.WorkspaceProviderConfig{ObjectMeta: metav1.ObjectMeta{Namespace: "platform", Name: name}}
	config.Spec.Credentials = []infrav1.ProviderCredential{{Env: "AWS_ACCESS_KEY_ID", SecretRef: infrav1.KeyReference{Name: name, Key: "id"}}}
	return []client.Object{
		template, config,
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "platform", Name: name}, Data: map[string][]byte{"id": []byte("key-of-" + name)}},
		&infrav1.CAPTReferenceGrant{ObjectMeta: metav1.ObjectMeta{Namespace: "platform", Name: name}, Spec: infrav1.CAPTReferenceGrantSpec{
			From: []infrav1.ReferenceGrantFrom{{Namespaces: []string{"team"}}},
			To:   []infrav1.ReferenceGrantTo{{Kind: infrav1.GrantedWorkspaceTemplate}, {Kind: infrav1.GrantedWorkspaceProviderConfig}},
		}},
	}
}

var victim = map[string]string{
	"cluster_name": `"victim"`, "cluster_endpoint": `"https://victim"`, "cluster_certificate_authority_data": ca,
}

// borrowing returns a control plane that uses the lent template eks, and whose workspace has
// outputs.
func borrowing(t *testing.T, outputs map[string]string, objects ...client.Object) (*Reconciler, *fakeCloud, *scope) {
	t.Helper()
	r := reconciler(t, append(append(lent("eks"), lent("other")...), objects...)...)
	r.Workspaces.Grants = &grant.Checker{Client: r.Client, Live: r.Client}
	cloud := &fakeCloud{}
	r.Cloud = cloud
	s := newScope(func(c *controlplanev1.CAPTControlPlane) { c.Spec.WorkspaceTemplateRef.Namespace = "platform" })
	s.cluster, s.infra, s.apply = newCluster(), newInfra(), newWorkspace(outputs)
	return r, cloud, s
}

// hostOf returns the workspace of the namespace platform that runs for team/production, with
// the outputs of a run that used a lent provider config.
func hostOf(outputs map[string]string, config string) *infrav1.WorkspaceTemplateApply {
	host := newWorkspace(outputs)
	host.Namespace, host.Name = "platform", "team.production"
	host.Annotations = map[string]string{infrav1.HostedForAnnotation: "team/production"}
	ref := infrav1.ObjectReference{Namespace: "platform", Name: config}
	host.Status.OutputsSource = &infrav1.OutputsSource{TemplateRef: ref, ProviderConfigRef: &ref}
	return host
}

func hosted(s *scope) {
	s.apply.Status.Host = &infrav1.ObjectReference{Namespace: "platform", Name: "team.production"}
}

// A team that writes its own templates writes its own outputs. It must not get a token for
// the cluster that they name, nor delete what that cluster owns, by a switch to a lent
// template.
func TestLentCredentials_areNotUsedForOutputsOfOthers(t *testing.T) {
	for name, c := range map[string]struct {
		host   *infrav1.WorkspaceTemplateApply
		change func(*scope)
	}{
		"runs of its own":                         {nil, func(*scope) {}},
		"a host that does not exist":              {nil, hosted},
		"the host of another workspace":           {otherGuest(), hosted},
		"a host without the outputs":              {hostOf(nil, "eks"), hosted},
		"a host with other outputs":               {hostOf(map[string]string{"cluster_name": `"mine"`}, "eks"), hosted},
		"a host whose run used another namespace": {foreignSource(), hosted},
		"a host in another namespace": {hostOf(victim, "eks"), func(s *scope) {
			s.apply.Status.Host = &infrav1.ObjectReference{Namespace: "team", Name: "team.production"}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			var objects []client.Object
			if c.host != nil {
				objects = append(objects, c.host)
			}
			r, cloud, s := borrowing(t, victim, objects...)
			c.change(s)
			g.Expect(result(r.kubeconfig(t.Context(), s))).To(HavePrefix("wait "))
			g.Expect(cloud.tokens).To(BeZero())
			g.Expect(r.deleteLeftovers(t.Context(), s)).NotTo(Succeed())
			r.sweepInterfaces(t.Context(), s)
			g.Expect(cloud.queries).To(BeEmpty())
		})
	}
}

func otherGuest() *infrav1.WorkspaceTemplateApply {
	host := hostOf(victim, "eks")
	host.Annotations[infrav1.HostedForAnnotation] = "other/production"
	return host
}

func foreignSource() *infrav1.WorkspaceTemplateApply {
	host := hostOf(victim, "eks")
	host.Status.OutputsSource.ProviderConfigRef.Namespace = "team"
	return host
}

func TestLentCredentials_areThoseOfTheRunThatWroteTheOutputs(t *testing.T) {
	g := NewWithT(t)
	r, cloud, s := borrowing(t, victim, hostOf(victim, "other"))
	hosted(s)
	g.Expect(r.kubeconfig(t.Context(), s)).To(Succeed())
	g.Expect(cloud.tokens).To(Equal(1))
	g.Expect(cloud.keys).To(ConsistOf("key-of-other"), "and not those of the current template")
	g.Expect(cloud.endpoint).To(Equal("https://victim"), "the cloud compares it with that of the cluster in the account")
	g.Expect(r.deleteLeftovers(t.Context(), s)).To(Succeed())
	g.Expect(cloud.keys).To(ConsistOf("key-of-other", "key-of-other"))
}

// With lent credentials, a user chooses neither the name of the cluster nor a role.
func TestLentCredentials_doNotServeWhatAUserChooses(t *testing.T) {
	g := NewWithT(t)
	unnamed := map[string]string{"cluster_endpoint": `"https://a"`, "cluster_certificate_authority_data": ca}
	r, _, s := borrowing(t, unnamed, hostOf(unnamed, "eks"))
	hosted(s)
	g.Expect(result(r.kubeconfig(t.Context(), s))).To(Equal("stall "+controlplanev1.MissingOutputReason), "the name of the Cluster is that of a user")

	unknown := map[string]string{"cluster_name": `"victim"`}
	r, cloud, s := borrowing(t, unknown, hostOf(unknown, "eks"))
	hosted(s)
	s.controlPlane.Spec.ControlPlaneEndpoint.Host = "victim"
	g.Expect(r.deleteLeftovers(t.Context(), s)).NotTo(Succeed(), "the endpoint of the control plane is that of a user")
	r.sweepInterfaces(t.Context(), s)
	g.Expect(cloud.queries).To(BeEmpty())

	const role = "arn:aws:iam::123456789012:role/admin"
	r, cloud, s = borrowing(t, victim, hostOf(victim, "eks"))
	hosted(s)
	s.controlPlane.Spec.Kubeconfig = &controlplanev1.KubeconfigConfig{Source: controlplanev1.KubeconfigSourceEKS, RoleARN: role}
	g.Expect(result(r.kubeconfig(t.Context(), s))).To(Equal("wait " + infrav1.NotAllowedReason))
	g.Expect(cloud.tokens).To(BeZero())
	g.Expect(result(r.spotRole(t.Context(), s))).To(Equal("wait " + infrav1.NotAllowedReason))
	g.Expect(cloud.roles).To(BeZero())

	config := &infrav1.WorkspaceProviderConfig{}
	g.Expect(r.Client.Get(t.Context(), client.ObjectKey{Namespace: "platform", Name: "eks"}, config)).To(Succeed())
	config.Spec.Lending = &infrav1.ProviderConfigLending{RoleARNs: []string{role}}
	g.Expect(r.Client.Update(t.Context(), config)).To(Succeed())
	g.Expect(r.kubeconfig(t.Context(), s)).To(Succeed())
	g.Expect(cloud.tokens).To(Equal(1))
}

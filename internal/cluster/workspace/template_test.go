package workspace

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/grant"
	"github.com/appthrust/capt/internal/kubernetes/scheme"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

func keeper(objects ...client.Object) *Keeper {
	c := fake.NewClientBuilder().WithScheme(scheme.New()).WithObjects(objects...).Build()
	return &Keeper{Client: c, Live: c, Grants: &grant.Checker{Client: c, Live: c}}
}

func TestTemplate_waitsUntilItExists(t *testing.T) {
	g := NewWithT(t)
	existing := &infrav1.WorkspaceTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "shared", Name: "network"}}
	granted := &infrav1.CAPTReferenceGrant{ObjectMeta: metav1.ObjectMeta{Namespace: "shared", Name: "team"}, Spec: infrav1.CAPTReferenceGrantSpec{
		From: []infrav1.ReferenceGrantFrom{{Namespaces: []string{"team"}}}, To: []infrav1.ReferenceGrantTo{{Kind: infrav1.GrantedWorkspaceTemplate}},
	}}
	found, err := keeper(existing, granted).Template(t.Context(), "team", infrav1.TemplateReference{Namespace: "shared", Name: "network"})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(found.Namespace).To(Equal("shared"))

	_, err = keeper(existing).Template(t.Context(), "team", infrav1.TemplateReference{Namespace: "shared", Name: "network"})
	g.Expect(err).To(MatchError(ContainSubstring("not granted to namespace team")))

	_, err = keeper(existing).Template(t.Context(), "team", infrav1.TemplateReference{Name: "network"})
	waiting, ok := fault.AsWaiting(err)
	g.Expect(ok).To(BeTrue(), "%v", err)
	g.Expect(waiting.Reason).To(Equal(infrav1.WaitingForTemplateReason))
	g.Expect(waiting.Message()).To(ContainSubstring("WorkspaceTemplate team/network does not exist"))
}

// The manager calls the cloud with the credentials of a config that was lent.
func TestCredentials_ofAnotherNamespace(t *testing.T) {
	g := NewWithT(t)
	config := &infrav1.WorkspaceProviderConfig{ObjectMeta: metav1.ObjectMeta{Namespace: "shared", Name: "aws"}}
	config.Spec.Credentials = []infrav1.ProviderCredential{{Env: "KEY", SecretRef: infrav1.KeyReference{Name: "keys", Key: "id"}}}
	secret := func(namespace string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "keys"}, Data: map[string][]byte{"id": []byte(namespace)}}
	}
	template := &infrav1.WorkspaceTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "shared", Name: "network"}}
	template.Spec.Template.Spec.ProviderConfigRef = &infrav1.LocalReference{Name: "aws"}
	_, err := keeper(config, secret("shared"), secret("team")).Credentials(t.Context(), "team", template)
	g.Expect(err).To(MatchError(ContainSubstring("not granted")))

	granted := &infrav1.CAPTReferenceGrant{ObjectMeta: metav1.ObjectMeta{Namespace: "shared", Name: "team"}, Spec: infrav1.CAPTReferenceGrantSpec{
		From: []infrav1.ReferenceGrantFrom{{Namespaces: []string{"team"}}}, To: []infrav1.ReferenceGrantTo{{Kind: infrav1.GrantedWorkspaceProviderConfig}},
	}}
	found, err := keeper(config, secret("shared"), secret("team"), granted).Credentials(t.Context(), "team", template)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(found.Env).To(HaveKeyWithValue("KEY", "shared"))
}

// A template of another namespace chooses what the manager does with the credentials, for
// example by an endpoint in its environment.
func TestCredentials_areNotForTemplatesOfOthers(t *testing.T) {
	g := NewWithT(t)
	config := &infrav1.WorkspaceProviderConfig{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "aws"}}
	template := &infrav1.WorkspaceTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "mallory", Name: "network"}}
	template.Spec.Template.Spec.ProviderConfigRef = &infrav1.LocalReference{Name: "aws"}
	apply := &infrav1.WorkspaceTemplateApply{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "network"}}

	_, err := keeper(config).Credentials(t.Context(), "team", template)
	g.Expect(err).To(MatchError(ContainSubstring("add mallory to spec.templateNamespaces")))
	_, err = keeper(config).OutputCredentials(t.Context(), apply, template)
	g.Expect(err).To(MatchError(ContainSubstring("add mallory to spec.templateNamespaces")))

	config.Spec.TemplateNamespaces = []string{"mallory"}
	_, err = keeper(config).Credentials(t.Context(), "team", template)
	g.Expect(err).NotTo(HaveOccurred())
}

func TestCredentials(t *testing.T) {
	config := &infrav1.WorkspaceProviderConfig{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "aws"}}
	config.Spec.Credentials = []infrav1.ProviderCredential{
		{Env: "AWS_ACCESS_KEY_ID", SecretRef: infrav1.KeyReference{Name: "keys", Key: "id"}},
		{Filename: "token", SecretRef: infrav1.KeyReference{Name: "keys", Key: "token"}},
	}
	keys := func(names ...string) *corev1.Secret {
		s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "keys"}, Data: map[string][]byte{}}
		for _, name := range names {
			s.Data[name] = []byte("the " + name)
		}
		return s
	}
	template := &infrav1.WorkspaceTemplate{}
	template.Spec.Template.Spec.ProviderConfigRef = &infrav1.LocalReference{Name: "aws"}
	template.Spec.Template.Spec.ForProvider.Env = []infrav1.EnvVar{{Name: "AWS_REGION", Value: new("eu-west-1")}, {Name: "FROM_SECRET"}}
	for name, c := range map[string]struct {
		template *infrav1.WorkspaceTemplate
		objects  []client.Object
		want     *Credentials
		reason   string
	}{
		"no provider config": {template: &infrav1.WorkspaceTemplate{}, want: &Credentials{Env: map[string]string{}, Files: map[string][]byte{}}},
		"all": {template: template, objects: []client.Object{config, keys("id", "token")}, want: &Credentials{
			Env:   map[string]string{"AWS_ACCESS_KEY_ID": "the id", "AWS_REGION": "eu-west-1"},
			Files: map[string][]byte{"token": []byte("the token")},
		}},
		"a missing provider config": {template: template, reason: infrav1.WaitingForProviderConfigReason},
		"a missing Secret":          {template: template, objects: []client.Object{config}, reason: infrav1.WaitingForSecretReason},
		"a missing key":             {template: template, objects: []client.Object{config, keys("id")}, reason: infrav1.WaitingForSecretReason},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			got, err := keeper(c.objects...).Credentials(t.Context(), "team", c.template)
			if c.reason == "" {
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(got).To(Equal(c.want))
				return
			}
			waiting, ok := fault.AsWaiting(err)
			g.Expect(ok).To(BeTrue(), "%v", err)
			g.Expect(waiting.Reason).To(Equal(c.reason))
			if c.reason == infrav1.WaitingForSecretReason {
				g.Expect(waiting.RetryAfter).To(Equal(credentialsRetryInterval), "Secrets of users are not watched")
			}
		})
	}
}

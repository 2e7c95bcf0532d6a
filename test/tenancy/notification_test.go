package tenancy

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// The address of a destination, and what is sent to it, are in one Secret, which the user who
// names it neither reads nor writes.
func TestPlatformEditor_choosesNoDestination(t *testing.T) {
	g := NewWithT(t)
	ns := env.Namespace(t)
	destination := secret(ns, "chat", "")
	destination.Data = map[string][]byte{"address": []byte("https://hooks.example.com/a"), "token": []byte("0123456789")}
	g.Expect(env.Client.Create(t.Context(), destination)).To(Succeed())

	user := withRoles(t, ns, "notifier", "capt-viewer", "capt-platform-editor")
	notification := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": infrav1.GroupVersion.String(), "kind": "WorkspaceNotification", "metadata": map[string]any{"namespace": ns, "name": "mine"},
		"spec": map[string]any{
			"secretRef": map[string]any{"name": "chat", "namespace": "kube-system", "key": "other"}, "address": "https://evil.example.com", "url": "https://evil.example.com",
			"headers": map[string]any{"Host": "evil.example.com"}, "proxy": "https://evil.example.com",
		},
	}}
	allowed(t, "a notification", func() error { return user.Create(t.Context(), notification) })
	spec := notification.Object["spec"].(map[string]any)
	g.Expect(spec["secretRef"]).To(Equal(map[string]any{"name": "chat"}), "of its namespace only")
	for _, field := range []string{"address", "url", "headers", "proxy"} {
		g.Expect(spec).NotTo(HaveKey(field))
	}
	g.Expect(apierrors.IsForbidden(user.Get(t.Context(), client.ObjectKeyFromObject(destination), &corev1.Secret{}))).To(BeTrue(), "the user does not read the token")
	changed := patched(user, destination, func(s *corev1.Secret) { s.Data["address"] = []byte("https://evil.example.com") })
	g.Expect(apierrors.IsForbidden(changed)).To(BeTrue(), "the user does not change the address")
}

package testenv

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/appthrust/capt/internal/kubernetes/manifest"
)

// Kustomize returns the objects of a directory of this repository, for example
// config/default. A warning of kustomize is an error.
func Kustomize(dir string) ([]*unstructured.Unstructured, error) {
	root, err := Root()
	if err != nil {
		return nil, err
	}
	kubectl, err := Part("kubectl")
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(kubectl, "kustomize", filepath.Join(root, filepath.FromSlash(dir)))
	var problems bytes.Buffer
	cmd.Stderr = &problems
	out, err := cmd.Output()
	if err != nil || problems.Len() > 0 {
		return nil, fmt.Errorf("rendering %s: %w: %s", dir, err, problems.String())
	}
	return manifest.Parse(out)
}

// Install applies objects. cert-manager is not installed: its objects are skipped, and
// the webhooks are served by this machine, with the certificates and the port of the
// result.
func (e *Environment) Install(ctx context.Context, objects []*unstructured.Unstructured) (*envtest.WebhookInstallOptions, error) {
	hooks := &envtest.WebhookInstallOptions{}
	for _, obj := range objects {
		var err error
		switch {
		case obj.GroupVersionKind().Group == "cert-manager.io":
		case obj.GetKind() == "ValidatingWebhookConfiguration":
			typed := &admissionv1.ValidatingWebhookConfiguration{}
			err = runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(obj.Object, typed, true)
			hooks.ValidatingWebhooks = append(hooks.ValidatingWebhooks, typed)
		case obj.GetKind() == "MutatingWebhookConfiguration":
			typed := &admissionv1.MutatingWebhookConfiguration{}
			err = runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(obj.Object, typed, true)
			hooks.MutatingWebhooks = append(hooks.MutatingWebhooks, typed)
		default:
			err = e.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(obj), client.FieldOwner("install"), client.ForceOwnership)
		}
		if err != nil {
			return nil, fmt.Errorf("installing %s %s: %w", obj.GetKind(), obj.GetName(), err)
		}
	}
	if err := ServeOnFreePort(hooks); err != nil {
		return nil, err
	}
	if err := hooks.Install(e.Config); err != nil {
		return nil, fmt.Errorf("installing the webhooks: %w", err)
	}
	return hooks, nil
}

// Token returns a token of a service account.
func (e *Environment) Token(ctx context.Context, namespace, name string) (string, error) {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	request := &authenticationv1.TokenRequest{}
	if err := e.Client.SubResource("token").Create(ctx, account, request); err != nil {
		return "", fmt.Errorf("requesting a token of %s/%s: %w", namespace, name, err)
	}
	return request.Status.Token, nil
}

// WriteKubeconfig writes a kubeconfig file with a token.
func (e *Environment) WriteKubeconfig(path, token string) error {
	const name = "capt"
	err := clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{name: {Server: e.Config.Host, CertificateAuthorityData: e.Config.CAData}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{name: {Token: token}},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: name}},
		CurrentContext: name,
	}, path)
	if err != nil {
		return fmt.Errorf("writing a kubeconfig: %w", err)
	}
	return nil
}

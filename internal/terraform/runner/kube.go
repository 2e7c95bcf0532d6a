package runner

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// kube reads and writes the objects of a run. Every run starts a new process, so
// kube does not use the generated clients: their start-up would cost more than the
// requests.
type kube struct {
	http *http.Client
	base *url.URL
}

func newKube(config *rest.Config) (*kube, error) {
	config = rest.CopyConfig(config)
	config.GroupVersion = &schema.GroupVersion{Version: "v1"}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("creating an HTTP client: %w", err)
	}
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("getting the address of the API server: %w", err)
	}
	return &kube{http: client, base: base}, nil
}

func secretPath(namespace string, name ...string) []string {
	return append([]string{"api/v1/namespaces", namespace, "secrets"}, name...)
}

func leasePath(namespace string, name ...string) []string {
	return append([]string{"apis/coordination.k8s.io/v1/namespaces", namespace, "leases"}, name...)
}

func (k *kube) secret(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	return secret, k.do(ctx, http.MethodGet, secretPath(namespace, name), "", nil, secret)
}

func (k *kube) createSecret(ctx context.Context, secret *corev1.Secret) error {
	secret.APIVersion, secret.Kind = "v1", "Secret"
	return k.do(ctx, http.MethodPost, secretPath(secret.Namespace), "application/json", secret, secret)
}

func (k *kube) patchSecret(ctx context.Context, namespace, name string, patch []byte) error {
	return k.patch(ctx, secretPath(namespace, name), patch, nil)
}

func (k *kube) patch(ctx context.Context, path []string, patch []byte, out any) error {
	return k.do(ctx, http.MethodPatch, path, string(types.MergePatchType), json.RawMessage(patch), out)
}

func (k *kube) lease(ctx context.Context, namespace, name string) (*coordinationv1.Lease, error) {
	lease := &coordinationv1.Lease{}
	return lease, k.do(ctx, http.MethodGet, leasePath(namespace, name), "", nil, lease)
}

func (k *kube) createLease(ctx context.Context, lease *coordinationv1.Lease) error {
	lease.APIVersion, lease.Kind = coordinationv1.SchemeGroupVersion.String(), "Lease"
	return k.do(ctx, http.MethodPost, leasePath(lease.Namespace), "application/json", lease, lease)
}

func (k *kube) updateLease(ctx context.Context, lease *coordinationv1.Lease) error {
	lease.APIVersion, lease.Kind = coordinationv1.SchemeGroupVersion.String(), "Lease"
	return k.do(ctx, http.MethodPut, leasePath(lease.Namespace, lease.Name), "application/json", lease, lease)
}

func (k *kube) do(ctx context.Context, method string, path []string, contentType string, in, out any) error {
	var body io.Reader
	if in != nil {
		encoded, err := json.Marshal(in)
		if err != nil {
			return fmt.Errorf("encoding a request: %w", err)
		}
		body = bytes.NewReader(encoded)
	}
	req, err := http.NewRequestWithContext(ctx, method, k.base.JoinPath(path...).String(), body)
	if err != nil {
		return fmt.Errorf("creating a request: %w", err)
	}
	req.Header.Set("Accept", "application/json")
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	resp, err := k.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	response, err := io.ReadAll(resp.Body)
	if err != nil {
		return fmt.Errorf("reading the API server's response: %w", err)
	}
	if resp.StatusCode >= http.StatusBadRequest {
		var status metav1.Status
		if err := json.Unmarshal(response, &status); err != nil || status.Kind != "Status" {
			return fmt.Errorf("the API server returned %s", resp.Status)
		}
		return apierrors.FromObject(&status)
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(response, out); err != nil {
		return fmt.Errorf("decoding the API server's response: %w", err)
	}
	return nil
}

package manager

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/appthrust/capt/internal/seal"
)

const (
	sealKeyName = "capt-seal-key"
	// sealKeyData is the entry of the Secret with the key.
	sealKeyData = "key"
	// namespaceFile has the namespace of a pod.
	namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"
)

// sealKey returns the name of the Secret with the key that seals runs.
func (o *EngineOptions) sealKey() (client.ObjectKey, error) {
	if o.SealKey == "" {
		namespace := metav1.NamespaceSystem
		if text, err := os.ReadFile(namespaceFile); err == nil {
			namespace = strings.TrimSpace(string(text))
		}
		return client.ObjectKey{Namespace: namespace, Name: sealKeyName}, nil
	}
	namespace, name, found := strings.Cut(o.SealKey, "/")
	if !found || namespace == "" || name == "" || strings.Contains(name, "/") {
		return client.ObjectKey{}, fmt.Errorf("--seal-key-secret is %q: set it to NAMESPACE/NAME", o.SealKey)
	}
	return client.ObjectKey{Namespace: namespace, Name: name}, nil
}

// sealKeyReader returns a function that returns the key that seals runs. The key is read
// once, when it is needed first.
func sealKeyReader(mgr ctrl.Manager, o *EngineOptions) func(context.Context) (*seal.Key, error) {
	var mu sync.Mutex
	var key *seal.Key
	return func(ctx context.Context) (*seal.Key, error) {
		mu.Lock()
		defer mu.Unlock()
		if key != nil {
			return key, nil
		}
		var err error
		key, err = readSealKey(ctx, mgr, o)
		return key, err
	}
}

// readSealKey returns the key that seals runs. The first manager creates it.
func readSealKey(ctx context.Context, mgr ctrl.Manager, o *EngineOptions) (*seal.Key, error) {
	name, err := o.sealKey()
	if err != nil {
		return nil, err
	}
	secret := &corev1.Secret{}
	err = mgr.GetAPIReader().Get(ctx, name, secret)
	if apierrors.IsNotFound(err) {
		created := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name},
			Type:       corev1.SecretTypeOpaque, Data: map[string][]byte{sealKeyData: seal.Generate()},
		}
		if err := mgr.GetClient().Create(ctx, created); err != nil && !apierrors.IsAlreadyExists(err) {
			return nil, fmt.Errorf("creating the key of runs, Secret %s: %w", name, err)
		}
		// Another manager may have created it.
		err = mgr.GetAPIReader().Get(ctx, name, secret)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the key of runs, Secret %s: %w", name, err)
	}
	key, err := seal.New(secret.Data[sealKeyData], secret.CreationTimestamp.Time)
	if err != nil {
		return nil, fmt.Errorf("reading the key of runs, entry %s of Secret %s: %w. Delete the Secret to create a new key", sealKeyData, name, err)
	}
	return key, nil
}

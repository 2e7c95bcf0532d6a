package record

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/appthrust/capt/internal/terraform"
)

// stateKey is the key of the state in a Secret of the Kubernetes backend.
const stateKey = "tfstate"

// StateContent returns the state in a Secret of the Kubernetes backend, or nil if it has
// none.
func StateContent(secret *corev1.Secret) ([]byte, error) {
	if len(secret.Data[stateKey]) == 0 {
		return nil, nil
	}
	return Decompress(secret.Data[stateKey])
}

// StateIsEmpty reports whether the state in a Secret of the Kubernetes backend
// has no resources, and returns its lineage and serial. An encrypted state cannot be read and
// counts as not empty. Without a lineage there is no state. It does not keep the state in
// memory.
func StateIsEmpty(secret *corev1.Secret) (empty bool, version terraform.StateInfo, err error) {
	if len(secret.Data[stateKey]) == 0 {
		return true, version, nil
	}
	header, err := readStateHeader(secret.Data[stateKey])
	if err != nil {
		return false, version, err
	}
	return !header.hasResources && !header.isEncrypted, terraform.StateInfo{Lineage: header.lineage, Serial: header.serial}, nil
}

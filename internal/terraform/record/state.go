package record

import (
	"encoding/json"
	"errors"

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
// counts as not empty. Without a lineage there is no state.
func StateIsEmpty(secret *corev1.Secret) (empty bool, version terraform.StateInfo, err error) {
	text, err := StateContent(secret)
	if err != nil {
		return false, version, errors.New("the state is not valid gzip")
	}
	if text == nil {
		return true, version, nil
	}
	var state struct {
		Lineage   string            `json:"lineage"`
		Serial    uint64            `json:"serial"`
		Resources []json.RawMessage `json:"resources"`
		Encrypted string            `json:"encrypted_data"`
	}
	if err := json.Unmarshal(text, &state); err != nil {
		// The decoder's message may quote the state.
		return false, version, errors.New("the state is not valid JSON")
	}
	return len(state.Resources) == 0 && state.Encrypted == "", terraform.StateInfo{Lineage: state.Lineage, Serial: state.Serial}, nil
}

package record

import (
	"encoding/json"
	"errors"

	corev1 "k8s.io/api/core/v1"
)

// StateIsEmpty reports whether the state in a Secret of the Kubernetes backend
// has no resources. An encrypted state cannot be read and counts as not empty.
func StateIsEmpty(secret *corev1.Secret) (bool, error) {
	data := secret.Data["tfstate"]
	if len(data) == 0 {
		return true, nil
	}
	text, err := Decompress(data)
	if err != nil {
		return false, errors.New("the state is not valid gzip")
	}
	var state struct {
		Resources []json.RawMessage `json:"resources"`
		Encrypted string            `json:"encrypted_data"`
	}
	if err := json.Unmarshal(text, &state); err != nil {
		// The decoder's message may quote the state.
		return false, errors.New("the state is not valid JSON")
	}
	return len(state.Resources) == 0 && state.Encrypted == "", nil
}

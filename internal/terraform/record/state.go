package record

import (
	"encoding/json"
	"errors"

	corev1 "k8s.io/api/core/v1"
)

// StateIsEmpty reports whether the state in a Secret of the Kubernetes backend
// has no resources, and returns its lineage. An encrypted state cannot be read and
// counts as not empty. Without a lineage there is no state.
func StateIsEmpty(secret *corev1.Secret) (empty bool, lineage string, err error) {
	data := secret.Data["tfstate"]
	if len(data) == 0 {
		return true, "", nil
	}
	text, err := Decompress(data)
	if err != nil {
		return false, "", errors.New("the state is not valid gzip")
	}
	var state struct {
		Lineage   string            `json:"lineage"`
		Resources []json.RawMessage `json:"resources"`
		Encrypted string            `json:"encrypted_data"`
	}
	if err := json.Unmarshal(text, &state); err != nil {
		// The decoder's message may quote the state.
		return false, "", errors.New("the state is not valid JSON")
	}
	return len(state.Resources) == 0 && state.Encrypted == "", state.Lineage, nil
}

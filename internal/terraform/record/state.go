package record

import (
	"encoding/json"
	"errors"

	corev1 "k8s.io/api/core/v1"

	"github.com/appthrust/capt/internal/terraform"
)

// StateIsEmpty reports whether the state in a Secret of the Kubernetes backend
// has no resources, and returns its lineage and serial. An encrypted state cannot be read and
// counts as not empty. Without a lineage there is no state.
func StateIsEmpty(secret *corev1.Secret) (empty bool, version terraform.StateInfo, err error) {
	data := secret.Data["tfstate"]
	if len(data) == 0 {
		return true, version, nil
	}
	text, err := Decompress(data)
	if err != nil {
		return false, version, errors.New("the state is not valid gzip")
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

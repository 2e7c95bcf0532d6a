package record

import (
	"encoding/json"
	"errors"
	"sync"

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

var (
	errGzip  = errors.New("the state is not valid gzip, or exceeds 64 MiB")
	errState = errors.New("the state is not valid JSON")
)

// reading lets one goroutine at a time decompress a state: a run, which writes it, can make it
// expand to maxContent.
var reading sync.Mutex

// nonEmpty is set for a JSON string that is not empty.
type nonEmpty bool

// UnmarshalJSON does not keep the string.
func (n *nonEmpty) UnmarshalJSON(data []byte) error {
	*n = string(data) != `""` && string(data) != "null"
	return nil
}

// StateIsEmpty reports whether the state in a Secret of the Kubernetes backend
// has no resources, and returns its lineage and serial. An encrypted state cannot be read and
// counts as not empty. Without a lineage there is no state. The error does not quote the state.
func StateIsEmpty(secret *corev1.Secret) (empty bool, version terraform.StateInfo, err error) {
	if len(secret.Data[stateKey]) == 0 {
		return true, version, nil
	}
	reading.Lock()
	defer reading.Unlock()
	content, err := Decompress(secret.Data[stateKey])
	if err != nil {
		return false, version, errGzip
	}
	var state struct {
		Lineage string
		Serial  uint64
		// Elements without fields need no memory.
		Resources []struct{}
		Encrypted nonEmpty `json:"encrypted_data"`
	}
	if json.Unmarshal(content, &state) != nil {
		return false, version, errState
	}
	return len(state.Resources) == 0 && !bool(state.Encrypted), terraform.StateInfo{Lineage: state.Lineage, Serial: state.Serial}, nil
}

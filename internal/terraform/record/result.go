package record

import (
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/appthrust/capt/internal/elements"
	"github.com/appthrust/capt/internal/terraform"
)

// maxResult limits the bytes of a result, and maxElements its elements: enough for 10,000 changes.
// A run writes it, and the manager decodes it: an element of three bytes needs more than a hundred
// in memory.
const (
	maxResult   = 4 << 20
	maxElements = 50_000
)

// ErrResultTooLarge is the error of a result that the manager would not read.
var ErrResultTooLarge = errors.New("the result is too large")

// Result returns the result of a run, or nil if it has not finished.
func Result(secret *corev1.Secret) (*terraform.Result, error) {
	if !Finished(secret) {
		return nil, nil
	}
	text, err := decompress(secret.Data[keyResult], maxResult)
	if err == nil {
		err = elements.CheckJSON(text, maxElements)
	}
	if err != nil {
		return nil, fmt.Errorf("decompressing %s of Secret %s: %w", keyResult, secret.Name, err)
	}
	result := &terraform.Result{}
	if err := json.Unmarshal(text, result); err != nil {
		return nil, fmt.Errorf("decoding %s of Secret %s: %w", keyResult, secret.Name, err)
	}
	return result, nil
}

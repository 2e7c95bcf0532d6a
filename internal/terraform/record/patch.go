package record

import (
	"encoding/json"
	"fmt"

	"github.com/appthrust/capt/internal/terraform"
)

// The runner writes by merge patches: it owns its keys, so nothing conflicts,
// and it never has to read before it writes.

// ClaimPatch records who carries out the run. It carries the resource version
// the Secret was read at, so that of two claims only one succeeds.
func ClaimPatch(resourceVersion string, identity Identity) ([]byte, error) {
	data, err := json.Marshal(identity)
	if err != nil {
		return nil, fmt.Errorf("encoding the identity: %w", err)
	}
	return json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": resourceVersion},
		"data":     map[string][]byte{keyIdentity: data},
	})
}

// ProgressPatch records how far the run is, and its log so far.
func ProgressPatch(progress terraform.Progress, log []byte) ([]byte, error) {
	data, err := json.Marshal(progress)
	if err != nil {
		return nil, fmt.Errorf("encoding the progress: %w", err)
	}
	entries := map[string][]byte{keyProgress: data}
	if len(log) > 0 {
		if entries[keyLog], err = gzipped(lastLines(log)); err != nil {
			return nil, fmt.Errorf("packing the log: %w", err)
		}
	}
	return json.Marshal(map[string]any{"data": entries})
}

// FinishPatch records how the run ended. It removes the request, which held
// credentials.
func FinishPatch(result *terraform.Result, log []byte) ([]byte, error) {
	data, err := pack(result)
	if err != nil {
		return nil, fmt.Errorf("packing the result: %w", err)
	}
	packedLog, err := gzipped(lastLines(log))
	if err != nil {
		return nil, fmt.Errorf("packing the log: %w", err)
	}
	return json.Marshal(map[string]any{
		"data": map[string]any{keyResult: data, keyLog: packedLog, keyRequest: nil, keyProgress: nil},
	})
}

// logLimit is how much of a log is kept; the end tells more than the beginning.
const logLimit = 512 << 10

func lastLines(log []byte) []byte {
	if len(log) <= logLimit {
		return log
	}
	cut := log[len(log)-logLimit:]
	for i, b := range cut {
		if b == '\n' {
			cut = cut[i+1:]
			break
		}
	}
	return append([]byte("(the beginning of the log is left out)\n"), cut...)
}

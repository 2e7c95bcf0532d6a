package record

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/appthrust/capt/internal/elements"
	"github.com/appthrust/capt/internal/terraform"
)

// The runner writes merge patches. It owns its keys, so its patches never
// conflict and it need not read before it writes.

// ClaimPatch returns a patch that records the runner of a run. The patch contains
// the resource version of the Secret, so that only one of two claims succeeds.
func ClaimPatch(resourceVersion string, identity Identity) ([]byte, error) {
	data, err := json.Marshal(identity)
	if err != nil {
		return nil, fmt.Errorf("encoding identity: %w", err)
	}
	return json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": resourceVersion},
		"data":     map[string][]byte{keyIdentity: data},
	})
}

// WithUID returns a patch that changes only the Secret with the given UID.
func WithUID(patch []byte, uid types.UID) ([]byte, error) {
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(patch, &fields); err != nil {
		return nil, fmt.Errorf("decoding patch: %w", err)
	}
	var err error
	if fields["metadata"], err = json.Marshal(map[string]types.UID{"uid": uid}); err != nil {
		return nil, fmt.Errorf("encoding patch: %w", err)
	}
	return json.Marshal(fields)
}

// ProgressPatch returns a patch that records the progress of a run. An empty log
// leaves the recorded log unchanged.
func ProgressPatch(progress terraform.Progress, log []byte) ([]byte, error) {
	data, err := json.Marshal(progress)
	if err != nil {
		return nil, fmt.Errorf("encoding progress: %w", err)
	}
	entries := map[string][]byte{keyProgress: data}
	if len(log) > 0 {
		if entries[keyLog], err = Compress(lastLines(log)); err != nil {
			return nil, fmt.Errorf("compressing log: %w", err)
		}
	}
	return json.Marshal(map[string]any{"data": entries})
}

// FinishPatch returns a patch that records the result of a run. It removes the
// request, which contains credentials. It returns ErrResultTooLarge if the manager would not read
// the result.
func FinishPatch(result *terraform.Result, log []byte) ([]byte, error) {
	text, err := json.Marshal(result)
	if err != nil {
		return nil, fmt.Errorf("encoding result: %w", err)
	}
	if len(text) > maxResult || elements.CheckJSON(text, maxElements) != nil {
		return nil, ErrResultTooLarge
	}
	data, err := Compress(text)
	if err != nil {
		return nil, fmt.Errorf("compressing result: %w", err)
	}
	compressedLog, err := Compress(lastLines(log))
	if err != nil {
		return nil, fmt.Errorf("compressing log: %w", err)
	}
	return json.Marshal(map[string]any{
		"data": map[string]any{keyResult: data, keyLog: compressedLog, keyRequest: nil, keyProgress: nil},
	})
}

// maxLogSize is how many bytes of a log are kept. The end is more useful than the
// beginning.
const maxLogSize = 512 << 10

// lastLines returns the last whole lines of a log, up to maxLogSize.
func lastLines(log []byte) []byte {
	if len(log) <= maxLogSize {
		return log
	}
	cut := log[len(log)-maxLogSize:]
	for i, b := range cut {
		if b == '\n' {
			cut = cut[i+1:]
			break
		}
	}
	return append([]byte("(the beginning of the log was dropped)\n"), cut...)
}

// SavedPatch returns a patch that records the names of rescued states that a run has saved
// in the backend.
func SavedPatch(names []string) ([]byte, error) { return dataPatch(keySaved, names) }

// StatePatch returns a patch that records the state that a run is about to change.
func StatePatch(state terraform.StateInfo) ([]byte, error) { return dataPatch(keyState, state) }

// dataPatch returns a patch that sets a key of a run's Secret to a value as JSON.
func dataPatch(key string, value any) ([]byte, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("encoding %s: %w", key, err)
	}
	return json.Marshal(map[string]any{"data": map[string][]byte{key: text}})
}

// InterruptPatch returns a patch that makes the runner interrupt the tool at once.
func InterruptPatch() ([]byte, error) { return dataPatch(keyInterrupt, true) }

// Interrupted reports whether the runner of a run is to interrupt the tool at once.
func Interrupted(secret *corev1.Secret) bool { return len(secret.Data[keyInterrupt]) > 0 }

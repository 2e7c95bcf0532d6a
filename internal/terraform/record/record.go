// Package record encodes runs, plans and states as Secrets, which is how the
// controller and the runner communicate. It makes no API calls.
package record

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/appthrust/capt/internal/elements"
	"github.com/appthrust/capt/internal/terraform"
)

// Values of the component label, which distinguishes the Secrets of a workspace.
const (
	ComponentRun      = "run"
	ComponentPlan     = "plan"
	ComponentSnapshot = "snapshot"
	ComponentState    = "state"
	ComponentRescue   = "rescue"
	ComponentModule   = "module"
	// ComponentTransfer is the output of a state command, or the state that a user
	// pushes. It exists for the duration of the command.
	ComponentTransfer = "transfer"
	// ComponentToken is the token of a run. It exists for the duration of the run.
	ComponentToken = "token"
)

// Keys of a run's Secret.
const (
	keyRequest  = "request"
	keyIdentity = "identity"
	keyProgress = "progress"
	keyState    = "state"
	keySaved    = "saved"
	keyLog      = "log"
	keyResult   = "result"
	// keyInterrupt is a key and no annotation: the seal covers those.
	keyInterrupt = "interrupt"
)

// Annotations of a run's Secret. They can be read without decoding the data.
const (
	// InputsAnnotation is the hash of the inputs that the run applies.
	InputsAnnotation = "capt.appthrust.io/inputs"
	// OperationAnnotation is the operation of the run.
	OperationAnnotation = "capt.appthrust.io/operation"
	// ExecutorAnnotation is the executor of the run.
	ExecutorAnnotation = "capt.appthrust.io/executor"
	// BackendAnnotation is the type of the backend that stores the state.
	BackendAnnotation = "capt.appthrust.io/backend"
	// ConfigurationAnnotation is the hash of the configuration of that backend.
	ConfigurationAnnotation = "capt.appthrust.io/backend-configuration"
	// StateAnnotation is what was known about the state before the run, as JSON.
	StateAnnotation = "capt.appthrust.io/state"
	// SourceAnnotation is the hash of where the module comes from.
	SourceAnnotation = "capt.appthrust.io/module-source"
	// ArtifactAnnotation is the digest of the artifact of a Flux source that has the module.
	ArtifactAnnotation = "capt.appthrust.io/module-artifact"
	// ObjectsAnnotation are the template and the provider config of the run, as JSON.
	ObjectsAnnotation = "capt.appthrust.io/objects"
	// OperationsAnnotation are the UIDs of the WorkspaceOperations that the run executes.
	OperationsAnnotation = "capt.appthrust.io/operations"
	// RequestAnnotation is the operation that requested the run, as JSON.
	RequestAnnotation = "capt.appthrust.io/request"
	// RefetchAnnotation marks a run for which a user requested the module as it is now.
	RefetchAnnotation = "capt.appthrust.io/refetch"
	// HoldAnnotation names the WorkspaceOperation that makes the plan after a restore wait for
	// approval.
	HoldAnnotation = "capt.appthrust.io/hold"
	// SettingsAnnotation is the hash of what the run does with its inputs.
	SettingsAnnotation = "capt.appthrust.io/settings"
	// PoliciesAnnotation is the digest of the policies that decide about the plan of the
	// run.
	PoliciesAnnotation = "capt.appthrust.io/policies"
	// KeepAnnotation marks a snapshot that is not pruned: it may be the only copy of
	// a state.
	KeepAnnotation = "capt.appthrust.io/keep"
	// BasesAnnotation has the digests of the saved states that a rescued state continues.
	// It is missing if they are unknown.
	BasesAnnotation = "capt.appthrust.io/bases"
	// WorkspaceUIDAnnotation has the UID of the workspace whose run stored a snapshot or a
	// rescued state.
	WorkspaceUIDAnnotation = "capt.appthrust.io/workspace-uid"
	// LineageAnnotation has the lineage of a snapshot.
	LineageAnnotation = "capt.appthrust.io/lineage"
	// NotMergedAnnotation is set on a rescued state that does not continue the saved one, by a
	// run that has tried to save it. It is the number of resources that the saved one does not
	// have, or empty if it is not known because a state is encrypted or cannot be read.
	NotMergedAnnotation = "capt.appthrust.io/not-merged"
	// SupersededAnnotation names the run with which a user replaced the state that a
	// rescued state continues.
	SupersededAnnotation = "capt.appthrust.io/superseded-by"
)

// Identity identifies the runner of a run. It is recorded before the run changes
// anything, and never changes.
type Identity struct {
	// Host and Boot are the machine and its boot ID.
	Host string `json:"host"`
	Boot string `json:"boot"`
	// PID and Started are the runner's process and its start time in clock ticks
	// since boot. The process is the leader of its session.
	PID     int   `json:"pid"`
	Started int64 `json:"started"`
	// PodNamespace, PodName and PodUID are set if the runner is in a pod.
	PodNamespace string `json:"podNamespace,omitempty"`
	PodName      string `json:"podName,omitempty"`
	PodUID       string `json:"podUID,omitempty"`
	// ClaimedAt is when the runner claimed the run, by the clock of its machine.
	ClaimedAt time.Time `json:"claimedAt"`
}

// SecretName returns the name of a run's Secret.
func SecretName(runID string) string { return "capt-run-" + runID }

// LabelValue returns a valid label value for an object name of any length.
func LabelValue(name string) string { return Shorten(name, 63) }

// hashDigits is the length of the hash in a shortened name. Users choose the names of
// workspaces, so nobody must find another name with the same hash: it has 80 bits.
const hashDigits = 20

var shortened = regexp.MustCompile(fmt.Sprintf("-[0-9a-f]{%d}$", hashDigits))

// Shorten returns name if it has at most limit bytes. Otherwise it returns a prefix of name
// with a hash of the whole name, in at most limit bytes. So it does with a name that looks
// shortened: different names stay different.
func Shorten(name string, limit int) string {
	if len(name) <= limit && !shortened.MatchString(name) {
		return name
	}
	return WithHash(name, limit)
}

// WithHash returns a prefix of name with a hash of the whole name, in at most limit bytes.
func WithHash(name string, limit int) string {
	sum := sha256.Sum256([]byte(name))
	prefix := name[:min(len(name), limit-hashDigits-1)]
	// The prefix must not end in a dot, a dash or an incomplete character.
	return strings.TrimRight(strings.ToValidUTF8(prefix, ""), ".-") + "-" + hex.EncodeToString(sum[:hashDigits/2])
}

// maxRequest is the size of a compressed request. The Secret also has to hold what the
// runner writes before it removes the request: identity, progress and state.
const maxRequest = 1<<20 - 64<<10

// ErrRequestTooLarge reports that the request of a run does not fit into its Secret.
var ErrRequestTooLarge = errors.New("it does not fit into a Secret")

// NewRun returns the Secret of a run that no runner has claimed. It returns
// ErrRequestTooLarge if the Secret would have no space for the runner.
func NewRun(request *terraform.Request, meta metav1.ObjectMeta) (*corev1.Secret, error) {
	data, err := encode(request)
	if err != nil {
		return nil, fmt.Errorf("compressing request: %w", err)
	}
	if len(data) > maxRequest {
		return nil, fmt.Errorf("the request of run %s: %w", request.RunID, ErrRequestTooLarge)
	}
	meta.Name = SecretName(request.RunID)
	annotations := map[string]string{BlockMoveAnnotation: ""}
	maps.Copy(annotations, meta.Annotations)
	meta.Annotations = annotations
	secret := &corev1.Secret{ObjectMeta: meta, Type: corev1.SecretTypeOpaque, Data: map[string][]byte{keyRequest: data}}
	secret.Annotations[DigestAnnotation] = RequestDigest(secret)
	return secret, nil
}

// Request returns the request of a run. It returns an error for a finished run,
// whose request was removed because it contains credentials.
func Request(secret *corev1.Secret) (*terraform.Request, error) {
	var request terraform.Request
	if err := decodeRequired(secret, keyRequest, &request); err != nil {
		return nil, err
	}
	return &request, nil
}

// RunIdentity returns the runner of a run, or nil if no runner has claimed it.
func RunIdentity(secret *corev1.Secret) (*Identity, error) {
	return decodePlain[Identity](secret, keyIdentity)
}

// Progress returns the progress of a run, or nil if the runner has not reported
// any.
func Progress(secret *corev1.Secret) (*terraform.Progress, error) {
	return decodePlain[terraform.Progress](secret, keyProgress)
}

// State returns the state that a run was about to change, or nil if the runner has not recorded
// one, or not one that can be read: code of the module can replace it.
func State(secret *corev1.Secret) *terraform.StateInfo {
	state, err := decodePlain[terraform.StateInfo](secret, keyState)
	if err != nil {
		return nil
	}
	return state
}

// Saved returns the names of the rescued states that a run has saved in the backend, as
// far as its runner recorded them before the result. Values that cannot be read have no
// names: the states are kept.
func Saved(secret *corev1.Secret) []string {
	names, err := decodePlain[[]string](secret, keySaved)
	if err != nil || names == nil {
		return nil
	}
	return *names
}

// maxPlain is the size of a value that is not compressed, in bytes. A run writes them.
const maxPlain = 64 << 10

// Finished reports whether a run has a result, without decoding it.
func Finished(secret *corev1.Secret) bool { return len(secret.Data[keyResult]) > 0 }

// Claimed reports whether a runner has claimed the run.
func Claimed(secret *corev1.Secret) bool { return len(secret.Data[keyIdentity]) > 0 }

// Log returns the recorded log of a run.
func Log(secret *corev1.Secret) ([]byte, error) {
	data := secret.Data[keyLog]
	if len(data) == 0 {
		return nil, nil
	}
	return Decompress(data)
}

// SetResult sets the result of a run whose runner did not record one.
func SetResult(secret *corev1.Secret, result *terraform.Result) error {
	data, err := encode(result)
	if err != nil {
		return fmt.Errorf("compressing result: %w", err)
	}
	if secret.Data == nil {
		secret.Data = map[string][]byte{}
	}
	secret.Data[keyResult] = data
	delete(secret.Data, keyRequest)
	return nil
}

// decodePlain decodes an uncompressed key. It returns nil if the key is missing.
func decodePlain[T any](secret *corev1.Secret, key string) (*T, error) {
	data := secret.Data[key]
	if len(data) == 0 {
		return nil, nil
	}
	var v T
	if len(data) > maxPlain {
		return nil, fmt.Errorf("decoding %s of Secret %s: it exceeds %d KiB", key, secret.Name, maxPlain>>10)
	}
	if err := json.Unmarshal(data, &v); err != nil {
		return nil, fmt.Errorf("decoding %s of Secret %s: %w", key, secret.Name, err)
	}
	return &v, nil
}

// decodeRequired decodes a compressed key that must exist.
func decodeRequired(secret *corev1.Secret, key string, into any) error {
	data := secret.Data[key]
	if len(data) == 0 {
		return fmt.Errorf("reading Secret %s: key %s is missing", secret.Name, key)
	}
	text, err := Decompress(data)
	if err != nil {
		return fmt.Errorf("decompressing %s of Secret %s: %w", key, secret.Name, err)
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("decoding %s of Secret %s: %w", key, secret.Name, err)
	}
	return nil
}

func encode(v any) ([]byte, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return Compress(text)
}

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

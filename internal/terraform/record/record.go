// Package record keeps runs and plans in Secrets, the one form in which the
// controller and the runner speak to each other. It encodes and decodes; it
// talks to nobody.
package record

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/appthrust/capt/internal/terraform"
)

// Components tell apart the Secrets kept beside a workspace; they are values of
// the component label.
const (
	ComponentRun      = "run"
	ComponentPlan     = "plan"
	ComponentSnapshot = "snapshot"
	ComponentState    = "state"
	ComponentRescue   = "rescue"
)

// Keys of a run's Secret.
const (
	keyRequest  = "request"
	keyIdentity = "identity"
	keyProgress = "progress"
	keyLog      = "log"
	keyResult   = "result"
)

// Annotations of a run's Secret, readable without decoding it.
const (
	// InputsAnnotation is the hash of what the run applies.
	InputsAnnotation = "capt.appthrust.io/inputs"
	// OperationAnnotation is what the run does.
	OperationAnnotation = "capt.appthrust.io/operation"
	// ExecutorAnnotation is who carries out the run.
	ExecutorAnnotation = "capt.appthrust.io/executor"
	// BackendAnnotation is the type of the backend that holds the state.
	BackendAnnotation = "capt.appthrust.io/backend"
	// RequestAnnotation is the person's request that the run answers.
	RequestAnnotation = "capt.appthrust.io/request"
	// DriftAnnotation is the person's wish for a comparison with reality that a
	// run which compares answers.
	DriftAnnotation = "capt.appthrust.io/drift-request"
	// RestoredAnnotation is the snapshot that was restored last before the run.
	RestoredAnnotation = "capt.appthrust.io/restored"
)

// Identity is who carries out a run. It is recorded before the run touches
// anything, and never changes.
type Identity struct {
	// Host and Boot are the machine and its current boot.
	Host string `json:"host"`
	Boot string `json:"boot"`
	// PID and Started are the runner's process and when it began, in clock
	// ticks since boot; the process leads a session of its own.
	PID     int   `json:"pid"`
	Started int64 `json:"started"`
	// PodNamespace, PodName and PodUID are set inside a cluster.
	PodNamespace string `json:"podNamespace,omitempty"`
	PodName      string `json:"podName,omitempty"`
	PodUID       string `json:"podUID,omitempty"`
}

// SecretName is the name of a run's Secret.
func SecretName(runID string) string { return "capt-run-" + runID }

// LabelValue returns a label value for a name of any length.
func LabelValue(name string) string { return Shorten(name, 63) }

// Shorten returns a name of at most longest characters that is the name itself
// where it fits, and no other name's where it does not.
func Shorten(name string, longest int) string {
	if len(name) <= longest {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	// No part of a name may end in a dot, a dash or half a character.
	return strings.TrimRight(strings.ToValidUTF8(name[:longest-9], ""), ".-") + "-" + hex.EncodeToString(sum[:4])
}

// NewRun returns the Secret of a run that has not begun.
func NewRun(request *terraform.Request, meta metav1.ObjectMeta) (*corev1.Secret, error) {
	data, err := pack(request)
	if err != nil {
		return nil, fmt.Errorf("packing the request: %w", err)
	}
	meta.Name = SecretName(request.RunID)
	return &corev1.Secret{ObjectMeta: meta, Type: corev1.SecretTypeOpaque, Data: map[string][]byte{keyRequest: data}}, nil
}

// Request returns the request of a run. A finished run has none: it held
// credentials.
func Request(secret *corev1.Secret) (*terraform.Request, error) {
	var request terraform.Request
	found, err := unpack(secret, keyRequest, &request)
	if err != nil || !found {
		return nil, orMissing(err, keyRequest)
	}
	return &request, nil
}

// RunIdentity returns who carries out a run, or nil if nobody began.
func RunIdentity(secret *corev1.Secret) (*Identity, error) {
	return plain[Identity](secret, keyIdentity)
}

// Progress returns how far a run is, or nil if it has not said.
func Progress(secret *corev1.Secret) (*terraform.Progress, error) {
	return plain[terraform.Progress](secret, keyProgress)
}

// Result returns how a run ended, or nil if it has not.
func Result(secret *corev1.Secret) (*terraform.Result, error) {
	var result terraform.Result
	found, err := unpack(secret, keyResult, &result)
	if err != nil || !found {
		return nil, err
	}
	return &result, nil
}

// Finished tells whether a run has ended, without decoding the result.
func Finished(secret *corev1.Secret) bool { return len(secret.Data[keyResult]) > 0 }

// Claimed tells whether somebody carries out, or has carried out, the run.
func Claimed(secret *corev1.Secret) bool { return len(secret.Data[keyIdentity]) > 0 }

// Log returns the log of a run so far.
func Log(secret *corev1.Secret) ([]byte, error) {
	data := secret.Data[keyLog]
	if len(data) == 0 {
		return nil, nil
	}
	return gunzip(data)
}

// SetResult records the end of a run whose runner is gone without a word.
func SetResult(secret *corev1.Secret, result *terraform.Result) error {
	data, err := pack(result)
	if err != nil {
		return fmt.Errorf("packing the result: %w", err)
	}
	if secret.Data == nil {
		secret.Data = map[string][]byte{}
	}
	secret.Data[keyResult] = data
	delete(secret.Data, keyRequest)
	return nil
}

func plain[T any](secret *corev1.Secret, key string) (*T, error) {
	data := secret.Data[key]
	if len(data) == 0 {
		return nil, nil
	}
	var v T
	if err := json.Unmarshal(data, &v); err != nil {
		return nil, fmt.Errorf("decoding %s of %s: %w", key, secret.Name, err)
	}
	return &v, nil
}

func unpack(secret *corev1.Secret, key string, into any) (bool, error) {
	data := secret.Data[key]
	if len(data) == 0 {
		return false, nil
	}
	text, err := gunzip(data)
	if err != nil {
		return false, fmt.Errorf("unpacking %s of %s: %w", key, secret.Name, err)
	}
	if err := json.Unmarshal(text, into); err != nil {
		return false, fmt.Errorf("decoding %s of %s: %w", key, secret.Name, err)
	}
	return true, nil
}

func orMissing(err error, key string) error {
	if err != nil {
		return err
	}
	return fmt.Errorf("the run's Secret has no %s", key)
}

func pack(v any) ([]byte, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return gzipped(text)
}

func gzipped(text []byte) ([]byte, error) {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(text); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func gunzip(data []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	return text, r.Close()
}

package record

import (
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/appthrust/capt/internal/elements"
	"github.com/appthrust/capt/internal/terraform"
)

// maxResult limits what a result may expand to, and maxElements how many elements it may
// have: enough for 20,000 changes. A run writes it, and the manager decodes it.
const (
	maxResult   = 8 << 20
	maxElements = 150_000
)

// The number of entries of a list of a result. An entry of four bytes needs more than a
// hundred in memory. The runner writes 64 violations at most.
const (
	maxChanges     = 25_000
	maxOutputs     = 10_000
	maxDiagnostics = 5_000
	maxViolations  = 1_000
	maxPhases      = 1_000
)

// A result is large with more than largeResult bytes or largeElements elements.
const (
	largeResult   = 64 << 10
	largeElements = 2_000
)

// decodings limits how many large results are decoded at the same time. A decoded result may
// need 30 MiB for a moment, and the manager reconciles several workspaces at once.
var decodings = make(chan struct{}, 1)

// ErrResultTooLarge is the error of a result that the manager would not read.
var ErrResultTooLarge = errors.New("the result is too large")

// Result returns the result of a run, or nil if it has not finished. It waits for the
// decoding of other large results.
func Result(secret *corev1.Secret) (*terraform.Result, error) {
	if !Finished(secret) {
		return nil, nil
	}
	count, err := measureJSON(secret.Data[keyResult], maxResult, maxElements)
	if err != nil {
		return nil, fmt.Errorf("decompressing %s of Secret %s: %w", keyResult, secret.Name, err)
	}
	if count.Size > largeResult || count.Elements > largeElements {
		decodings <- struct{}{}
		defer func() { <-decodings }()
	}
	var read limitedResult
	if err := decode(secret, keyResult, count.Size, &read); err != nil {
		return nil, err
	}
	return read.result(), nil
}

// IsLarge reports whether the result of a run needs much memory, or cannot be read.
func IsLarge(secret *corev1.Secret) bool {
	if !Finished(secret) {
		return false
	}
	_, err := measureJSON(secret.Data[keyResult], largeResult, largeElements)
	return err != nil
}

// hasLongList reports whether Result would refuse a result because of its lists.
func hasLongList(result *terraform.Result) bool {
	long := result.Plan != nil && len(result.Plan.Changes) > maxChanges
	return long || len(result.Drift) > maxChanges || len(result.Blocked) > maxChanges || len(result.Saved) > maxChanges ||
		len(result.Outputs) > maxOutputs || len(result.Diagnostics) > maxDiagnostics ||
		len(result.Violations) > maxViolations || len(result.Phases) > maxPhases
}

// limitedResult decodes a result. Its fields hide those of the result whose lists are limited.
type limitedResult struct {
	terraform.Result

	Blocked     list[string]                    `json:"blocked"`
	Violations  list[terraform.PolicyViolation] `json:"violations"`
	Plan        *limitedPlan                    `json:"plan"`
	Drift       list[terraform.Change]          `json:"drift"`
	Outputs     outputs                         `json:"outputs"`
	Diagnostics list[terraform.Diagnostic]      `json:"diagnostics"`
	Saved       list[string]                    `json:"saved"`
	Phases      list[terraform.PhaseTime]       `json:"phases"`
}

type limitedPlan struct {
	terraform.PlanSummary

	Changes list[terraform.Change] `json:"changes"`
}

func (l *limitedResult) result() *terraform.Result {
	result := &l.Result
	result.Blocked, result.Violations, result.Drift = l.Blocked, l.Violations, l.Drift
	result.Outputs, result.Diagnostics = l.Outputs, terraform.Diagnostics(l.Diagnostics)
	result.Saved, result.Phases = l.Saved, l.Phases
	if l.Plan != nil {
		l.Plan.PlanSummary.Changes = l.Plan.Changes
		result.Plan = &l.Plan.PlanSummary
	}
	return result
}

// list is a list whose decoding fails if it has too many entries.
type list[T any] []T

// UnmarshalJSON implements json.Unmarshaler.
func (l *list[T]) UnmarshalJSON(text []byte) error {
	var entry T
	limit := maxChanges
	switch any(entry).(type) {
	case terraform.PolicyViolation:
		limit = maxViolations
	case terraform.Diagnostic:
		limit = maxDiagnostics
	case terraform.PhaseTime:
		limit = maxPhases
	}
	if err := checkEntries(text, limit); err != nil {
		return err
	}
	return json.Unmarshal(text, (*[]T)(l))
}

// outputs are outputs whose decoding fails if there are too many.
type outputs map[string]terraform.Output

// UnmarshalJSON implements json.Unmarshaler.
func (o *outputs) UnmarshalJSON(text []byte) error {
	if err := checkEntries(text, maxOutputs); err != nil {
		return err
	}
	return json.Unmarshal(text, (*map[string]terraform.Output)(o))
}

// checkEntries returns an error if a list or an object has too many entries.
func checkEntries(text []byte, limit int) error {
	if elements.Entries(text) > limit {
		return fmt.Errorf("it has a list of more than %d entries: %w", limit, ErrResultTooLarge)
	}
	return nil
}

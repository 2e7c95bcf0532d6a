package record

import (
	"bytes"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Limits of the data of a run in the cache. A run writes its own Secret, and a user who
// can create Secrets can create more of them.
const (
	maxCachedResult = 64 << 10
	maxCachedKey    = 16 << 10
)

// trimmedResult replaces a large result in the cache. Decoding it fails.
var trimmedResult = []byte("trimmed")

// Trim removes the data that the manager does not read from a cached Secret:
// logs, requests with their credentials, plans, states and modules. They may have a
// megabyte each, and every workspace has several. Never update a trimmed Secret
// as a whole: patch it, or read it from the API server first.
func Trim(secret *corev1.Secret) {
	component := secret.Labels[componentLabel]
	switch {
	case component == ComponentRun:
		trimRun(secret)
	case slices.Contains(InternalComponents(), component):
		secret.Data = nil
	}
}

// trimRun keeps the keys that the manager reads. It replaces a large result, which is
// then read from the API server. No runner writes other values that are so large.
func trimRun(secret *corev1.Secret) {
	kept := map[string][]byte{}
	for _, key := range []string{keyIdentity, keyProgress, keyState} {
		if value, found := secret.Data[key]; found {
			kept[key] = slices.Clone(value[:min(len(value), maxCachedKey)])
		}
	}
	if len(secret.Data[keyProgress]) > maxCachedKey {
		delete(kept, keyProgress)
	}
	if result, found := secret.Data[keyResult]; found {
		kept[keyResult] = result
		if len(result) > maxCachedResult {
			kept[keyResult] = trimmedResult
		}
	}
	secret.Data = kept
}

// HasTrimmedResult reports whether the result of a cached run has to be read from the
// API server.
func HasTrimmedResult(secret *corev1.Secret) bool {
	return bytes.Equal(secret.Data[keyResult], trimmedResult)
}

// InternalComponents returns the components whose Secrets no user refers to by
// name.
func InternalComponents() []string {
	return []string{ComponentRun, ComponentPlan, ComponentSnapshot, ComponentState, ComponentRescue, ComponentModule, ComponentTransfer, ComponentToken}
}

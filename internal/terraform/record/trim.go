package record

import (
	corev1 "k8s.io/api/core/v1"
)

// Trim removes the data that the manager does not read from a cached Secret:
// logs, requests with their credentials, plans, states and modules. They may have a
// megabyte each, and every workspace has several. Never update a trimmed Secret
// as a whole: patch it, or read it from the API server first.
func Trim(secret *corev1.Secret) {
	switch secret.Labels[componentLabel] {
	case ComponentRun:
		delete(secret.Data, keyLog)
		delete(secret.Data, keyRequest)
	case ComponentPlan, ComponentSnapshot, ComponentState, ComponentRescue, ComponentModule, ComponentTransfer:
		secret.Data = nil
	}
}

// InternalComponents returns the components whose Secrets no user refers to by
// name.
func InternalComponents() []string {
	return []string{ComponentRun, ComponentPlan, ComponentSnapshot, ComponentState, ComponentRescue, ComponentModule, ComponentTransfer}
}

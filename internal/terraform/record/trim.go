package record

import (
	corev1 "k8s.io/api/core/v1"
)

// Trim drops what the manager never reads from a Secret that it keeps in
// memory: logs, requests with their credentials, plans, states. They may be a
// megabyte each, and there are several for every workspace. A trimmed Secret
// must not be written back as a whole: change it by a patch, or read it anew.
func Trim(secret *corev1.Secret) {
	switch secret.Labels[componentLabel] {
	case ComponentRun:
		delete(secret.Data, keyLog)
		delete(secret.Data, keyRequest)
	case ComponentPlan, ComponentSnapshot, ComponentState, ComponentRescue:
		secret.Data = nil
	}
}

// InternalComponents are the components whose Secrets nobody refers to by name.
func InternalComponents() []string {
	return []string{ComponentRun, ComponentPlan, ComponentSnapshot, ComponentState, ComponentRescue}
}

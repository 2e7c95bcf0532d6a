package v1beta1

import "slices"

// failures are the reasons that need a user's attention.
var failures = []string{
	ApplyFailedReason, TimedOutReason, ReleaseStalledReason, MissingKeyReason, InvalidTargetPathReason, VersionUnsupportedReason,
	DependencyCycleReason, InvalidManifestReason, TooLargeReason, EmptyReason, DriftedReason, InvalidSecretReason, NotAllowedReason,
}

// IsFailure reports whether the reason of an add-on in a cluster needs a user's attention.
func IsFailure(reason string) bool { return slices.Contains(failures, reason) }

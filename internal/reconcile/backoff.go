package reconcile

import "time"

// Backoff returns the wait before the next retry after a number of retries in a row:
// the minimum, doubled for each of them, and at most the maximum.
func Backoff(minimum, maximum time.Duration, retries int32) time.Duration {
	wait := minimum
	for range retries {
		if wait *= 2; wait >= maximum {
			return maximum
		}
	}
	return min(wait, maximum)
}

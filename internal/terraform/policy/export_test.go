package policy

import "testing"

// LimitCosts changes the limits of costs for a test: the real ones take seconds.
func LimitCosts(t *testing.T, one, total uint64) {
	before, beforeTotal := maxCost, maxTotalCost
	maxCost, maxTotalCost = one, total
	t.Cleanup(func() { maxCost, maxTotalCost = before, beforeTotal })
}

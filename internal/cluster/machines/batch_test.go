package machines

import (
	"errors"
	"sync"
	"testing"

	. "github.com/onsi/gomega"
)

func TestSlowStart_stopsAfterFailedBatch(t *testing.T) {
	boom := errors.New("boom")
	tests := []struct {
		name      string
		count     int
		fails     func(i int) bool
		calls     int
		succeeded int
	}{
		{name: "none", count: 0},
		{name: "all", count: 12, calls: 12, succeeded: 12},
		{name: "first call fails", count: 500, fails: func(i int) bool { return i == 0 }, calls: 1},
		{name: "second batch fails", count: 500, fails: func(i int) bool { return i == 2 }, calls: 3, succeeded: 2},
		{name: "last call fails", count: 10, fails: func(i int) bool { return i == 9 }, calls: 10, succeeded: 9},
		{name: "whole batch fails", count: 500, fails: func(i int) bool { return i >= 7 }, calls: 15, succeeded: 7},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			var mu sync.Mutex
			seen := map[int]bool{}

			succeeded, err := SlowStart(tt.count, func(i int) error {
				mu.Lock()
				defer mu.Unlock()
				seen[i] = true
				if tt.fails != nil && tt.fails(i) {
					return boom
				}
				return nil
			})

			g.Expect(succeeded).To(Equal(tt.succeeded))
			g.Expect(seen).To(HaveLen(tt.calls))
			if tt.fails == nil {
				g.Expect(err).NotTo(HaveOccurred())
			} else {
				g.Expect(err).To(MatchError(boom))
			}
		})
	}
}

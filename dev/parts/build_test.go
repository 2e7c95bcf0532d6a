package main

import (
	"slices"
	"testing"
)

func TestCollection_leavesTheDecisionToTheUser(t *testing.T) {
	for _, tt := range []struct {
		percent, limit string
		want           []string
	}{
		{"", "", []string{"GOGC=400", "GOMEMLIMIT=2GiB"}},
		{"100", "", nil},
		{"", "1GiB", nil},
	} {
		if got := collection(tt.percent, tt.limit); !slices.Equal(got, tt.want) {
			t.Errorf("with GOGC=%s and GOMEMLIMIT=%s it is %q", tt.percent, tt.limit, got)
		}
	}
}

package main

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/local/controlplane"
	"github.com/appthrust/capt/internal/local/node"
)

func TestMaxAbsence_dependsOnTheStateOfTheCluster(t *testing.T) {
	for state, want := range map[controlplane.State]time.Duration{
		controlplane.Supervised: node.MaxAbsence,
		controlplane.Stopped:    0,
		controlplane.Unknown:    node.DefaultAbsence,
	} {
		NewWithT(t).Expect(maxAbsence(state)).To(Equal(want), "%v", state)
	}
}

package main

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"

	. "github.com/onsi/gomega"

	_ "github.com/appthrust/capt/internal/testenv/waits"
)

func TestDelayCollection_endsWithTheFirstCollection(t *testing.T) {
	g := NewWithT(t)
	percent := func() uint64 {
		sample := []metrics.Sample{{Name: "/gc/gogc:percent"}}
		metrics.Read(sample)
		return sample[0].Value.Uint64()
	}
	t.Cleanup(func() { debug.SetGCPercent(100) })
	debug.SetGCPercent(150)
	delayCollection()
	g.Expect(percent()).To(Equal(uint64(400)))
	runtime.GC()
	g.Eventually(percent).Should(Equal(uint64(150)))

	debug.SetGCPercent(800)
	delayCollection()
	g.Expect(percent()).To(Equal(uint64(800)), "the environment may delay it longer")
}

package capacity

import (
	"testing"

	. "github.com/onsi/gomega"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

func TestOf(t *testing.T) {
	for name, c := range map[string]struct {
		types                     []string
		cpu, memory, architecture string
	}{
		"none":                    {},
		"m7g.large":               {types: []string{"m7g.large"}, cpu: "2", memory: "8Gi", architecture: "arm64"},
		"m7g.medium":              {types: []string{"m7g.medium"}, cpu: "1", memory: "4Gi", architecture: "arm64"},
		"c5.9xlarge":              {types: []string{"c5.9xlarge"}, cpu: "36", memory: "72Gi", architecture: "amd64"},
		"r6i.32xlarge":            {types: []string{"r6i.32xlarge"}, cpu: "128", memory: "1Ti", architecture: "amd64"},
		"m7i-flex.xlarge":         {types: []string{"m7i-flex.xlarge"}, cpu: "4", memory: "16Gi", architecture: "amd64"},
		"t3.nano":                 {types: []string{"t3.nano"}, cpu: "2", memory: "512Mi", architecture: "amd64"},
		"t4g.medium":              {types: []string{"t4g.medium"}, cpu: "2", memory: "4Gi", architecture: "arm64"},
		"the least of several":    {types: []string{"m7g.2xlarge", "c7g.2xlarge", "r7g.xlarge"}, cpu: "4", memory: "16Gi", architecture: "arm64"},
		"of two architectures":    {types: []string{"m7g.large", "m7i.large"}, cpu: "2", memory: "8Gi"},
		"metal":                   {types: []string{"m7g.metal"}},
		"unknown family":          {types: []string{"p5.48xlarge"}},
		"unknown size":            {types: []string{"t3.4xlarge"}},
		"another cloud":           {types: []string{"standard-4"}},
		"one of them is unknown":  {types: []string{"m7g.large", "x1e.large"}},
		"not the name of a size":  {types: []string{"m7g.-2xlarge"}},
		"only the name of a kind": {types: []string{"m7g"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			capacity, info := Of(c.types...)
			g.Expect(info).To(Equal(infrav1.NodeInfo{Architecture: c.architecture}))
			if c.cpu == "" {
				g.Expect(capacity).To(BeEmpty())
				return
			}
			g.Expect(capacity.Cpu().String()).To(Equal(c.cpu))
			g.Expect(capacity.Memory().String()).To(Equal(c.memory))
		})
	}
}

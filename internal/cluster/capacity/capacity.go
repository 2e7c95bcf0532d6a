// Package capacity knows the capacity of AWS instance types, so that autoscalers can
// scale from zero without an instance to read it from. It knows only families whose sizes
// all have the same ratio of memory to virtual CPUs, and reports nothing about others.
package capacity

import (
	"fmt"
	"maps"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

const (
	amd64 = "amd64"
	arm64 = "arm64"
)

// family is what the sizes of an instance family have in common.
type family struct {
	architecture string
	// memory is the memory for each virtual CPU, in GiB.
	memory int64
}

// families are the families by name.
// Source: https://docs.aws.amazon.com/ec2/latest/instancetypes/instance-types.html
var families = merge(
	named(family{amd64, 4}, "m5", "m5a", "m5ad", "m5d", "m5dn", "m5n", "m6a", "m6i", "m6id", "m6idn", "m6in", "m7a", "m7i", "m7i-flex"),
	named(family{arm64, 4}, "m6g", "m6gd", "m7g", "m7gd", "m8g", "m8gd"),
	named(family{amd64, 2}, "c5", "c5a", "c5ad", "c5d", "c6a", "c6i", "c6id", "c6in", "c7a", "c7i", "c7i-flex"),
	named(family{arm64, 2}, "c6g", "c6gd", "c6gn", "c7g", "c7gd", "c7gn", "c8g", "c8gd"),
	named(family{amd64, 8}, "r5", "r5a", "r5ad", "r5b", "r5d", "r5dn", "r5n", "r6a", "r6i", "r6id", "r6idn", "r6in", "r7a", "r7i"),
	named(family{arm64, 8}, "r6g", "r6gd", "r7g", "r7gd", "r8g", "r8gd"),
)

// burstable are the sizes of the families t3, t3a and t4g, whose ratio differs.
var burstable = map[string]size{
	"nano": {2, 512}, "micro": {2, 1024}, "small": {2, 2048}, "medium": {2, 4096},
	"large": {2, 8192}, "xlarge": {4, 16384}, "2xlarge": {8, 32768},
}

var burstableFamilies = map[string]string{"t3": amd64, "t3a": amd64, "t4g": arm64}

// size is the size of an instance type.
type size struct {
	cpus int64
	// memory is in MiB.
	memory int64
}

func named(f family, names ...string) map[string]family {
	all := map[string]family{}
	for _, name := range names {
		all[name] = f
	}
	return all
}

func merge(all ...map[string]family) map[string]family {
	merged := map[string]family{}
	for _, of := range all {
		maps.Copy(merged, of)
	}
	return merged
}

// Of returns the capacity of a node that has one of the instance types: the least that
// each of them has. It returns nothing if a type is unknown. The architecture is empty if
// the types differ.
func Of(instanceTypes ...string) (corev1.ResourceList, infrav1.NodeInfo) {
	if len(instanceTypes) == 0 {
		return nil, infrav1.NodeInfo{}
	}
	var least size
	var info infrav1.NodeInfo
	for i, name := range instanceTypes {
		one, architecture, known := lookUp(name)
		switch {
		case !known:
			return nil, infrav1.NodeInfo{}
		case i == 0:
			least, info.Architecture = one, architecture
			continue
		case info.Architecture != architecture:
			info.Architecture = ""
		}
		least = size{cpus: min(least.cpus, one.cpus), memory: min(least.memory, one.memory)}
	}
	return corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewQuantity(least.cpus, resource.DecimalSI),
		corev1.ResourceMemory: resource.MustParse(fmt.Sprintf("%dMi", least.memory)),
	}, info
}

func lookUp(instanceType string) (found size, architecture string, known bool) {
	name, suffix, _ := strings.Cut(instanceType, ".")
	if architecture, is := burstableFamilies[name]; is {
		found, known = burstable[suffix]
		return found, architecture, known
	}
	f, known := families[name]
	cpus, isSize := cpusOf(suffix)
	if !known || !isSize {
		return size{}, "", false
	}
	return size{cpus: cpus, memory: cpus * f.memory * 1024}, f.architecture, true
}

// cpusOf returns the number of virtual CPUs of a size. It does not know metal sizes.
func cpusOf(suffix string) (int64, bool) {
	switch suffix {
	case "medium":
		return 1, true
	case "large":
		return 2, true
	case "xlarge":
		return 4, true
	}
	text, isMultiple := strings.CutSuffix(suffix, "xlarge")
	n, err := strconv.ParseInt(text, 10, 8)
	if !isMultiple || err != nil || n < 2 {
		return 0, false
	}
	return 4 * n, true
}

package machines

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"strconv"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/validation"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// shape is the part of a template that an existing machine cannot take over.
// What is in place is left out by name, so that a field which is added to the
// API makes new machines until somebody decides otherwise.
func shape(spec *infrav1.CAPTMachineSpec) *infrav1.CAPTMachineSpec {
	shaped := spec.DeepCopy()
	shaped.Labels, shaped.Taints, shaped.Tags, shaped.Drain = nil, nil, nil, nil
	if len(shaped.Variables) == 0 {
		shaped.Variables = nil
	}
	for name, value := range shaped.Variables {
		shaped.Variables[name] = infrav1.Value{Raw: canonical(value.Raw)}
	}
	return shaped
}

// canonical is JSON text in one form, whatever its order and spaces were.
func canonical(raw []byte) []byte {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var value any
	if decoder.Decode(&value) != nil {
		return raw
	}
	text, err := json.Marshal(value)
	if err != nil {
		return raw
	}
	return text
}

// SameShape tells whether the machines of two templates are the same, but for
// what can be changed in place.
func SameShape(a, b *infrav1.CAPTMachineSpec) bool {
	return equality.Semantic.DeepEqual(shape(a), shape(b))
}

// Hash names the shape of a template. A collision is resolved by counting it.
func Hash(spec *infrav1.CAPTMachineSpec, collisions *int32) string {
	h := fnv.New32a()
	text, err := json.Marshal(shape(spec))
	if err != nil {
		// Only a value that is no JSON does not marshal, and the API has none.
		text = fmt.Appendf(nil, "%#v", spec)
	}
	_, _ = h.Write(text)
	if collisions != nil && *collisions > 0 {
		_, _ = h.Write([]byte(strconv.FormatInt(int64(*collisions), 10)))
	}
	return rand.SafeEncodeString(strconv.FormatUint(uint64(h.Sum32()), 10))
}

// SetName is the name of a deployment's set.
func SetName(deployment, hash string) string {
	return truncate(deployment, validation.DNS1123SubdomainMaxLength-len(hash)-1) + "-" + hash
}

const (
	// suffixLength keeps the names of 10,000 machines apart.
	suffixLength = 6
	// longestMachineName is what a label, a node and a workspace can be called.
	longestMachineName = validation.DNS1123LabelMaxLength
)

// MachineName is a name for a machine of a set; each call gives another one.
func MachineName(set string) string {
	return truncate(set, longestMachineName-suffixLength-1) + "-" + rand.String(suffixLength)
}

// truncate cuts a name so that a dash and more can follow.
func truncate(name string, longest int) string {
	if len(name) <= longest {
		return name
	}
	name = name[:longest]
	for name[len(name)-1] == '-' || name[len(name)-1] == '.' {
		name = name[:len(name)-1]
	}
	return name
}

// Mismatch tells in a sentence why a selector would not find the machines that
// have the labels, or nothing.
func Mismatch(selector labels.Selector, machine map[string]string) string {
	if selector.Empty() {
		return "spec.selector selects every machine: set matchLabels"
	}
	if !selector.Matches(labels.Set(machine)) {
		return fmt.Sprintf("spec.template.metadata.labels do not match spec.selector, so the machines would not be found again: add labels for %s", selector)
	}
	return ""
}

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
	"github.com/appthrust/capt/internal/kubernetes/kubeversion"
)

// replacementSpec returns the part of a template whose change requires a new
// machine. It drops the fields that are updated in place by name, so that a new
// field of the API requires a new machine by default.
func replacementSpec(spec *infrav1.CAPTMachineSpec) *infrav1.CAPTMachineSpec {
	reduced := spec.DeepCopy()
	reduced.Labels, reduced.Taints, reduced.Tags, reduced.Drain, reduced.Workspace = nil, nil, nil, nil, nil
	if minor := kubeversion.MinorOf(spec.Version); minor != "" {
		reduced.Version = minor
	}
	if len(reduced.Variables) == 0 {
		reduced.Variables = nil
	}
	for name, value := range reduced.Variables {
		reduced.Variables[name] = infrav1.Value{Raw: canonicalJSON(value.Raw)}
	}
	return reduced
}

// canonicalJSON returns JSON with sorted keys and without white space.
func canonicalJSON(raw []byte) []byte {
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

// UpdatableInPlace reports whether a machine of one template can be updated in
// place to the other.
func UpdatableInPlace(a, b *infrav1.CAPTMachineSpec) bool {
	return equality.Semantic.DeepEqual(replacementSpec(a), replacementSpec(b))
}

// Hash returns a short hash of the fields whose change requires a new machine. The
// number of collisions so far is part of the hash.
func Hash(spec *infrav1.CAPTMachineSpec, collisions *int32) string {
	h := fnv.New32a()
	text, err := json.Marshal(replacementSpec(spec))
	if err != nil {
		// Only values that are not JSON cannot be encoded. The API accepts none.
		text = fmt.Appendf(nil, "%#v", spec)
	}
	_, _ = h.Write(text)
	if collisions != nil && *collisions > 0 {
		_, _ = h.Write([]byte(strconv.FormatInt(int64(*collisions), 10)))
	}
	return rand.SafeEncodeString(strconv.FormatUint(uint64(h.Sum32()), 10))
}

// SetName returns the name of a deployment's set.
func SetName(deployment, hash string) string {
	return namePrefix(deployment, validation.DNS1123SubdomainMaxLength-len(hash)-1) + "-" + hash
}

const (
	// suffixLength makes collisions unlikely among 10,000 machines.
	suffixLength = 6
	// maxMachineName is the longest name that a label, a node and a workspace can
	// have.
	maxMachineName = validation.DNS1123LabelMaxLength
)

// MachineName returns a random name for a machine of a set.
func MachineName(set string) string {
	return namePrefix(set, maxMachineName-suffixLength-1) + "-" + rand.String(suffixLength)
}

// namePrefix returns at most limit characters of a name, so that a dash can
// follow. The suffix that callers add makes the name unique.
func namePrefix(name string, limit int) string {
	if len(name) <= limit {
		return name
	}
	name = name[:limit]
	for name[len(name)-1] == '-' || name[len(name)-1] == '.' {
		name = name[:len(name)-1]
	}
	return name
}

// SelectorProblem returns why a selector does not select machines with the labels,
// or an empty string if it does.
func SelectorProblem(selector labels.Selector, machine map[string]string) string {
	if selector.Empty() {
		return "spec.selector selects every machine: set matchLabels"
	}
	if !selector.Matches(labels.Set(machine)) {
		return fmt.Sprintf("spec.template.metadata.labels do not match spec.selector: add labels for %s", selector)
	}
	return ""
}

package runner

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/change"
)

// updates returns changes of resources with a value of a size.
func updates(sizes ...int) func(emit func(change.Entry) error) error {
	return func(emit func(change.Entry) error) error {
		for i, size := range sizes {
			value, _ := json.Marshal(strings.Repeat("<", size))
			attribute := change.Attribute{Path: change.Path{{Key: "name"}}, Action: terraform.ActionUpdate, After: value}
			if err := emit(change.Entry{Resource: &change.Resource{Address: fmt.Sprintf("a.b[%d]", i), Attributes: []change.Attribute{attribute}}}); err != nil {
				return err
			}
		}
		return nil
	}
}

func TestEncodeChanges_omitsWhatDoesNotFit(t *testing.T) {
	const most = change.MaxStored / len(`\u003c`)
	for name, tt := range map[string]struct {
		sizes           []int
		stored, omitted int
	}{
		"none":            {nil, 0, 0},
		"small ones":      {[]int{10, 20}, 2, 0},
		"a large one":     {[]int{10, most, 20}, 2, 1},
		"two large ones":  {[]int{most - 1000, most - 1000, 10}, 2, 1},
		"many":            {make([]int, change.MaxEntries+7), 0, 0},
		"only large ones": {[]int{most, most}, 0, 2},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			content, err := encodeChanges(updates(tt.sizes...), false)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(len(content)).To(BeNumerically("<", 1<<20), "an object of the API server")
			stored, omitted := 0, 0
			for decoder := json.NewDecoder(bytes.NewReader(content)); decoder.More(); {
				var entry change.Entry
				g.Expect(decoder.Decode(&entry)).To(Succeed())
				g.Expect(omitted).To(BeZero(), "it is the last one")
				if omitted = entry.Omitted; omitted == 0 {
					stored++
				}
			}
			g.Expect(stored + omitted).To(Equal(len(tt.sizes)))
			if name == "many" {
				g.Expect(stored).To(And(BeNumerically(">", 1000), BeNumerically("<=", change.MaxEntries)))
				return
			}
			g.Expect([]int{stored, omitted}).To(Equal([]int{tt.stored, tt.omitted}))
		})
	}
}

func TestEncodeChanges_hidesTheValuesOfAnEncryptedState(t *testing.T) {
	g := NewWithT(t)
	content, err := encodeChanges(updates(10), true)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(content)).To(And(ContainSubstring("a.b[0]"), ContainSubstring(`"sensitive":true`), Not(ContainSubstring("after"))))
}

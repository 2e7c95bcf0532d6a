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

func TestEncodeChanges_omitsAttributesThatDoNotFit(t *testing.T) {
	const most = change.MaxStored / len(`\u003c`)
	large := make([]int, 5000)
	for i := range large {
		large[i] = 100
	}
	for name, tt := range map[string]struct {
		sizes []int
		// whole, bare and omitted are how many are stored with and without attributes, and not
		// at all. Whole is negative if it is between none and all.
		whole, bare, omitted int
	}{
		"none":           {nil, 0, 0, 0},
		"small ones":     {[]int{10, 20}, 2, 0, 0},
		"a large one":    {[]int{10, most, 20}, 2, 1, 0},
		"two large ones": {[]int{most - 1000, most - 1000, 10}, 2, 1, 0},
		"thousands":      {large, -1, -1, 0},
		"too many":       {make([]int, 20_000), -1, -1, 10_000},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			content, err := encodeChanges(updates(tt.sizes...), false)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(len(content)).To(BeNumerically("<", change.MaxStored+100))
			whole, bare, omitted := 0, 0, 0
			for decoder := json.NewDecoder(bytes.NewReader(content)); decoder.More(); {
				var entry change.Entry
				g.Expect(decoder.Decode(&entry)).To(Succeed())
				g.Expect(omitted).To(BeZero(), "it is the last one")
				switch {
				case entry.Omitted > 0:
					omitted = entry.Omitted
				case entry.Resource.Omitted == 1 && len(entry.Resource.Attributes) == 0:
					bare++
				case entry.Resource.Omitted == 0 && len(entry.Resource.Attributes) == 1:
					whole++
				}
			}
			g.Expect(whole + bare + omitted).To(Equal(len(tt.sizes)))
			for _, n := range []struct{ got, want int }{{whole, tt.whole}, {bare, tt.bare}, {omitted, tt.omitted}} {
				if n.want < 0 {
					g.Expect(n.got).To(BeNumerically(">", 500))
				} else {
					g.Expect(n.got).To(Equal(n.want))
				}
			}
		})
	}
}

func TestEncodeChanges_hidesTheValuesOfAnEncryptedState(t *testing.T) {
	g := NewWithT(t)
	content, err := encodeChanges(updates(10), true)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(content)).To(And(ContainSubstring("a.b[0]"), ContainSubstring(`"sensitive":true`), Not(ContainSubstring("after"))))
}

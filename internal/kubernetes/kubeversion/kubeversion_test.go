package kubeversion_test

import (
	"encoding/json"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/kubernetes/kubeversion"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"1.34": "1.34", "v1.34": "1.34", "v1.34.2": "1.34", "1.34+": "1.34",
		"v1.34.2-eks-1a2b3c4": "1.34", "1.9": "1.9", "v1.34.0+abc.1": "1.34", "v1.37.0-alpha.1+abc": "1.37",
		"latest": "", "1.36.x": "", "1.36 --help": "", "-1.36": "",
		"": "", "1": "", "v1": "", "1.x": "", "one": "", "one.two": "", "1.34.": "", "1.34.2.1": "", " 1.34": "", "1.34 ": "", "12345.1": "",
	} {
		minor, err := kubeversion.Parse(text)
		if want == "" {
			NewWithT(t).Expect(err).To(MatchError(ContainSubstring("write one such as 1.36")), text)
			continue
		}
		NewWithT(t).Expect(err).NotTo(HaveOccurred(), text)
		NewWithT(t).Expect(minor.String()).To(Equal(want), text)
	}
}

func TestMinor_ordersByNumbers(t *testing.T) {
	g := NewWithT(t)
	old, recent := kubeversion.Minor{Major: 1, Minor: 9}, kubeversion.Minor{Major: 1, Minor: 10}
	g.Expect(old.Less(recent)).To(BeTrue())
	g.Expect(recent.Less(old)).To(BeFalse())
	g.Expect(old.Less(old)).To(BeFalse())
	g.Expect(recent.Less(kubeversion.Minor{Major: 2})).To(BeTrue())
	g.Expect((kubeversion.Minor{Major: 2}).Less(recent)).To(BeFalse())
	g.Expect(old.Next()).To(Equal(recent))
}

func TestMinor_unmarshalsStringsAndNumbers(t *testing.T) {
	var minors []kubeversion.Minor
	NewWithT(t).Expect(json.Unmarshal([]byte(`["1.34", 1.33]`), &minors)).To(Succeed())
	NewWithT(t).Expect(minors).To(Equal([]kubeversion.Minor{{Major: 1, Minor: 34}, {Major: 1, Minor: 33}}))
	NewWithT(t).Expect(json.Unmarshal([]byte(`["x"]`), &minors)).NotTo(Succeed())
}

package record_test

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/appthrust/capt/internal/terraform/record"
)

func TestRunID_roundTrips(t *testing.T) {
	for _, name := range []string{"a", "hello", "hello-r7", "r-r-r1", "a.b.c", strings.Repeat("x", 200), strings.Repeat("r1-", 60) + "r1"} {
		for _, number := range []int64{1, 9, 10, 1234567890} {
			g := NewWithT(t)
			id := record.NewRunID(name, number)
			workspace, got, err := record.ParseRunID(id)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(got).To(Equal(number), id)
			g.Expect(workspace).To(Equal(record.Shorten(name, 45)))
			g.Expect(record.RunNumber(id)).To(Equal(number))
			g.Expect(validation.IsValidLabelValue(id)).To(BeEmpty(), id)
			g.Expect(validation.IsDNS1123Subdomain(record.SecretName(id))).To(BeEmpty(), id)
			g.Expect(len(id)).To(BeNumerically("<=", 63), "limit of the status and of a Job's name")
		}
	}
}

func TestParseRunID_rejectsOtherTexts(t *testing.T) {
	for _, id := range []string{"", "hello", "hello-r", "hello-rx", "hello-r1x"} {
		workspace, number, err := record.ParseRunID(id)
		g := NewWithT(t)
		g.Expect(err).To(MatchError(ContainSubstring("has no number")), id)
		g.Expect(workspace).To(BeEmpty())
		g.Expect(number).To(BeZero())
	}
}

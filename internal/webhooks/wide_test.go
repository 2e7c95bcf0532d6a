package webhooks

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// What would exhaust the memory or the stack of the manager is refused before it is parsed.
func TestWideValues_areRefused(t *testing.T) {
	g := NewWithT(t)
	path := field.NewPath("spec")
	wide, deep := "["+strings.Repeat("7,", 700_000)+"7]", strings.Repeat("[", 500_000)
	g.Expect(checkHCL(path, "main.tf", "a = "+wide)).To(ConsistOf(MatchError(ContainSubstring("more than 100000 tokens"))))
	g.Expect(checkHCL(path, "main.tf", "a = "+deep[:90_000])).To(ConsistOf(MatchError(ContainSubstring("nested too deeply"))))
	g.Expect(checkJSONModule(path, "main.tf.json", `{"a":`+wide+`}`)).To(ConsistOf(MatchError(ContainSubstring("more than 100000 tokens"))))
	g.Expect(checkJSONModule(path, "main.tf.json", `{"a":`+deep[:90_000])).To(ConsistOf(MatchError(ContainSubstring("nested too deeply"))))
}

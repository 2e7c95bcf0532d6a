package history

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/appthrust/capt/internal/terraform"
)

// A policy editor of a namespace can create and delete policies forever.
func TestMetrics_limitTheNumberOfPolicies(t *testing.T) {
	g := NewWithT(t)
	for i := range 3 * maxPolicies {
		ExpectViolations(&terraform.Policies{Policies: []terraform.Policy{{
			Kind: "WorkspacePolicy", Name: fmt.Sprintf("churn-%d", i), Rules: []terraform.PolicyRule{{Action: terraform.PolicyDeny}},
		}}})
	}
	counters := make(chan prometheus.Metric, 4*maxPolicies)
	policyViolations.Collect(counters)
	g.Expect(len(counters)).To(BeNumerically("<", 2*maxPolicies))
	late := violationsOf("WorkspacePolicy", "churn-late", terraform.PolicyDeny)
	g.Expect(late).To(BeIdenticalTo(policyViolations.WithLabelValues("WorkspacePolicy", otherPolicies, string(terraform.PolicyDeny))), "it is counted")
	g.Expect(violationsOf("WorkspacePolicy", "churn-0", terraform.PolicyDeny)).NotTo(BeIdenticalTo(late))
}

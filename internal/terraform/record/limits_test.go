package record_test

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
	"github.com/appthrust/capt/internal/testenv/memorytest"
)

// maxAllocated is what the manager may allocate to refuse what a run has written.
const maxAllocated = 8 << 20

// A run writes what the manager decodes. A few KiB of it must not fill the memory of the
// manager.
func TestLimits_ofElements(t *testing.T) {
	g := NewWithT(t)
	for name, text := range map[string]string{
		"drift":       `{"outcome":"Failed","drift":[` + strings.Repeat("{},", 2<<20) + `{}]}`,
		"diagnostics": `{"outcome":"Failed","diagnostics":[` + strings.Repeat("{},", 1<<20) + `{}]}`,
		"outputs":     `{"outcome":"Failed","outputs":{` + strings.Repeat(`"a":{},`, 1<<20) + `"a":{}}}`,
		"large":       `{"outcome":"Failed","invalidInputs":"` + strings.Repeat("x", 9<<20) + `"}`,
	} {
		secret := &corev1.Secret{Data: map[string][]byte{"result": compressed(g, text)}}
		var err error
		g.Expect(memorytest.Allocated(func() { _, err = record.Result(secret) })).To(BeNumerically("<", maxAllocated), name)
		g.Expect(err).To(MatchError(Or(ContainSubstring("more than 50000 elements"), ContainSubstring("exceeds 4 MiB"))), name)
	}
	progress := &corev1.Secret{Data: map[string][]byte{"progress": []byte(`{"current":[` + strings.Repeat("{},", 1<<18) + `{}]}`)}}
	var err error
	g.Expect(memorytest.Allocated(func() { _, err = record.Progress(progress) })).To(BeNumerically("<", maxAllocated))
	g.Expect(err).To(MatchError(ContainSubstring("it exceeds 64 KiB")))

	for name, text := range map[string]string{
		"resources": `{"lineage":"l","serial":7,"resources":[` + strings.Repeat("{},", 16<<20) + `{}]}`,
		"a text":    `{"lineage":"l","serial":7,"outputs":{"a":"` + strings.Repeat("x", 32<<20) + `"},"resources":[{}]}`,
	} {
		state := &corev1.Secret{Data: map[string][]byte{"tfstate": compressed(g, text)}}
		var empty bool
		var version terraform.StateInfo
		g.Expect(memorytest.Allocated(func() { empty, version, err = record.StateIsEmpty(state) })).To(BeNumerically("<", maxAllocated+len(text)), name)
		g.Expect(err).NotTo(HaveOccurred(), name)
		g.Expect(empty).To(BeFalse(), name)
		g.Expect(version).To(Equal(terraform.StateInfo{Lineage: "l", Serial: 7}), name)
	}
	deep := &corev1.Secret{Data: map[string][]byte{"tfstate": compressed(g, strings.Repeat(`{"resources":[`, 4<<20))}}
	_, _, err = record.StateIsEmpty(deep)
	g.Expect(err).To(MatchError("the state is not valid JSON"))
}

// Ten workers may have one each.
func TestLimits_needLittleMemory(t *testing.T) {
	g := NewWithT(t)
	for _, list := range []string{"violations", "diagnostics", "drift", "phases", "blocked"} {
		text := `{"outcome":"Failed","` + list + `":[` + strings.Repeat("null,", 49_900) + `null]}`
		secret := &corev1.Secret{Data: map[string][]byte{"result": compressed(g, text)}}
		var err error
		g.Expect(memorytest.Allocated(func() { _, err = record.Result(secret) })).To(BeNumerically("<", 48<<20), list)
		g.Expect(err).NotTo(HaveOccurred(), list)
	}
}

func TestResult_readsAllFields(t *testing.T) {
	g := NewWithT(t)
	result := &terraform.Result{
		RunID: "r", Outcome: terraform.OutcomeSucceeded, Blocked: []string{"a"}, Violations: []terraform.PolicyViolation{{Rule: "r"}},
		Plan:  &terraform.PlanSummary{ID: "p", Add: 1, Changes: []terraform.Change{{Address: "a"}}, Omitted: 2},
		Drift: []terraform.Change{{Address: "b"}}, Outputs: map[string]terraform.Output{"o": {Value: []byte(`{"a":[1]}`), Sensitive: true}},
		Diagnostics: terraform.Diagnostics{{Summary: "s"}}, Saved: []string{"s"}, Phases: []terraform.PhaseTime{{Name: terraform.PhaseApplying}},
		LockFile: []byte("lock"), State: terraform.StateInfo{Lineage: "l", Serial: 3},
	}
	secret := &corev1.Secret{}
	g.Expect(record.SetResult(secret, result)).To(Succeed())
	g.Expect(record.Result(secret)).To(Equal(result))

	secret.Data["result"] = compressed(g, `{"outcome":"Failed","plan":null,"outputs":null,"drift":null}`)
	g.Expect(record.Result(secret)).To(Equal(&terraform.Result{Outcome: terraform.OutcomeFailed}))
	for _, text := range []string{`{"outputs":[]}`, `{"drift":{}}`, `{"drift":"` + strings.Repeat("x", 1<<20) + `"}`} {
		secret.Data["result"] = compressed(g, text)
		_, err := record.Result(secret)
		g.Expect(err).To(MatchError(ContainSubstring("cannot unmarshal")), text[:10])
		g.Expect(len(err.Error())).To(BeNumerically("<", 200), text[:10])
	}
}

// What the runs of large modules write is below the limits, and a runner shortens the rest.
func TestLimits_allowLargeResults(t *testing.T) {
	g := NewWithT(t)
	result := &terraform.Result{Outcome: terraform.OutcomeSucceeded, Plan: &terraform.PlanSummary{ID: "p"}}
	for range 8_000 {
		result.Plan.Changes = append(result.Plan.Changes, terraform.Change{
			Address: `module.network["eu-central-1"].aws_subnet.private[10]`, Action: "create", Type: "aws_subnet", PreviousAddress: "aws_subnet.a", Reason: "r",
		})
	}
	secret := &corev1.Secret{}
	g.Expect(record.SetResult(secret, result)).To(Succeed())
	read, err := record.Result(secret)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(read.Plan.Changes).To(HaveLen(8_000))
	_, err = record.FinishPatch(result, nil)
	g.Expect(err).NotTo(HaveOccurred())

	result.Drift = result.Plan.Changes
	_, err = record.FinishPatch(result, nil)
	g.Expect(err).To(MatchError(record.ErrResultTooLarge))
}

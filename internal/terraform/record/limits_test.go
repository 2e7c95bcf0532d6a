package record_test

import (
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
	"github.com/appthrust/capt/internal/testenv/memorytest"
)

// maxAllocated is what the manager may allocate to refuse what a run has written.
const maxAllocated = 4 << 20

// A run writes what the manager decodes. A few KiB of it must not fill the memory of the
// manager, which has 128 MiB.
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
		g.Expect(err).To(MatchError(Or(ContainSubstring("more than 150000 elements"), ContainSubstring("exceeds 8 MiB"))), name)
	}
	progress := &corev1.Secret{Data: map[string][]byte{"progress": []byte(`{"current":[` + strings.Repeat("{},", 1<<18) + `{}]}`)}}
	var err error
	g.Expect(memorytest.Allocated(func() { _, err = record.Progress(progress) })).To(BeNumerically("<", maxAllocated))
	g.Expect(err).To(MatchError(ContainSubstring("more than 10000 elements")))

	for name, text := range map[string]string{
		"resources": `{"lineage":"l","serial":7,"resources":[` + strings.Repeat("0,", 16<<20) + `0]}`,
		"a text":    `{"lineage":"l","serial":7,"outputs":{"a":"` + strings.Repeat("x", 32<<20) + `"},"resources":[{}]}`,
		"deep":      `{"lineage":"l","serial":7,"resources":` + strings.Repeat("[", 8<<20) + strings.Repeat("]", 8<<20) + `}`,
	} {
		state := &corev1.Secret{Data: map[string][]byte{"tfstate": compressed(g, text)}}
		var empty bool
		var version terraform.StateInfo
		g.Expect(memorytest.Allocated(func() { empty, version, err = record.StateIsEmpty(state) })).To(BeNumerically("<", maxAllocated), name)
		g.Expect(err).NotTo(HaveOccurred(), name)
		g.Expect(empty).To(BeFalse(), name)
		g.Expect(version).To(Equal(terraform.StateInfo{Lineage: "l", Serial: 7}), name)
	}
}

// An entry `null` is one element, and needs more than a hundred bytes in memory.
func TestLimits_ofLists(t *testing.T) {
	g := NewWithT(t)
	empty := strings.Repeat("null,", 149_900) + "null"
	var outputs strings.Builder
	for i := range 100_000 {
		fmt.Fprintf(&outputs, `"%d":null,`, i)
	}
	for name, text := range map[string]string{
		"violations":  `"violations":[` + empty + `]`,
		"diagnostics": `"diagnostics":[` + empty + `]`,
		"drift":       `"drift":[` + empty + `]`,
		"changes":     `"plan":{"id":"p","changes":[` + empty + `]}`,
		"phases":      `"phases":[` + empty + `]`,
		"blocked":     `"blocked":[` + empty + `]`,
		"saved":       `"SAVED":[` + empty + `]`,
		"outputs":     `"outputs":{` + outputs.String() + `"a":null}`,
	} {
		secret := &corev1.Secret{Data: map[string][]byte{"result": compressed(g, `{"outcome":"Failed",`+text+`}`)}}
		var err error
		g.Expect(memorytest.Allocated(func() { _, err = record.Result(secret) })).To(BeNumerically("<", maxAllocated), name)
		g.Expect(err).To(MatchError(record.ErrResultTooLarge), name)
	}
}

// What Result does not read is not written either: the runner shortens it.
func TestLimits_ofListsAreThoseOfTheRunner(t *testing.T) {
	for name, result := range map[string]terraform.Result{
		"violations":  {Violations: make([]terraform.PolicyViolation, 1_001)},
		"diagnostics": {Diagnostics: make(terraform.Diagnostics, 5_001)},
		"drift":       {Drift: make([]terraform.Change, 25_001)},
		"changes":     {Plan: &terraform.PlanSummary{Changes: make([]terraform.Change, 25_001)}},
		"phases":      {Phases: make([]terraform.PhaseTime, 1_001)},
		"blocked":     {Blocked: make([]string, 25_001)},
		"saved":       {Saved: make([]string, 25_001)},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			secret := &corev1.Secret{}
			g.Expect(record.SetResult(secret, &result)).To(Succeed())
			_, err := record.Result(secret)
			g.Expect(err).To(MatchError(record.ErrResultTooLarge))
			_, err = record.FinishPatch(&result, nil)
			g.Expect(err).To(MatchError(record.ErrResultTooLarge))
		})
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
	for range 20_000 {
		result.Plan.Changes = append(result.Plan.Changes, terraform.Change{
			Address: `module.network["eu-central-1"].aws_subnet.private[10]`, Action: "create", Type: "aws_subnet", PreviousAddress: "aws_subnet.a", Reason: "r",
		})
	}
	secret := &corev1.Secret{}
	g.Expect(record.SetResult(secret, result)).To(Succeed())
	read, err := record.Result(secret)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(read.Plan.Changes).To(HaveLen(20_000))
	_, err = record.FinishPatch(result, nil)
	g.Expect(err).NotTo(HaveOccurred())

	result.Drift = result.Plan.Changes
	_, err = record.FinishPatch(result, nil)
	g.Expect(err).To(MatchError(record.ErrResultTooLarge))
}

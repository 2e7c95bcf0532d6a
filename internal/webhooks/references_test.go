package webhooks

import (
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/util/validation/field"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/testenv/memorytest"
)

// The values of placeholders are in the same object, so that admission knows the names.
func TestWorkspaceTemplateApply_namesWithTheValuesOfPlaceholders(t *testing.T) {
	variables := map[string]infrav1.Value{
		"ok": infrav1.StringValue("vpc"), "number": {Raw: []byte("7")}, "long": infrav1.StringValue(strings.Repeat("x", 127)),
		"upper": infrav1.StringValue("VPC"), "empty": infrav1.StringValue(""), "list": {Raw: []byte(`["a"]`)}, "path": infrav1.StringValue("../a"),
	}
	set := map[string]func(*infrav1.WorkspaceTemplateApply, infrav1.ObjectReference){
		"spec.waitForSecrets[0].name": func(a *infrav1.WorkspaceTemplateApply, ref infrav1.ObjectReference) {
			a.Spec.WaitForSecrets = []infrav1.ObjectReference{ref}
		},
		"spec.waitForWorkspaces[0].name": func(a *infrav1.WorkspaceTemplateApply, ref infrav1.ObjectReference) {
			a.Spec.WaitForWorkspaces = []infrav1.ObjectReference{ref}
		},
		"spec.writeConnectionSecretToRef.name": func(a *infrav1.WorkspaceTemplateApply, ref infrav1.ObjectReference) {
			a.Spec.WriteConnectionSecretToRef = &ref
		},
	}
	for name, want := range map[string]string{
		"plain": "", "${ok}": "", "${ok}-${number}": "", "${long}${ok}": "", "${empty}a": "", "${unknown}-a": "", "${WORKSPACE_NAME}-a": "", "${WORKSPACE_UID}": "",
		"${long}${long}": "has more than 253 bytes, the limit, with the values of its placeholders: shorten the value of ${long}",
		"a-${upper}":     `with the values of spec.variables, not "a-VPC": lower-case letters, digits, '-' and '.'`,
		"${empty}":       `with the values of spec.variables, not ""`,
		"a-${empty}":     `with the values of spec.variables, not "a-"`,
		"${list}":        `not "[\"a\"]"`,
		"${path}":        `not "../a"`,
		"${upper":        "has no closing brace",
		"A-${ok}":        "lower-case letters, digits, '-' and '.', and ${...} placeholders",
	} {
		for field, set := range set {
			g := NewWithT(t)
			apply := &infrav1.WorkspaceTemplateApply{}
			apply.Spec.Variables = variables
			set(apply, infrav1.ObjectReference{Name: name})
			errs := Check(apply)
			if want == "" {
				g.Expect(errs).To(BeEmpty(), "%s: %s", field, name)
				continue
			}
			g.Expect(errs).To(ConsistOf(And(HaveField("Field", field), MatchError(ContainSubstring(want)))), "%s: %s", field, name)
		}
	}
}

func TestCheckKnownPlaceholders_reportsSomeOfMany(t *testing.T) {
	g := NewWithT(t)
	var text strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&text, "${A%d}", i)
	}
	g.Expect(checkKnownPlaceholders(field.NewPath("spec"), text.String(), []string{"NAME"})).To(HaveLen(20))
	g.Expect(checkKnownPlaceholders(field.NewPath("spec"), "${NAME}${A}${B}", []string{"NAME"})).To(HaveLen(2))
}

func TestWorkspaceTemplateApply_isCheckedWithLittleMemory(t *testing.T) {
	g := NewWithT(t)
	apply := &infrav1.WorkspaceTemplateApply{}
	apply.Spec.Variables = map[string]infrav1.Value{"V": infrav1.StringValue(strings.Repeat("x", 1_400_000))}
	for range 64 {
		apply.Spec.WaitForSecrets = append(apply.Spec.WaitForSecrets, infrav1.ObjectReference{Name: strings.Repeat("${V}", 63)})
	}
	g.Expect(memorytest.Allocated(func() {
		g.Expect(Check(apply)).To(ContainElement(MatchError(ContainSubstring("shorten the value of ${V}"))))
	})).To(BeNumerically("<", 1<<20))
}

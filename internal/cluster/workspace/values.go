package workspace

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// Values collects what an owner gives to the variables of a template. What the
// module declares is known of inline modules only; a remote one is inspected by
// the run that fetches it, which refuses what it does not take.
type Values struct {
	template string
	// inspected tells whether declared is complete.
	inspected bool
	declared  map[string]bool
	// text is the template without its module, where placeholders may stand.
	text     string
	values   map[string]infrav1.Value
	refused  []string
	problems []error
}

// NewValues looks at a template. It waits for a template that has not been
// inspected yet, and stalls on one whose module is broken.
func NewValues(template *infrav1.WorkspaceTemplate) (*Values, error) {
	v := &Values{template: template.Name, declared: map[string]bool{}, values: map[string]infrav1.Value{}}
	valid := conditions.Get(template, infrav1.ModuleValidCondition)
	switch {
	case valid == nil || valid.ObservedGeneration < template.Generation:
		return nil, fault.Wait(infrav1.WaitingForTemplateReason, "WorkspaceTemplate %s has not been looked at yet", template.Name)
	case valid.Status != metav1.ConditionTrue:
		return nil, fault.Stall(infrav1.WaitingForTemplateReason, "WorkspaceTemplate %s: %s", template.Name, valid.Message)
	case valid.Reason == infrav1.ModuleInspectedReason:
		v.inspected = true
		for _, variable := range template.Status.Variables {
			v.declared[variable.Name] = true
		}
	}
	spec := template.Spec.Template.Spec.DeepCopy()
	spec.ForProvider.Module = ""
	text, err := json.Marshal(spec)
	if err != nil {
		return nil, fmt.Errorf("encoding template %s: %w", template.Name, err)
	}
	v.text = string(text)
	return v, nil
}

// takes tells whether the template is known to take a variable.
func (v *Values) takes(name string) bool {
	return v.declared[name] || strings.Contains(v.text, "${"+name+"}")
}

// Offer gives a value if the template is known to take it.
func (v *Values) Offer(name string, value any) {
	if v.takes(name) {
		v.set(name, value)
	}
}

// Give gives a value that every template of its kind takes, unless it is known
// not to.
func (v *Values) Give(name string, value any) {
	if !v.inspected || v.takes(name) {
		v.set(name, value)
	}
}

// Demand gives the value of a field that a person has set. A template that
// cannot take it makes Result stall: what was asked for is not ignored.
func (v *Values) Demand(field, name string, value any) {
	if v.inspected && !v.takes(name) {
		v.refused = append(v.refused, fmt.Sprintf("%s (variable %s)", field, name))
		return
	}
	v.set(name, value)
}

// Override gives a person's own values, which win.
func (v *Values) Override(values map[string]infrav1.Value) { maps.Copy(v.values, values) }

func (v *Values) set(name string, value any) {
	encoded, err := infrav1.NewValue(value)
	if err != nil {
		v.problems = append(v.problems, fmt.Errorf("variable %s: %w", name, err))
		return
	}
	v.values[name] = encoded
}

// Result returns the values.
func (v *Values) Result() (map[string]infrav1.Value, error) {
	if len(v.problems) > 0 {
		return nil, v.problems[0]
	}
	if len(v.refused) > 0 {
		slices.Sort(v.refused)
		return nil, fault.Stall(infrav1.FieldNotTakenReason,
			"WorkspaceTemplate %s has no variable for %s: remove the field, or use a template that declares the variable", v.template, strings.Join(v.refused, ", "))
	}
	return v.values, nil
}

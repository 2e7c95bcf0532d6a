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

// Values collects the values that an owner sets for the variables of a template.
// Only the variables of inline modules are known. A remote module is inspected by
// the run that fetches it, which rejects variables that it does not declare.
type Values struct {
	template string
	// denied reports whether the template does not let the owner set a variable.
	denied func(name string) bool
	// inspected reports whether declared is complete.
	inspected bool
	declared  map[string]bool
	// defaults are the values of variables that are not set, as JSON, if they are
	// known.
	defaults map[string]string
	// text is the template without its module, as JSON. It can contain
	// placeholders.
	text     string
	values   map[string]infrav1.Value
	rejected []string
	problems []error
}

// NewValues returns Values for a template and an owner in a namespace. It waits for a template that has not
// been inspected yet, and stalls on one with an invalid module.
func NewValues(template *infrav1.WorkspaceTemplate, namespace string) (*Values, error) {
	denied := func(name string) bool { return !template.MaySet(namespace, name) }
	v := &Values{template: template.Name, denied: denied, declared: map[string]bool{}, defaults: map[string]string{}, values: map[string]infrav1.Value{}}
	valid := conditions.Get(template, infrav1.ModuleValidCondition)
	switch {
	case valid == nil || valid.ObservedGeneration < template.Generation:
		return nil, fault.Wait(infrav1.WaitingForTemplateReason, "WorkspaceTemplate %s has not been inspected yet", template.Name)
	case valid.Status != metav1.ConditionTrue:
		return nil, fault.Stall(infrav1.WaitingForTemplateReason, "WorkspaceTemplate %s: %s", template.Name, valid.Message)
	case valid.Reason == infrav1.ModuleInspectedReason:
		v.inspected = true
		for _, variable := range template.Status.Variables {
			v.declared[variable.Name] = true
		}
		v.defaults = defaults(template)
	}
	spec := template.Spec.Template.Spec.DeepCopy()
	spec.ForProvider.Module, spec.ForProvider.Files = "", nil
	text, err := json.Marshal(spec)
	if err != nil {
		return nil, fmt.Errorf("encoding template %s: %w", template.Name, err)
	}
	v.text = string(text)
	return v, nil
}

// defaults returns the values of variables that the template sets itself, or else
// the defaults of its module. Those that are known only to a run are left out.
func defaults(template *infrav1.WorkspaceTemplate) map[string]string {
	known := map[string]string{}
	parameters := template.Spec.Template.Spec.ForProvider
	if len(parameters.VarFiles) > 0 {
		return known
	}
	for _, variable := range template.Status.Variables {
		if variable.Default != "" {
			known[variable.Name] = variable.Default
		}
	}
	for _, variable := range parameters.Vars {
		delete(known, string(variable.Key))
		if raw := string(variable.Value.Raw); raw != "" && !strings.Contains(raw, "${") {
			known[string(variable.Key)] = raw
		}
	}
	return known
}

// Effective returns the value that a run uses for a variable as JSON: what was
// set, or else the default. It returns an empty string if the value is not known
// before the run.
func (v *Values) Effective(name string) string {
	if value, set := v.values[name]; set {
		return string(value.Raw)
	}
	return v.defaults[name]
}

// Accepts reports whether a template is known to have a variable or a placeholder
// with the name that an owner in a namespace may set. It reports false for a template that is
// not inspected.
func Accepts(template *infrav1.WorkspaceTemplate, namespace, name string) bool {
	values, err := NewValues(template, namespace)
	return err == nil && values.accepts(name)
}

// accepts reports whether the template is known to have a variable or a
// placeholder with the name, and lets the owner set it.
func (v *Values) accepts(name string) bool {
	return !v.denied(name) && (v.declared[name] || strings.Contains(v.text, "${"+name+"}"))
}

// Offer sets an optional variable. It does nothing unless the template is known
// to accept the variable.
func (v *Values) Offer(name string, value any) {
	if v.accepts(name) {
		v.set(name, value)
	}
}

// Set sets a variable that templates of this kind normally declare. It does
// nothing if the template is known not to accept the variable.
func (v *Values) Set(name string, value any) {
	if !v.inspected && !v.denied(name) || v.accepts(name) {
		v.set(name, value)
	}
}

// Require sets a variable to the value of a field that the user set. If the
// template is known not to accept the variable, Result stalls, so that the field
// is not ignored silently.
func (v *Values) Require(field, name string, value any) {
	if v.denied(name) {
		v.problems = append(v.problems, v.denial(name))
		return
	}
	if v.inspected && !v.accepts(name) {
		v.rejected = append(v.rejected, fmt.Sprintf("%s (variable %s)", field, name))
		return
	}
	v.set(name, value)
}

// Override sets the variables of spec.variables. They take precedence over all
// values that were set before.
func (v *Values) Override(values map[string]infrav1.Value) {
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if v.denied(name) {
			v.problems = append(v.problems, v.denial(name))
		}
	}
	maps.Copy(v.values, values)
}

func (v *Values) denial(name string) error {
	return fault.Stall(infrav1.NotAllowedReason, "WorkspaceTemplate %s does not let other namespaces set the variable %s: remove it, or ask the owners of the template to add it to spec.lending.variables", v.template, name)
}

func (v *Values) set(name string, value any) {
	encoded, err := infrav1.NewValue(value)
	if err != nil {
		v.problems = append(v.problems, fmt.Errorf("encoding variable %s: %w", name, err))
		return
	}
	v.values[name] = encoded
}

// Result returns the values. It stalls if the template does not accept a
// required one.
func (v *Values) Result() (map[string]infrav1.Value, error) {
	if len(v.problems) > 0 {
		return nil, v.problems[0]
	}
	if len(v.rejected) > 0 {
		slices.Sort(v.rejected)
		return nil, fault.Stall(infrav1.FieldNotTakenReason,
			"WorkspaceTemplate %s has no variable for %s: remove the field, or use a template that declares the variable", v.template, strings.Join(v.rejected, ", "))
	}
	return v.values, nil
}

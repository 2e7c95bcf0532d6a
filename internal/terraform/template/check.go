package template

import (
	"bytes"
	"encoding/json"
	"errors"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/terraform/inspect"
)

// Finding is a Problem of a workspace that Check found.
type Finding struct {
	Problem
	// Variable is the variable or output that the problem is about, if any.
	Variable string
}

// Check returns all problems that prevent a workspace from running, while Resolve
// returns the first. It assumes that keys of Secrets and ConfigMaps that are not
// among the sources exist.
func Check(s Sources) []Finding {
	c := newChecker(s)
	c.add(s.checkLending())
	c.variables()
	c.texts()
	c.module()
	return c.findings
}

// checker collects the findings of a workspace.
type checker struct {
	*resolver
	values inspect.Values
	// unknown are the variables whose values are in objects that are not among
	// the sources. anyUnknown is set if not even the names are known.
	unknown    map[string]bool
	anyUnknown bool
	findings   []Finding
}

func newChecker(s Sources) *checker {
	return &checker{
		resolver: newResolver(s), values: inspect.Values{}, unknown: map[string]bool{},
	}
}

// add records an error, unless it is a missing key. It reports whether err is nil.
func (c *checker) add(err error) bool {
	if err == nil {
		return true
	}
	if _, missing := errors.AsType[*MissingKeyError](err); missing {
		return false
	}
	if p, ok := errors.AsType[*Problem](err); ok {
		c.findings = append(c.findings, Finding{Problem: *p})
	} else {
		c.findings = append(c.findings, Finding{Problem: Problem{Reason: infrav1.InvalidVariableReason, Message: err.Error()}})
	}
	return false
}

func (c *checker) addProblems(problems []inspect.Problem) {
	for _, p := range problems {
		c.findings = append(c.findings, Finding{Problem: Problem{Reason: ReasonOf(p.Kind), Message: p.Message}, Variable: p.Name})
	}
}

func (c *checker) variables() {
	p := c.Template.Spec.Template.Spec.ForProvider
	for i, file := range p.VarFiles {
		values, err := c.varFile(i, file)
		if !c.add(err) {
			c.anyUnknown = true
			continue
		}
		c.set(c.values, values, false)
	}
	for i, v := range p.Vars {
		value, err := c.variable(i, v)
		if !c.add(err) {
			c.unknown[string(v.Key)] = true
			continue
		}
		c.set(c.values, inspect.Values{string(v.Key): value}, false)
	}
	own, problems := c.applyValues()
	c.addProblems(problems)
	c.set(c.values, own, false)
}

// texts checks all other fields that may contain placeholders.
func (c *checker) texts() {
	for _, e := range c.Template.Spec.Template.Spec.ForProvider.Env {
		ref := refOf(e.SecretKeyReference, e.ConfigMapKeyReference)
		var err error
		switch {
		case e.Value != nil:
			_, err = c.expand("env "+e.Name, *e.Value)
		case ref.KeyReference != nil:
			_, err = c.expandName("env "+e.Name, ref.Name)
		}
		c.add(err)
	}
	_, err := c.connectionSecret()
	c.add(err)
	if c.ProviderConfig != nil && c.ProviderConfig.Spec.Backend != nil {
		_, err := c.expandPlain("backend.configuration", c.ProviderConfig.Spec.Backend.Configuration)
		c.add(err)
	}
}

// module checks the values against the declarations of an inline module.
func (c *checker) module() {
	module := ParseModule(c.Template)
	if module == nil || len(module.Diagnostics.Errors()) > 0 {
		// The problem is in the template.
		return
	}
	c.dropUndeclared(module, c.values)
	required, err := c.requiredOutputs()
	c.add(err)
	var problems []inspect.Problem
	for _, p := range inspect.Check(module, c.values, required) {
		if p.Kind == inspect.KindMissing && (c.anyUnknown || c.unknown[p.Name]) || p.Kind == inspect.KindType && c.Future[p.Name] {
			continue
		}
		problems = append(problems, p)
	}
	c.addProblems(problems)
}

// CheckVars checks the values of a template against its module. Missing values
// are no problem, because the workspace may set them. The type of a value with
// placeholders is not checked, because it is known only with the workspace.
func CheckVars(m *inspect.Module, vars []infrav1.Variable) []inspect.Problem {
	raw, unknown := map[string]json.RawMessage{}, map[string]bool{}
	for _, v := range vars {
		raw[string(v.Key)] = v.Value.Raw
		unknown[string(v.Key)] = bytes.Contains(v.Value.Raw, []byte("${"))
		if v.Value.IsZero() {
			raw[string(v.Key)], unknown[string(v.Key)] = []byte(`""`), true
		}
	}
	values, problems := inspect.FromJSON(raw)
	var found []inspect.Problem
	for _, p := range append(problems, inspect.Check(m, values, nil)...) {
		undeclared := p.Kind == inspect.KindUnknown || p.Kind == inspect.KindInvalidName
		if p.Kind != inspect.KindMissing && (undeclared || !unknown[p.Name]) {
			found = append(found, p)
		}
	}
	return found
}

package template

import (
	"bytes"
	"encoding/json"
	"errors"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/terraform/inspect"
)

// Shortcoming is one thing that keeps a workspace from being run.
type Shortcoming struct {
	Problem
	// Variable is the variable or output it is about, if it is about one.
	Variable string
}

// Check says everything that keeps a workspace from being run, where Resolve
// says the first. Keys of Secrets and ConfigMaps that are not among the sources
// count as there.
func Check(s Sources) []Shortcoming {
	c := newChecker(s)
	c.variables()
	c.texts()
	c.module()
	return c.found
}

// checker collects what is wrong.
type checker struct {
	*resolver
	values inspect.Values
	// open are variables whose values are not known here; anyOpen is set when
	// not even their names are.
	open    map[string]bool
	anyOpen bool
	found   []Shortcoming
}

func newChecker(s Sources) *checker {
	return &checker{
		resolver: &resolver{Sources: s, used: map[string]bool{}, secret: map[string]bool{}},
		values:   inspect.Values{}, open: map[string]bool{},
	}
}

// add takes an error down, unless it is about a key that is not there. It tells
// whether there was none at all.
func (c *checker) add(err error) bool {
	if err == nil {
		return true
	}
	if _, missing := errors.AsType[*MissingKeyError](err); missing {
		return false
	}
	if p, ok := errors.AsType[*Problem](err); ok {
		c.found = append(c.found, Shortcoming{Problem: *p})
	} else {
		c.found = append(c.found, Shortcoming{Problem: Problem{Reason: infrav1.InvalidVariableReason, Message: err.Error()}})
	}
	return false
}

func (c *checker) addProblems(problems []inspect.Problem) {
	for _, p := range problems {
		c.found = append(c.found, Shortcoming{Problem: Problem{Reason: ReasonOf(p.Kind), Message: p.Message}, Variable: p.Name})
	}
}

func (c *checker) variables() {
	p := c.Template.Spec.Template.Spec.ForProvider
	for i, file := range p.VarFiles {
		values, err := c.varFile(i, file)
		if !c.add(err) {
			c.anyOpen = true
			continue
		}
		c.set(c.values, values, false)
	}
	for i, v := range p.Vars {
		value, err := c.variable(i, v)
		if !c.add(err) {
			c.open[string(v.Key)] = true
			continue
		}
		c.set(c.values, inspect.Values{string(v.Key): value}, false)
	}
	own, problems := c.own()
	c.addProblems(problems)
	c.set(c.values, own, false)
}

// texts resolves everything else that may hold placeholders.
func (c *checker) texts() {
	for _, e := range c.Template.Spec.Template.Spec.ForProvider.Env {
		ref := e.SecretKeyReference
		if ref == nil {
			ref = e.ConfigMapKeyReference
		}
		var err error
		switch {
		case e.Value != nil:
			_, err = c.expand("env "+e.Name, *e.Value)
		case ref != nil:
			_, err = c.expand("env "+e.Name, ref.Name)
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

// module compares the values with what an inline module declares.
func (c *checker) module() {
	module := ParseModule(c.Template)
	if module == nil || len(module.Diagnostics.Errors()) > 0 {
		// The problem is in the template.
		return
	}
	for name := range c.values {
		if _, declared := module.Variables[name]; !declared && c.used[name] {
			delete(c.values, name)
		}
	}
	var problems []inspect.Problem
	for _, p := range inspect.Check(module, c.values, c.Apply.Spec.RequiredOutputs) {
		if p.Kind == inspect.KindMissing && (c.anyOpen || c.open[p.Name]) {
			continue
		}
		problems = append(problems, p)
	}
	c.addProblems(problems)
}

// CheckVars checks a template's own values. What they leave out may come with
// the workspace, and the type of what holds placeholders is known only there.
func CheckVars(m *inspect.Module, vars []infrav1.Variable) []inspect.Problem {
	raw, open := map[string]json.RawMessage{}, map[string]bool{}
	for _, v := range vars {
		raw[string(v.Key)] = v.Value.Raw
		open[string(v.Key)] = bytes.Contains(v.Value.Raw, []byte("${"))
		if v.Value.IsZero() {
			raw[string(v.Key)], open[string(v.Key)] = []byte(`""`), true
		}
	}
	values, problems := inspect.FromJSON(raw)
	var found []inspect.Problem
	for _, p := range append(problems, inspect.Check(m, values, nil)...) {
		unknown := p.Kind == inspect.KindUnknown || p.Kind == inspect.KindInvalidName
		if p.Kind != inspect.KindMissing && (unknown || !open[p.Name]) {
			found = append(found, p)
		}
	}
	return found
}

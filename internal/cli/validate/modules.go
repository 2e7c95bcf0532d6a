package validate

import (
	"maps"
	"strings"

	yaml3 "go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/terraform/inspect"
	"github.com/appthrust/capt/internal/terraform/template"
)

// modulePath is where a template holds its module.
const modulePath = "spec.template.spec.forProvider.module"

// checkTemplates inspects inline modules and compares them with the templates'
// own values.
func (s *set) checkTemplates() {
	objects, templates := all[*infrav1.WorkspaceTemplate](s)
	for i, t := range templates {
		module := template.ParseModule(t)
		if module == nil {
			continue
		}
		o := objects[i]
		if errs := module.Diagnostics.Errors(); len(errs) > 0 {
			if s.found(o, modulePath) {
				// It is no HCL, and was said to be none.
				continue
			}
			for _, d := range errs {
				f := o.fail(RuleModule, modulePath, "%s:%d: %s", d.File, d.Line, strings.TrimSpace(d.Summary+": "+d.Detail))
				f.Line += o.textLine(modulePath, d.Line)
				s.add(f)
			}
			continue
		}
		for _, p := range template.CheckVars(module, t.Spec.Template.Spec.ForProvider.Vars) {
			s.add(o.finding(Error, RuleVariable, varPath(t, p), p.Message))
		}
	}
}

// found tells whether something is known to be wrong with a field.
func (s *set) found(o *Object, path string) bool {
	for _, f := range s.findings {
		if f.File == o.File && f.Object == o.name() && f.Path == path {
			return true
		}
	}
	return false
}

// textLine is how far a line of a text is from the field that holds it. Only a
// literal block keeps its lines.
func (o *Object) textLine(path string, line int) int {
	node := o.node
	for path != "" && node != nil {
		_, node, path = follow(node, path)
	}
	if node == nil || node.Style != yaml3.LiteralStyle {
		return 0
	}
	return line
}

func varPath(t *infrav1.WorkspaceTemplate, p inspect.Problem) string {
	const vars = "spec.template.spec.forProvider.vars"
	for i, v := range t.Spec.Template.Spec.ForProvider.Vars {
		if string(v.Key) == p.Name {
			return vars + indexed(i)
		}
	}
	return vars
}

// checkWorkspaces compares what workspaces are given with what their templates
// take.
func (s *set) checkWorkspaces() {
	objects, applies := all[*infrav1.WorkspaceTemplateApply](s)
	for i, apply := range applies {
		s.checkWorkspace(objects[i], apply)
	}
}

func (s *set) checkWorkspace(o *Object, apply *infrav1.WorkspaceTemplateApply) {
	sources, ok := s.sources(apply)
	if !ok {
		return
	}
	for _, short := range template.Check(sources) {
		rule, path := RuleVariable, "spec.templateRef"
		if short.Reason == infrav1.UnresolvedPlaceholderReason {
			rule = RulePlaceholder
		}
		if _, given := apply.Spec.Variables[short.Variable]; given {
			path = "spec.variables[" + short.Variable + "]"
		} else if len(apply.Spec.Variables) > 0 {
			path = "spec.variables"
		}
		if short.Reason == infrav1.UnknownOutputReason {
			path = "spec.requiredOutputs"
		}
		s.add(o.finding(Error, rule, path, "with WorkspaceTemplate "+sources.Template.Name+": "+short.Message))
	}
}

// sources gathers what a workspace is made from, as far as it is given.
func (s *set) sources(apply *infrav1.WorkspaceTemplateApply) (template.Sources, bool) {
	at, group := apply.Spec.TemplateRef.Key(apply.Namespace), infrav1.GroupVersion.Group
	t := find[*infrav1.WorkspaceTemplate](s, key{group: group, kind: "WorkspaceTemplate", namespace: at.Namespace, name: at.Name})
	if t == nil {
		return template.Sources{}, false
	}
	sources := template.Sources{Apply: apply, Template: t, Secrets: map[string]map[string][]byte{}, ConfigMaps: map[string]map[string][]byte{}}
	if ref := t.Spec.Template.Spec.ProviderConfigRef; ref != nil {
		sources.ProviderConfig = find[*infrav1.WorkspaceProviderConfig](s, key{group: group, kind: "WorkspaceProviderConfig", namespace: apply.Namespace, name: ref.Name})
	}
	for _, o := range s.objects {
		typed := s.typed[o]
		if typed == nil || typed.GetNamespace() != apply.Namespace {
			continue
		}
		collect(&sources, typed)
	}
	return sources, true
}

// collect adds the contents of a Secret or ConfigMap.
func collect(sources *template.Sources, typed client.Object) {
	data := map[string][]byte{}
	switch v := typed.(type) {
	case *corev1.Secret:
		maps.Copy(data, v.Data)
		for name, value := range v.StringData {
			data[name] = []byte(value)
		}
		sources.Secrets[v.Name] = data
	case *corev1.ConfigMap:
		for name, value := range v.Data {
			data[name] = []byte(value)
		}
		maps.Copy(data, v.BinaryData)
		sources.ConfigMaps[v.Name] = data
	}
}

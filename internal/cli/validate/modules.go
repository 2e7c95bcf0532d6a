package validate

import (
	"context"
	"strings"

	yaml3 "go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cli/render"
	"github.com/appthrust/capt/internal/kubernetes/object"
	"github.com/appthrust/capt/internal/terraform/inspect"
	"github.com/appthrust/capt/internal/terraform/template"
)

// modulePath is the path of a template's module.
const modulePath = "spec.template.spec.forProvider.module"

// checkTemplates checks inline modules and the values that their templates set.
func (c *checker) checkTemplates() {
	objects, templates := all[*infrav1.WorkspaceTemplate](c)
	for i, t := range templates {
		module, o := template.ParseModule(t), objects[i]
		if module == nil {
			if !c.hasFinding(o, modulePath) {
				c.add(o.finding(Warning, RuleModule, modulePath, "the module is fetched by the run: its variables were not checked; pass --fetch-modules, or a copy of it with --module ADDRESS=DIRECTORY"))
			}
			continue
		}
		if errs := module.Diagnostics.Errors(); len(errs) > 0 {
			if c.hasFinding(o, modulePath) {
				// The webhook check has reported the syntax error.
				continue
			}
			for _, d := range errs {
				f := o.fail(RuleModule, modulePath, "%s:%d: %s", d.File, d.Line, strings.TrimSpace(d.Summary+": "+d.Detail))
				f.Line += o.textLine(modulePath, d.Line)
				c.add(f)
			}
			continue
		}
		for _, p := range template.CheckVars(module, t.Spec.Template.Spec.ForProvider.Vars) {
			c.add(o.finding(Error, RuleVariable, varPath(t, p), p.Message))
		}
	}
}

// hasFinding reports whether a field has a finding.
func (c *checker) hasFinding(o *Object, path string) bool {
	for _, f := range c.findings {
		if f.File == o.File && f.Object == o.name() && f.Path == path {
			return true
		}
	}
	return false
}

// textLine returns the offset of a line of a text from the field that contains it. It is
// 0 unless the text is a literal block, which preserves its lines.
func (o *Object) textLine(path string, line int) int {
	node := o.node
	for path != "" && node != nil {
		_, node, path = descend(node, path)
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

// checkWorkspaces checks the variables of workspaces against their templates.
func (c *checker) checkWorkspaces() {
	objects, applies := all[*infrav1.WorkspaceTemplateApply](c)
	for i, apply := range applies {
		c.checkWorkspace(objects[i], apply)
	}
}

func (c *checker) checkWorkspace(o *Object, apply *infrav1.WorkspaceTemplateApply) {
	sources, ok := c.sources(apply)
	if !ok {
		return
	}
	for _, problem := range template.Check(sources) {
		rule, path := RuleVariable, "spec.templateRef"
		if problem.Reason == infrav1.UnresolvedPlaceholderReason {
			rule = RulePlaceholder
		}
		if _, given := apply.Spec.Variables[problem.Variable]; given {
			path = "spec.variables[" + problem.Variable + "]"
		} else if len(apply.Spec.Variables) > 0 {
			path = "spec.variables"
		}
		if problem.Reason == infrav1.UnknownOutputReason {
			path = "spec.requiredOutputs"
		}
		c.add(o.finding(Error, rule, path, "with WorkspaceTemplate "+sources.Template.Name+": "+problem.Message))
	}
}

// sources returns the inputs of a workspace that are among the manifests.
func (c *checker) sources(apply *infrav1.WorkspaceTemplateApply) (template.Sources, bool) {
	at, group := apply.Spec.TemplateRef.Key(apply.Namespace), infrav1.GroupVersion.Group
	t := find[*infrav1.WorkspaceTemplate](c, key{group: group, kind: "WorkspaceTemplate", namespace: at.Namespace, name: at.Name})
	if t == nil {
		return template.Sources{}, false
	}
	sources := template.Sources{Apply: apply, Template: t, Secrets: map[string]map[string][]byte{}, ConfigMaps: map[string]map[string][]byte{}}
	if ref := apply.ProviderConfig(t); ref != nil {
		sources.ProviderConfig = find[*infrav1.WorkspaceProviderConfig](c, key{group: group, kind: "WorkspaceProviderConfig", namespace: apply.Namespace, name: ref.Name})
	}
	for _, o := range c.objects {
		typed := c.typed[o]
		if typed == nil || typed.GetNamespace() != apply.Namespace {
			continue
		}
		collect(&sources, typed)
	}
	return sources, true
}

// collect adds the content of a Secret or ConfigMap.
func collect(sources *template.Sources, typed client.Object) {
	switch v := typed.(type) {
	case *corev1.Secret:
		sources.Secrets[v.Name] = render.SecretData(v)
	case *corev1.ConfigMap:
		sources.ConfigMaps[v.Name] = object.ConfigMapData(v)
	}
}

// checkClusters renders clusters with their topologies, and the workspaces of clusters and
// nodes. It reports what a class does not have, fields without a variable in the template, and
// variables without a value.
func (c *checker) checkClusters(ctx context.Context) error {
	if Failed(c.findings) {
		// The result of invalid objects would be misleading.
		return nil
	}
	objects, origin := c.decoded()
	rendering, err := render.Render(ctx, objects, render.Options{})
	if err != nil {
		return err
	}
	for _, p := range rendering.Problems {
		if _, isWorkspace := p.Object.(*infrav1.WorkspaceTemplateApply); isWorkspace {
			// checkWorkspaces reports it in more detail.
			continue
		}
		if o := origin[p.Object]; o != nil {
			c.add(o.finding(Error, RuleVariable, "spec", p.Message))
		}
	}
	return nil
}

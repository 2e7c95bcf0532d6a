package template

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/zclconf/go-cty/cty"
	"k8s.io/apimachinery/pkg/util/validation"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/terraform/inspect"
	"github.com/appthrust/capt/internal/terraform/placeholder"
)

// Users choose the values of placeholders and how often a text has them. These limit what texts
// with placeholders may have after their expansion.
const (
	// maxName is the limit of Kubernetes for the name of an object.
	maxName = validation.DNS1123SubdomainMaxLength
	// maxValue limits one value. A variable of the environment cannot be longer on Linux.
	maxValue = 128 << 10
	// maxValues limits the values of a workspace together.
	maxValues = 1 << 20
	// maxKeyValues limits the values that variables take from keys together, of which many may
	// name the same one. The environment of a process is not longer on Linux either.
	maxKeyValues = 2 << 20
)

// resolver expands placeholders.
type resolver struct {
	Sources
	// used are the values of the apply that a placeholder refers to.
	used map[string]bool
	// secret are the variables whose values come from Secrets.
	secret map[string]bool
	// texts are the decoded values of the apply.
	texts map[string]string
	// left is what is left of maxValues, and leftOfKeys that of maxKeyValues.
	left, leftOfKeys int
	// files parses the variables files.
	files *inspect.VarFiles
}

func newResolver(s Sources) *resolver {
	return &resolver{
		Sources: s, used: map[string]bool{}, secret: map[string]bool{}, texts: map[string]string{},
		left: maxValues, leftOfKeys: maxKeyValues, files: inspect.NewVarFiles(),
	}
}

// text returns the value of a variable of the apply, or a part of it that is longer than the
// limit.
func (r *resolver) text(name string, limit int) string {
	if text, known := r.texts[name]; known {
		return text
	}
	text := placeholder.Value(r.Apply.Spec.Variables[name].Raw, limit)
	if len(text) <= limit {
		r.texts[name] = text
	}
	return text
}

// lookup returns the value of a placeholder, or a part of it that is longer than the limit.
func (r *resolver) lookup(name string, limit int) (string, bool) {
	if value, found := workspaceValue(r.Apply, name); found {
		return value, true
	}
	if _, found := r.Apply.Spec.Variables[name]; !found {
		return "", false
	}
	r.used[name] = true
	return r.text(name, limit), true
}

// ExpandName expands the placeholders of a name that a workspace refers to. It
// returns the name unchanged if CheckName returns an error.
func ExpandName(apply *infrav1.WorkspaceTemplateApply, name string) string {
	if expanded, err := newResolver(Sources{Apply: apply}).expandName("", name); err == nil {
		return expanded
	}
	return name
}

// CheckName returns a *Problem if the placeholders of a name that a workspace refers to cannot
// be expanded.
func CheckName(apply *infrav1.WorkspaceTemplateApply, field, name string) error {
	_, err := newResolver(Sources{Apply: apply}).expandName(field, name)
	return err
}

// expandName expands the placeholders of the name of an object.
func (r *resolver) expandName(field, name string) (string, error) {
	expanded, err := r.expandUpTo(maxName, name)
	if err != nil {
		return "", r.describe(field, err)
	}
	return expanded, nil
}

// expand expands the placeholders of a value.
func (r *resolver) expand(field, text string) (string, error) {
	limit := min(maxValue, r.left)
	expanded, err := r.expandUpTo(limit, text)
	if tooLong, ok := errors.AsType[*placeholder.TooLongError](err); ok && limit < maxValue {
		return "", problem(infrav1.InvalidVariableReason, "%s: all values with placeholders together have more than %d bytes, the limit: shorten the value of ${%s}, or use it less often",
			field, maxValues, tooLong.Name)
	}
	if err != nil {
		return "", r.describe(field, err)
	}
	// A text that has only escapes is not longer than what the user wrote.
	if names, _ := placeholder.Names(text); len(names) > 0 {
		r.left -= len(expanded)
	}
	return expanded, nil
}

func (r *resolver) expandUpTo(limit int, text string) (string, error) {
	return placeholder.ExpandUpTo(text, limit, func(name string) (string, bool) { return r.lookup(name, limit) })
}

// describe returns the Problem for an error of the placeholders of a field.
func (r *resolver) describe(field string, err error) error {
	if _, ok := errors.AsType[*placeholder.TooLongError](err); ok {
		return problem(infrav1.InvalidVariableReason, "%s: %v", field, err)
	}
	text := fmt.Sprintf("%s: %v", field, err)
	if _, ok := errors.AsType[*placeholder.UnresolvedError](err); ok {
		known := slices.Concat(workspacePlaceholders, slices.Sorted(maps.Keys(r.Apply.Spec.Variables)))
		text += fmt.Sprintf("; set it in spec.variables, or use one of ${%s}", strings.Join(known, "}, ${"))
	}
	return problem(infrav1.UnresolvedPlaceholderReason, "%s", text)
}

// plain matches values that are safe inside a string of HCL: they cannot end the
// string or start an expression.
var plain = regexp.MustCompile(`^[A-Za-z0-9._/@:=+, -]*$`)

// expandPlain expands the placeholders of HCL text. It rejects values that could
// change the meaning of the text.
func (r *resolver) expandPlain(field, text string) (string, error) {
	expanded, err := r.expand(field, text)
	if err != nil {
		return "", err
	}
	names, err := placeholder.Names(text)
	if err != nil {
		return "", problem(infrav1.UnresolvedPlaceholderReason, "%s: %v", field, err)
	}
	for _, name := range names {
		if value, found := r.lookup(name, maxValue); found && !plain.MatchString(value) {
			return "", problem(infrav1.InvalidVariableReason, "%s: the value of ${%s} may contain only letters, digits, spaces and . _ / @ : = + , -", field, name)
		}
	}
	return expanded, nil
}

// expandValue expands the placeholders of every string in a value.
func (r *resolver) expandValue(field string, value cty.Value) (cty.Value, error) {
	return cty.Transform(value, func(_ cty.Path, v cty.Value) (cty.Value, error) {
		if v.IsNull() || !v.IsKnown() || v.Type() != cty.String {
			return v, nil
		}
		text, err := r.expand(field, v.AsString())
		if err != nil {
			return cty.NilVal, err
		}
		return cty.StringVal(text), nil
	})
}

// expandReference expands the placeholders of the name of a Secret or ConfigMap. A
// workspace of another namespace must not choose which Secrets its host reads.
func (r *resolver) expandReference(field, name string) (string, error) {
	if err := r.checkHosted(field, name, WorkspaceNamespace); err != nil {
		return "", err
	}
	return r.expandName(field, name)
}

// expandSecret expands the placeholders of the name of a Secret, which must not be one of CAPT:
// these have the states of other workspaces and the tokens of other runs. The user who sets the
// variables of a placeholder must not choose the kubeconfig or the keys of any cluster.
func (r *resolver) expandSecret(field, name string) (string, error) {
	expanded, err := r.expandReference(field, name)
	if err != nil {
		return "", err
	}
	if expanded != name && infrav1.IsClusterSecretName(expanded) && expanded != r.ownKubeconfig() {
		return "", problem(infrav1.NotAllowedReason, "%s: Secret %s, which a placeholder names, has the kubeconfig or the keys of a cluster: only workspaces of this cluster's own objects may use its kubeconfig", field, expanded)
	}
	return expanded, checkSecretName(field, expanded)
}

package template

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/zclconf/go-cty/cty"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/elements"
	"github.com/appthrust/capt/internal/terraform/inspect"
	"github.com/appthrust/capt/internal/terraform/placeholder"
)

// values returns the values of all variables. Those of the apply override those
// of the template, which override those of files.
func (r *resolver) values() (inspect.Values, error) {
	all := inspect.Values{}
	p := r.Template.Spec.Template.Spec.ForProvider
	if err := r.checkElements(p.Vars); err != nil {
		return nil, err
	}
	for i, file := range p.VarFiles {
		values, err := r.varFile(i, file)
		if err != nil {
			return nil, err
		}
		r.set(all, values, file.SecretKeyReference != nil)
	}
	for i, v := range p.Vars {
		value, err := r.variable(i, v)
		if err != nil {
			return nil, err
		}
		r.set(all, inspect.Values{string(v.Key): value}, v.SecretKeyReference != nil)
	}
	own, problems := r.applyValues()
	if len(problems) > 0 {
		return nil, fromInspect(problems)
	}
	r.set(all, own, false)
	return all, nil
}

// checkElements returns a problem if the values of the template and the workspace together have
// too many elements.
func (r *resolver) checkElements(vars []infrav1.Variable) error {
	total := 0
	for _, v := range vars {
		total += elements.JSON(v.Value.Raw)
	}
	for _, v := range r.Apply.Spec.Variables {
		total += elements.JSON(v.Raw)
	}
	if total > inspect.MaxElements {
		return problem(infrav1.InvalidVariableReason, "vars of the template and spec.variables together have more than %d elements, the limit: shorten their lists and maps", inspect.MaxElements)
	}
	return nil
}

// variable returns the value of a variable of the template.
func (r *resolver) variable(i int, v infrav1.Variable) (cty.Value, error) {
	field := fmt.Sprintf("vars[%d] (%s)", i, v.Key)
	if v.SecretKeyReference != nil || v.ConfigMapKeyReference != nil {
		return r.keyValue(field, v)
	}
	decoded, problems := inspect.FromJSON(map[string]json.RawMessage{string(v.Key): v.Value.Raw})
	if len(problems) > 0 {
		return cty.NilVal, fromInspect(problems)
	}
	value, err := r.expandValue(field, decoded[string(v.Key)])
	if err != nil {
		return cty.NilVal, asProblem(err)
	}
	return value, nil
}

// applyValues returns the values of the apply.
func (r *resolver) applyValues() (inspect.Values, []inspect.Problem) {
	raw := map[string]json.RawMessage{}
	for name, v := range r.Apply.Spec.Variables {
		raw[name] = v.Raw
	}
	return inspect.FromJSON(raw)
}

// keyValue returns the value of a variable from a Secret or ConfigMap.
func (r *resolver) keyValue(field string, v infrav1.Variable) (cty.Value, error) {
	text, err := r.keyText(field, refOf(v.SecretKeyReference, v.ConfigMapKeyReference))
	if err != nil {
		return cty.NilVal, err
	}
	if !utf8.ValidString(text) {
		return cty.NilVal, problem(infrav1.InvalidVariableReason, "%s: the value is not valid UTF-8", field)
	}
	return cty.StringVal(text), nil
}

// set sets the values of variables and whether they come from a Secret.
func (r *resolver) set(all, values inspect.Values, secret bool) {
	maps.Copy(all, values)
	for name := range values {
		r.secret[name] = secret
	}
}

// asProblem returns the Problem in the chain of an error of cty.Transform.
func asProblem(err error) error {
	if p, ok := errors.AsType[*Problem](err); ok {
		return p
	}
	return err
}

func (r *resolver) varFile(i int, file infrav1.VarFile) (inspect.Values, error) {
	ref := refOf(file.SecretKeyReference, file.ConfigMapKeyReference)
	field := fmt.Sprintf("varFiles[%d]", i)
	content, err := r.key(field, ref)
	if err != nil {
		return nil, err
	}
	values, diagnostics := r.files.Parse(ref.Name+"/"+ref.Key, content, format(file.Format), r.placeholders(content))
	if errs := diagnostics.Errors(); len(errs) > 0 {
		if ref.secret {
			// The details may quote the content of the file.
			for i := range errs {
				errs[i].Detail = ""
			}
		}
		return nil, problem(infrav1.InvalidVarFileReason, "%s: %s", field, errs.Short())
	}
	return values, nil
}

// placeholders returns the values that a variables file may refer to.
func (r *resolver) placeholders(file []byte) map[string]string {
	known := map[string]string{}
	for _, name := range workspacePlaceholders {
		known[name], _ = workspaceValue(r.Apply, name)
	}
	for name := range r.Apply.Spec.Variables {
		known[name] = r.text(name, math.MaxInt)
		if bytes.Contains(file, []byte("${"+name+"}")) {
			r.used[name] = true
		}
	}
	return known
}

// env returns the environment variables, and the names of those with secret
// values.
func (r *resolver) env() (env map[string]string, secret []string, err error) {
	env = map[string]string{}
	for _, e := range r.Template.Spec.Template.Spec.ForProvider.Env {
		field := "env " + e.Name
		ref := refOf(e.SecretKeyReference, e.ConfigMapKeyReference)
		switch {
		case e.Value != nil:
			env[e.Name], err = r.expand(field, *e.Value)
		case ref.KeyReference != nil:
			env[e.Name], err = r.envText(field, ref)
		}
		if err != nil {
			return nil, nil, err
		}
		if ref.secret {
			secret = append(secret, e.Name)
		}
	}
	return env, secret, nil
}

func (r *resolver) connectionSecret() (string, error) {
	ref := r.Apply.Spec.WriteConnectionSecretToRef
	if ref == nil {
		ref = r.Template.Spec.Template.Spec.WriteConnectionSecretToRef
	}
	if ref == nil {
		return "", nil
	}
	name, err := r.expandName("writeConnectionSecretToRef.name", ref.Name)
	if err != nil {
		return "", err
	}
	// Cluster API's names were allowed once: a Secret that the workspace has stays.
	if infrav1.IsReservedSecretName(name) || infrav1.IsClusterSecretName(name) && r.Apply.Status.ConnectionSecretName != name {
		return "", problem(infrav1.ReservedNameReason, "writeConnectionSecretToRef.name: CAPT or Cluster API uses Secrets with names like %s for something else: choose another name, for example %s-connection", name, r.Apply.Name)
	}
	return name, nil
}

// ownKubeconfig returns the name of the kubeconfig of the cluster that the workspace belongs
// to. It is empty for a workspace that a user created.
func (r *resolver) ownKubeconfig() string {
	owner := metav1.GetControllerOf(r.Apply)
	if owner == nil || !strings.HasSuffix(strings.Split(owner.APIVersion, "/")[0], clusterv1.GroupVersion.Group) {
		return ""
	}
	return r.Apply.Labels[clusterv1.ClusterNameLabel] + "-kubeconfig"
}

// checkSecretName returns a problem if a Secret belongs to CAPT.
func checkSecretName(field, name string) error {
	if !infrav1.IsReservedSecretName(name) {
		return nil
	}
	return problem(infrav1.NotAllowedReason, "%s: Secret %s belongs to CAPT and must not be read: name another Secret, such as the connection Secret of a workspace", field, name)
}

// checkHosted returns a problem if the workspace runs for one of another namespace and the
// text has other placeholders than those allowed.
func (r *resolver) checkHosted(field, text string, allowed ...string) error {
	if namespace, _ := r.Apply.HostedFor(); namespace == "" {
		return nil
	}
	names, err := placeholder.Names(text)
	if err != nil {
		return problem(infrav1.UnresolvedPlaceholderReason, "%s: %v", field, err)
	}
	for _, name := range names {
		if !slices.Contains(allowed, name) {
			return problem(infrav1.NotAllowedReason, "%s: ${%s} is not allowed here, because workspaces of other namespaces use this provider config: use ${%s}", field, name, strings.Join(allowed, "} or ${"))
		}
	}
	return nil
}

// ConnectionSecretName returns the name of the Secret for the outputs of a workspace, or an
// empty string. The error is a *Problem.
func ConnectionSecretName(s Sources) (string, error) {
	return newResolver(s).connectionSecret()
}

// key returns the value of a key of a Secret or ConfigMap.
func (r *resolver) key(field string, ref keyRef) ([]byte, error) {
	objects, expand := r.ConfigMaps, r.expandReference
	if ref.secret {
		objects, expand = r.Secrets, r.expandSecret
	}
	name, err := expand(field, ref.Name)
	if err != nil {
		return nil, err
	}
	data, exists := objects[name]
	value, found := data[ref.Key]
	if !found {
		return nil, &MissingKeyError{Field: field, Secret: ref.secret, Name: name, Key: ref.Key, ObjectExists: exists}
	}
	return value, nil
}

// keyText returns the value of a key for a variable of the module.
func (r *resolver) keyText(field string, ref keyRef) (string, error) {
	content, err := r.key(field, ref)
	if err != nil {
		return "", err
	}
	if r.leftOfKeys -= len(content); r.leftOfKeys < 0 {
		return "", problem(infrav1.InvalidVariableReason, "%s: all values from keys together have more than %d bytes, the limit: let the module read them from files", field, maxKeyValues)
	}
	return string(content), nil
}

// envText returns the value of a key for a variable of the environment.
func (r *resolver) envText(field string, ref keyRef) (string, error) {
	text, err := r.keyText(field, ref)
	if err == nil && len(text) > maxValue {
		err = problem(infrav1.InvalidVariableReason, "%s: the value has more than %d bytes, the limit: let the module read it from a file", field, maxValue)
	}
	return text, err
}

// MissingKeyError reports that a Secret or ConfigMap, or a key of it, does not
// exist.
type MissingKeyError struct {
	Field        string
	Secret       bool
	Name, Key    string
	ObjectExists bool
}

func (e *MissingKeyError) Error() string {
	kind := keyRef{secret: e.Secret}.kind()
	if e.ObjectExists {
		return fmt.Sprintf("%s: %s %s has no key %s", e.Field, kind, e.Name, e.Key)
	}
	return fmt.Sprintf("%s: %s %s does not exist", e.Field, kind, e.Name)
}

// fromInspect combines problems of an inspection. The first one determines the
// reason.
func fromInspect(problems []inspect.Problem) *Problem {
	var messages []string
	for _, p := range problems {
		messages = append(messages, p.Message)
	}
	return problem(ReasonOf(problems[0].Kind), "%s", strings.Join(messages, "; "))
}

// ReasonOf returns the condition reason for a problem of an inspection.
func ReasonOf(kind inspect.Kind) string {
	switch kind {
	case inspect.KindMissing:
		return infrav1.MissingVariableReason
	case inspect.KindUnknown, inspect.KindInvalidName:
		return infrav1.UnknownVariableReason
	case inspect.KindUnknownOutput:
		return infrav1.UnknownOutputReason
	default:
		return infrav1.InvalidVariableReason
	}
}

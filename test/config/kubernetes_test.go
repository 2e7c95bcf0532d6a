package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"github.com/google/cel-go/cel"
	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	schemacel "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/version"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	"sigs.k8s.io/yaml"

	"github.com/appthrust/capt/internal/testenv"
)

// The chart names the lowest version of Kubernetes whose API server accepts what it installs.
// The CEL functions of CRDs decide about that: policies are of 1.30, and so is the pause
// before a manager stops.
func TestChart_namesTheLowestKubernetes(t *testing.T) {
	g := NewWithT(t)
	root, err := testenv.Root()
	g.Expect(err).NotTo(HaveOccurred())
	text, err := os.ReadFile(filepath.Join(root, "charts", "capt", "Chart.yaml"))
	g.Expect(err).NotTo(HaveOccurred())
	var chart struct{ KubeVersion string }
	g.Expect(yaml.Unmarshal(text, &chart)).To(Succeed())
	match := regexp.MustCompile(`^>=1\.(\d+)\.0-0$`).FindStringSubmatch(chart.KubeVersion)
	g.Expect(match).NotTo(BeNil(), chart.KubeVersion)
	minor, err := strconv.Atoi(match[1])
	g.Expect(err).NotTo(HaveOccurred())

	objects := render(t)
	g.Expect(compile(objects, minor)).To(Succeed())
	g.Expect(compile(objects, minor-1)).NotTo(Succeed(), "an earlier version is enough")
}

// compile compiles the expressions of CRDs and policies as the API server 1.MINOR does when they
// are created. It accepts what the version before it can read, so that a cluster can go back.
func compile(objects []*unstructured.Unstructured, minor int) error {
	env := environment.MustBaseEnvSet(version.MajorMinor(1, uint(minor-1)))
	var errs []error
	for _, object := range objects {
		var err error
		switch object.GetKind() {
		case "CustomResourceDefinition":
			err = compileDefinition(env, object)
		case "ValidatingAdmissionPolicy":
			err = compilePolicy(env, object)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s %s: %w", object.GetKind(), object.GetName(), err))
		}
	}
	return errors.Join(errs...)
}

func compileDefinition(env *environment.EnvSet, object *unstructured.Unstructured) error {
	var definition apiextensionsv1.CustomResourceDefinition
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &definition); err != nil {
		return err
	}
	for _, v := range definition.Spec.Versions {
		var internal apiextensions.JSONSchemaProps
		if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(v.Schema.OpenAPIV3Schema, &internal, nil); err != nil {
			return err
		}
		structural, err := schema.NewStructural(&internal)
		if err != nil {
			return err
		}
		if err := compileSchema(env, structural, true); err != nil {
			return err
		}
	}
	return nil
}

// compileSchema compiles the rules of a schema and of all that it contains.
func compileSchema(env *environment.EnvSet, s *schema.Structural, isRoot bool) error {
	var errs []error
	if len(s.XValidations) > 0 {
		results, err := schemacel.Compile(s, model.SchemaDeclType(s, isRoot), celconfig.PerCallLimit, env, schemacel.NewExpressionsEnvLoader())
		errs = append(errs, err)
		for i, result := range results {
			if result.Error != nil {
				errs = append(errs, fmt.Errorf("%s: %s", s.XValidations[i].Rule, result.Error.Detail))
			}
		}
	}
	for name := range s.Properties {
		property := s.Properties[name]
		errs = append(errs, compileSchema(env, &property, s.Properties[name].XEmbeddedResource))
	}
	if s.Items != nil {
		errs = append(errs, compileSchema(env, s.Items, false))
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Structural != nil {
		errs = append(errs, compileSchema(env, s.AdditionalProperties.Structural, false))
	}
	return errors.Join(errs...)
}

// expression is an expression of a policy.
type expression struct{ name, text string }

func (e expression) GetName() string          { return e.name }
func (e expression) GetExpression() string    { return e.text }
func (e expression) ReturnTypes() []*cel.Type { return []*cel.Type{cel.AnyType} }

func compilePolicy(env *environment.EnvSet, object *unstructured.Unstructured) error {
	var policy admissionv1.ValidatingAdmissionPolicy
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &policy); err != nil {
		return err
	}
	compiler, err := plugincel.NewCompositedCompiler(env)
	if err != nil {
		return err
	}
	declared := plugincel.OptionalVariableDeclarations{HasAuthorizer: true, HasParams: policy.Spec.ParamKind != nil}
	var errs []error
	check := func(result plugincel.CompilationResult) {
		if result.Error != nil {
			errs = append(errs, fmt.Errorf("%s: %s", result.ExpressionAccessor.GetExpression(), result.Error.Detail))
		}
	}
	for _, c := range policy.Spec.MatchConditions {
		check(compiler.CompileCELExpression(expression{c.Name, c.Expression}, declared, environment.NewExpressions))
	}
	for _, v := range policy.Spec.Variables {
		check(compiler.CompileAndStoreVariable(expression{v.Name, v.Expression}, declared, environment.NewExpressions))
	}
	for _, v := range policy.Spec.Validations {
		for _, text := range []string{v.Expression, v.MessageExpression} {
			if text != "" {
				check(compiler.CompileCELExpression(expression{"", text}, declared, environment.NewExpressions))
			}
		}
	}
	return errors.Join(errs...)
}

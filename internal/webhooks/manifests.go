package webhooks

import (
	"errors"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"github.com/appthrust/capt/internal/kubernetes/manifest"
)

// checkManifests rejects manifests that cannot be rendered. Placeholders are resolved
// in the strings of parsed documents, so the text must be YAML with them.
func checkManifests(path *field.Path, text string, known []string) field.ErrorList {
	if text == "" {
		return nil
	}
	budget := &manifest.Budget{}
	var errs field.ErrorList
	objects := 0
	for document, err := range manifest.Documents([]byte(text)) {
		if err != nil {
			return append(errs, invalid(path, text, err.Error()))
		}
		content, problem := parseDocument(document.Text, budget)
		if problem != "" {
			errs = append(errs, invalid(path, string(document.Text), fmt.Sprintf("document %d %s", document.Number, problem)))
		}
		if content == nil {
			continue
		}
		objects++
		errs = append(errs, eachStringOf(path, content, func(_ *field.Path, text string) field.ErrorList {
			return checkValuePlaceholders(path, text, known)
		})...)
	}
	if objects == 0 {
		errs = append(errs, invalid(path, text, "has no object: write at least one YAML document with apiVersion, kind and metadata.name"))
	}
	return errs
}

// parseDocument returns the content of one YAML document, nil if it is empty or not
// YAML, and what is wrong with it.
func parseDocument(document []byte, budget *manifest.Budget) (content any, problem string) {
	refused := budget.Check(document)
	if refused != nil && !errors.Is(refused, manifest.ErrInvalid) {
		return nil, "is refused: " + refused.Error()
	}
	if err := yaml.UnmarshalStrict(document, &content); err != nil {
		return nil, "is not valid YAML: " + strings.TrimPrefix(err.Error(), "error converting YAML to JSON: ")
	}
	if refused != nil {
		return nil, "is refused: " + refused.Error()
	}
	if content == nil {
		return nil, ""
	}
	var object metav1.PartialObjectMetadata
	if err := yaml.Unmarshal(document, &object); err != nil {
		return content, "is not a Kubernetes object: write a mapping with apiVersion, kind and metadata"
	}
	switch {
	case object.APIVersion == "":
		return content, "has no apiVersion: write one, for example apiVersion: v1"
	case object.Kind == "":
		return content, "has no kind: write one, for example kind: ConfigMap"
	case object.Name == "" && !strings.HasSuffix(object.Kind, "List"):
		return content, "has no metadata.name: write one"
	}
	return content, ""
}

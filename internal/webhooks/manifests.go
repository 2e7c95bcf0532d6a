package webhooks

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"github.com/appthrust/capt/internal/kubernetes/manifest"
	"github.com/appthrust/capt/internal/terraform/placeholder"
)

// checkManifests rejects manifests that cannot be applied after their
// placeholders are resolved.
func checkManifests(path *field.Path, text string, known []string) field.ErrorList {
	if text == "" {
		return nil
	}
	if errs := checkKnownPlaceholders(path, text, known); len(errs) > 0 {
		return errs
	}
	resolved, err := placeholder.Expand(text, func(string) (string, bool) { return "x", true })
	if err != nil {
		return field.ErrorList{invalid(path, text, err.Error())}
	}
	var errs field.ErrorList
	objects := 0
	for document, err := range manifest.Documents([]byte(resolved)) {
		if err != nil {
			return append(errs, invalid(path, text, err.Error()))
		}
		empty, problem := checkDocument(document.Text)
		if problem != "" {
			errs = append(errs, invalid(path, string(document.Text), fmt.Sprintf("document %d %s", document.Number, problem)))
		}
		if !empty {
			objects++
		}
	}
	if objects == 0 {
		errs = append(errs, invalid(path, text, "has no object: write at least one YAML document with apiVersion, kind and metadata.name"))
	}
	return errs
}

// checkDocument returns what is wrong with one YAML document.
func checkDocument(document []byte) (empty bool, problem string) {
	var content any
	if err := yaml.UnmarshalStrict(document, &content); err != nil {
		return false, "is not valid YAML: " + strings.TrimPrefix(err.Error(), "error converting YAML to JSON: ")
	}
	if content == nil {
		return true, ""
	}
	var object metav1.PartialObjectMetadata
	if err := yaml.Unmarshal(document, &object); err != nil {
		return false, "is not a Kubernetes object: write a mapping with apiVersion, kind and metadata"
	}
	switch {
	case object.APIVersion == "":
		return false, "has no apiVersion: write one, for example apiVersion: v1"
	case object.Kind == "":
		return false, "has no kind: write one, for example kind: ConfigMap"
	case object.Name == "" && !strings.HasSuffix(object.Kind, "List"):
		return false, "has no metadata.name: write one"
	}
	return false, ""
}

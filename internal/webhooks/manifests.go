package webhooks

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/appthrust/capt/internal/terraform/placeholder"
)

// checkManifests refuses manifests that could not be applied once their
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
	reader := utilyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(resolved)))
	var errs field.ErrorList
	objects := 0
	for number := 1; ; number++ {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return append(errs, invalid(path, text, fmt.Sprintf("document %d cannot be read: %v", number, err)))
		}
		empty, problem := checkDocument(document)
		if problem != "" {
			errs = append(errs, invalid(path, string(document), fmt.Sprintf("document %d %s", number, problem)))
		}
		if !empty {
			objects++
		}
	}
	if objects == 0 {
		errs = append(errs, invalid(path, text, "holds no object: write at least one YAML document with apiVersion, kind and metadata.name"))
	}
	return errs
}

// checkDocument says what is wrong with one YAML document.
func checkDocument(document []byte) (empty bool, problem string) {
	var content any
	if err := yaml.UnmarshalStrict(document, &content); err != nil {
		return false, "is no YAML: " + strings.TrimPrefix(err.Error(), "error converting YAML to JSON: ")
	}
	if content == nil {
		return true, ""
	}
	var object metav1.PartialObjectMetadata
	if err := yaml.Unmarshal(document, &object); err != nil {
		return false, "is no Kubernetes object: write a mapping with apiVersion, kind and metadata"
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

package render

import (
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/appthrust/capt/internal/client/text"
)

// WriteYAML writes a document for each object, followed by a document for each run.
func (r *Rendering) WriteYAML(w io.Writer) error {
	for _, obj := range r.Objects {
		content, err := clean(obj)
		if err != nil {
			return err
		}
		if err := writeDocument(w, "", content); err != nil {
			return err
		}
	}
	for _, run := range r.Runs {
		if err := writeDocument(w, "# Input of Terraform for "+run.Workspace+". This is not a Kubernetes object.\n", map[string]any{"run": run}); err != nil {
			return err
		}
	}
	return nil
}

func writeDocument(w io.Writer, comment string, content any) error {
	document, err := yaml.Marshal(content)
	if err != nil {
		return fmt.Errorf("writing YAML: %w", err)
	}
	if _, err := fmt.Fprintf(w, "---\n%s%s", comment, document); err != nil {
		return fmt.Errorf("writing YAML: %w", err)
	}
	return nil
}

// WriteJSON writes everything as one JSON object.
func (r *Rendering) WriteJSON(w io.Writer) error {
	objects := []map[string]any{}
	for _, obj := range r.Objects {
		content, err := clean(obj)
		if err != nil {
			return err
		}
		objects = append(objects, content)
	}
	return text.PrintJSON(w, struct {
		Objects []map[string]any `json:"objects"`
		Runs    []Run            `json:"runs,omitempty"`
		Notes   []string         `json:"notes,omitempty"`
	}{objects, r.Runs, r.Notes})
}

// clean returns an object without the fields that only the API server sets.
func clean(obj client.Object) (map[string]any, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil, fmt.Errorf("writing %s: %w", obj.GetName(), err)
	}
	delete(content, "status")
	if metadata, ok := content["metadata"].(map[string]any); ok {
		delete(metadata, "creationTimestamp")
	}
	return content, nil
}

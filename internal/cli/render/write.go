package render

import (
	"encoding/json"
	"fmt"
	"io"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
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
	text, err := yaml.Marshal(content)
	if err != nil {
		return fmt.Errorf("writing YAML: %w", err)
	}
	if _, err := fmt.Fprintf(w, "---\n%s%s", comment, text); err != nil {
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
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(struct {
		Objects []map[string]any `json:"objects"`
		Runs    []Run            `json:"runs,omitempty"`
		Notes   []string         `json:"notes,omitempty"`
	}{objects, r.Runs, r.Notes})
	if err != nil {
		return fmt.Errorf("writing JSON: %w", err)
	}
	return nil
}

// clean returns an object without the fields that only the API server sets.
func clean(obj client.Object) (map[string]any, error) {
	text, err := json.Marshal(obj)
	if err != nil {
		return nil, fmt.Errorf("writing %s: %w", obj.GetName(), err)
	}
	content := map[string]any{}
	if err := json.Unmarshal(text, &content); err != nil {
		return nil, fmt.Errorf("writing %s: %w", obj.GetName(), err)
	}
	delete(content, "status")
	if metadata, ok := content["metadata"].(map[string]any); ok {
		delete(metadata, "creationTimestamp")
	}
	return content, nil
}

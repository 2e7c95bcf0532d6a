package render

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// Outputs reads Terraform outputs: from the manifest of a connection Secret,
// from what terraform output -json prints, or from a plain map. Values are as
// CAPT writes them into a Secret: strings as they are, others as JSON.
func Outputs(text []byte) (map[string][]byte, error) {
	var secret corev1.Secret
	if err := yaml.Unmarshal(text, &secret); err == nil && secret.Kind == "Secret" {
		outputs := map[string][]byte{}
		maps.Copy(outputs, secret.Data)
		for name, value := range secret.StringData {
			outputs[name] = []byte(value)
		}
		return outputs, nil
	}
	var values map[string]json.RawMessage
	if err := yaml.Unmarshal(text, &values); err != nil || values == nil {
		return nil, errors.New("the outputs are no mapping: give a connection Secret, or what terraform output -json prints")
	}
	outputs := map[string][]byte{}
	for name, raw := range values {
		var printed struct {
			Value     json.RawMessage `json:"value"`
			Sensitive *bool           `json:"sensitive"`
		}
		// Terraform prints every output with whether it is sensitive.
		if err := json.Unmarshal(raw, &printed); err == nil && printed.Sensitive != nil {
			raw = printed.Value
		}
		value, err := plain(raw)
		if err != nil {
			return nil, fmt.Errorf("reading output %s: %w", name, err)
		}
		outputs[name] = value
	}
	return outputs, nil
}

func plain(raw json.RawMessage) ([]byte, error) {
	var text string
	if err := json.Unmarshal(raw, &text); err == nil {
		return []byte(text), nil
	}
	var value any
	if err := json.Unmarshal(raw, &value); err != nil {
		return nil, err
	}
	return json.Marshal(value)
}

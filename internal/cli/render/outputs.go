package render

import (
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// Outputs parses Terraform outputs: the manifest of a connection Secret, the output of
// terraform output -json, or a plain map. The values have the form of a connection
// Secret: strings are unquoted, others are JSON.
func Outputs(text []byte) (map[string][]byte, error) {
	var secret corev1.Secret
	if err := yaml.Unmarshal(text, &secret); err == nil && secret.Kind == "Secret" {
		return SecretData(&secret), nil
	}
	var values map[string]json.RawMessage
	if err := yaml.Unmarshal(text, &values); err != nil || values == nil {
		return nil, errors.New("the outputs are not a mapping: pass a connection Secret, or the output of terraform output -json")
	}
	outputs := map[string][]byte{}
	for name, raw := range values {
		var printed struct {
			Value     json.RawMessage `json:"value"`
			Sensitive *bool           `json:"sensitive"`
		}
		// Terraform prints the field sensitive for every output.
		if err := json.Unmarshal(raw, &printed); err == nil && printed.Sensitive != nil {
			raw = printed.Value
		}
		value, err := secretValue(raw)
		if err != nil {
			return nil, fmt.Errorf("reading output %s: %w", name, err)
		}
		outputs[name] = value
	}
	return outputs, nil
}

// secretValue returns a JSON value in the form of a connection Secret.
func secretValue(raw json.RawMessage) ([]byte, error) {
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

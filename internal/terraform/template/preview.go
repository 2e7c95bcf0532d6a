package template

import (
	"encoding/json"
	"fmt"
	"time"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/terraform/inspect"
)

// Preview shows the inputs of a workspace's runs. It shows the origin of values
// from Secrets, never the values.
type Preview struct {
	// Module is the address of a remote module. An inline module is in Files.
	Module string `json:"module,omitempty"`
	// Entrypoint is the directory of the root module in a remote module.
	Entrypoint string `json:"entrypoint,omitempty"`
	// Files are the files of the working directory.
	Files map[string]string `json:"files,omitempty"`
	// Variables are the values of the variables.
	Variables map[string]json.RawMessage `json:"variables,omitempty"`
	// VariableFiles are the origins of variables files whose content is unknown.
	VariableFiles []string          `json:"variableFiles,omitempty"`
	Env           map[string]string `json:"env,omitempty"`
	// Backend describes where the state is stored.
	Backend          string `json:"backend"`
	ConnectionSecret string `json:"connectionSecret,omitempty"`
	Approval         string `json:"approval"`
	// DestroyApproval is Manual if the deletion waits for an approved plan.
	DestroyApproval string `json:"destroyApproval,omitempty"`
	Timeout         string `json:"timeout"`

	Protect         []string `json:"protect,omitempty"`
	RequiredOutputs []string `json:"requiredOutputs,omitempty"`
}

// sensitiveValue replaces the value of a variable that the module declares as
// sensitive.
const sensitiveValue = "(sensitive)"

// PreviewOf resolves a workspace as far as its sources are known, and returns the
// problems that it found. It does not read Secrets.
func PreviewOf(s Sources) (*Preview, []Finding) {
	s.Secrets = nil
	c := newChecker(s)
	c.variables()
	c.texts()
	p := s.Template.Spec.Template.Spec.ForProvider
	preview := &Preview{
		Entrypoint: p.Entrypoint, Files: map[string]string{}, Variables: map[string]json.RawMessage{}, Env: map[string]string{},
		Approval: string(PolicyOf(s).Approval), Timeout: s.timeout().Round(time.Second).String(), Protect: s.protect(),
		RequiredOutputs: s.Apply.Spec.RequiredOutputs, Backend: "Secret tfstate-default-" + StateSuffix(s.Apply.Name),
	}
	if policy := PolicyOf(s); policy.DestroyApproval == infrav1.ApprovalManual {
		preview.DestroyApproval = string(policy.DestroyApproval)
	}
	sensitive := c.previewModule(preview)
	c.module()
	c.previewVariables(preview, sensitive)
	c.previewEnv(preview)
	c.previewConfig(preview)
	if name, err := c.connectionSecret(); err == nil {
		preview.ConnectionSecret = name
	}
	return preview, c.findings
}

// previewModule adds the module, and returns which of its variables are
// sensitive.
func (c *checker) previewModule(preview *Preview) map[string]bool {
	sensitive := map[string]bool{}
	module := ParseModule(c.Template)
	p := c.Template.Spec.Template.Spec.ForProvider
	if module == nil {
		preview.Module = p.Module
		return sensitive
	}
	name := "main.tf"
	if p.InlineFormat == infrav1.FileFormatJSON {
		name = "main.tf.json"
	}
	preview.Files[name] = p.Module
	for variable, declared := range module.Variables {
		sensitive[variable] = declared.Sensitive
	}
	return sensitive
}

func (c *checker) previewVariables(preview *Preview, sensitive map[string]bool) {
	p := c.Template.Spec.Template.Spec.ForProvider
	for _, file := range p.VarFiles {
		ref := refOf(file.SecretKeyReference, file.ConfigMapKeyReference)
		if _, given := c.ConfigMaps[ExpandName(c.Apply, ref.Name)]; !given || ref.secret {
			preview.VariableFiles = append(preview.VariableFiles, c.origin(ref))
		}
	}
	for _, v := range p.Vars {
		if ref := refOf(v.SecretKeyReference, v.ConfigMapKeyReference); c.unknown[string(v.Key)] && ref.KeyReference != nil {
			preview.Variables[string(v.Key)] = quoted(c.origin(ref))
		}
	}
	encoded, err := inspect.ToJSON(c.values)
	c.add(err)
	for name, value := range encoded {
		if sensitive[name] {
			value = quoted(sensitiveValue)
		}
		preview.Variables[name] = value
	}
}

func (c *checker) previewEnv(preview *Preview) {
	for _, e := range c.Template.Spec.Template.Spec.ForProvider.Env {
		if ref := refOf(e.SecretKeyReference, e.ConfigMapKeyReference); ref.KeyReference != nil {
			preview.Env[e.Name] = c.origin(ref)
		}
		if e.Value != nil {
			preview.Env[e.Name] = *e.Value
			// The value was counted when it was checked.
			if text, err := newResolver(c.Sources).expand("", *e.Value); err == nil {
				preview.Env[e.Name] = text
			}
		}
	}
}

// previewConfig adds the files, the backend and the credentials of the provider
// config.
func (c *checker) previewConfig(preview *Preview) {
	if c.ProviderConfig == nil {
		return
	}
	spec := c.ProviderConfig.Spec
	if spec.Configuration != "" {
		preview.Files[providerFile] = spec.Configuration
	}
	if spec.Backend != nil {
		preview.Backend = spec.Backend.Type
		if text, err := newResolver(c.Sources).expandPlain("backend.configuration", spec.Backend.Configuration); err == nil && text != "" {
			preview.Backend += " {\n" + text + "}"
		}
	}
	for i := range spec.Credentials {
		credential := &spec.Credentials[i]
		origin := c.origin(keyRef{&credential.SecretRef, true})
		if credential.Filename != "" {
			preview.Files[credential.Filename] = origin
		} else {
			preview.Env[credential.Env] = origin
		}
	}
}

// origin describes where a value comes from.
func (c *checker) origin(ref keyRef) string {
	return fmt.Sprintf("(key %s of %s %s)", ref.Key, ref.kind(), ExpandName(c.Apply, ref.Name))
}

func quoted(text string) json.RawMessage {
	// Encoding a string cannot fail.
	encoded, _ := json.Marshal(text)
	return encoded
}

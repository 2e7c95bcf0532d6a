package command

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"github.com/appthrust/capt/internal/terraform"
)

const (
	// overrideFile overrides the backend that the module declares. The tool loads
	// override files in the order of their names, and the last one wins.
	overrideFile = terraform.ReservedFilePrefix + "override.tf"
	// kubeconfigFile is the kubeconfig of the Kubernetes backend. The path is
	// relative because a plan records it and may be applied in another directory.
	kubeconfigFile = terraform.ReservedFilePrefix + "kubeconfig"
	// localState is the state of a workspace without a backend. It is outside the
	// module, because the module may be replaced.
	localState = "terraform.tfstate"
)

// backendConfig is the complete configuration of a backend that requires no init.
// The engine writes both the configuration and the record that an init would
// write. The tool finds them equal and continues without connecting to the
// backend. So it does not need the permission to list Secrets, which an init of
// the Kubernetes backend requires.
type backendConfig struct {
	kind   string
	values map[string]cty.Value
	// blocks are the backend's nested block types, all of them unused.
	blocks []string
}

// knownBackend returns the configuration of a backend that requires no init, or
// nil.
func (w *Workdir) knownBackend(backend terraform.Backend) *backendConfig {
	switch backend.Type {
	case terraform.BackendKubernetes:
		return kubernetesBackend(backend, len(w.Kubeconfig) > 0)
	case "":
		return &backendConfig{
			kind:   terraform.BackendLocal,
			values: map[string]cty.Value{"path": cty.StringVal(filepath.Join(w.Dir, localState))},
		}
	default:
		return nil
	}
}

// kubernetesBackend sets every attribute that would otherwise be read from the
// environment. The request's KUBE_* variables are for the module's providers and
// must not change where the state is stored. Terraform treats an empty attribute
// as unset; see checkEnvironment.
func kubernetesBackend(backend terraform.Backend, kubeconfig bool) *backendConfig {
	values := map[string]cty.Value{
		"secret_suffix":     cty.StringVal(backend.SecretSuffix),
		"namespace":         cty.StringVal(backend.Namespace),
		"in_cluster_config": cty.BoolVal(!kubeconfig),
		"config_path":       cty.StringVal(""),
		"load_config_file":  cty.BoolVal(kubeconfig),
		"insecure":          cty.False,
	}
	if kubeconfig {
		values["config_path"] = cty.StringVal(kubeconfigFile)
	}
	for _, name := range []string{
		"host", "username", "password", "token", "client_certificate", "client_key", "cluster_ca_certificate",
		"config_context", "config_context_auth_info", "config_context_cluster",
	} {
		values[name] = cty.StringVal("")
	}
	if len(backend.Labels) > 0 {
		labels := make(map[string]cty.Value, len(backend.Labels))
		for key, value := range backend.Labels {
			labels[key] = cty.StringVal(value)
		}
		values["labels"] = cty.MapVal(labels)
	}
	return &backendConfig{kind: terraform.BackendKubernetes, values: values, blocks: []string{"exec"}}
}

// hcl returns the content of the override file.
func (b *backendConfig) hcl() []byte {
	file := hclwrite.NewEmptyFile()
	body := file.Body().AppendNewBlock("terraform", nil).Body().AppendNewBlock("backend", []string{b.kind}).Body()
	for _, name := range slices.Sorted(maps.Keys(b.values)) {
		body.SetAttributeValue(name, b.values[name])
	}
	return file.Bytes()
}

// record returns what an init would write to .terraform/terraform.tfstate. The
// tool corrects the hash.
func (b *backendConfig) record(product Product) ([]byte, error) {
	config := make(map[string]json.RawMessage, len(b.values))
	for name, value := range b.values {
		encoded, err := ctyjson.Marshal(value, value.Type())
		if err != nil {
			return nil, fmt.Errorf("encoding backend attribute %s: %w", name, err)
		}
		config[name] = encoded
	}
	for _, block := range b.blocks {
		// Only OpenTofu allows such a block to be repeated.
		config[block] = json.RawMessage("[]")
		if product == Terraform {
			config[block] = json.RawMessage("null")
		}
	}
	return json.Marshal(map[string]any{
		"version": 3,
		"backend": map[string]any{"type": b.kind, "config": config, "hash": 0},
	})
}

// writeBackend writes the backend's configuration and, if the backend requires no
// init, its record.
func (w *Workdir) writeBackend(root string, backend terraform.Backend, product Product) error {
	known := w.knownBackend(backend)
	if known == nil {
		text := fmt.Sprintf("terraform {\n  backend %q {\n%s\n  }\n}\n", backend.Type, backend.HCL)
		return writeFile(filepath.Join(root, overrideFile), []byte(text))
	}
	if err := writeFile(filepath.Join(root, overrideFile), known.hcl()); err != nil {
		return err
	}
	if len(w.Kubeconfig) > 0 && known.kind == terraform.BackendKubernetes {
		if err := writeFile(filepath.Join(root, kubeconfigFile), w.Kubeconfig); err != nil {
			return err
		}
	}
	record, err := known.record(product)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(root, dataDir), 0o700); err != nil {
		return fmt.Errorf("creating %s: %w", dataDir, err)
	}
	return writeFile(filepath.Join(root, backendRecord), record)
}

// backendEnv are the variables that Terraform's Kubernetes backend reads if an
// attribute is empty.
var backendEnv = []string{
	"KUBE_HOST", "KUBE_USER", "KUBE_PASSWORD", "KUBE_TOKEN", "KUBE_CLIENT_CERT_DATA", "KUBE_CLIENT_KEY_DATA",
	"KUBE_CLUSTER_CA_CERT_DATA", "KUBE_CTX", "KUBE_CTX_AUTH_INFO", "KUBE_CTX_CLUSTER", "KUBE_PROXY_URL",
}

// checkEnvironment returns a failure if a variable of the request would change
// where the state is stored.
func checkEnvironment(request *terraform.Request, product Product) error {
	if request.Backend.Type != terraform.BackendKubernetes || product != Terraform {
		return nil
	}
	for _, name := range backendEnv {
		if request.Env[name] != "" {
			return &Failure{Command: "init", ExitCode: 1, Class: terraform.ClassTerminal, Diagnostics: terraform.Diagnostics{{
				Severity: terraform.SeverityError,
				Summary:  "Environment variable changes where the state is stored",
				Detail:   fmt.Sprintf("Terraform's Kubernetes backend also reads %s. Configure the provider with a kubeconfig file instead, or use OpenTofu.", name),
			}}}
		}
	}
	return nil
}

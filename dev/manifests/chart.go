package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"sigs.k8s.io/kustomize/api/resource"
)

// chartFiles maps the kinds of config/default, config/prometheus and config/namespaced to the
// templates of the chart that are generated. The other kinds have templates that are written by hand, and the tests of
// dev/bin/charts compare them with config/default.
var chartFiles = map[string]string{
	"CustomResourceDefinition":         "crds.yaml",
	"ClusterRole":                      "rbac.yaml",
	"ClusterRoleBinding":               "rbac.yaml",
	"Role":                             "rbac.yaml",
	"RoleBinding":                      "rbac.yaml",
	"ValidatingAdmissionPolicy":        "policies.yaml",
	"ValidatingAdmissionPolicyBinding": "policies.yaml",
	"Service":                          "services.yaml",
	"MutatingWebhookConfiguration":     "webhooks.yaml",
	"ValidatingWebhookConfiguration":   "webhooks.yaml",
	"Issuer":                           "certificates.yaml",
	"Certificate":                      "certificates.yaml",
	"ServiceMonitor":                   "monitoring.yaml",
	"PrometheusRule":                   "monitoring.yaml",
	"ConfigMap":                        "monitoring.yaml",
	"NetworkPolicy":                    "networkpolicies.yaml",
}

// conditions are the values on which a template depends.
var conditions = map[string]string{
	"crds.yaml":            ".Values.crds.enabled",
	"policies.yaml":        ".Values.policies.enabled",
	"networkpolicies.yaml": ".Values.networkPolicies.manager",
	"certificates.yaml":    ".Values.certManager.enabled",
	"monitoring.yaml":      ".Values.monitoring.enabled",
	namespacedFile:         namespaceFlag,
}

const (
	// namespacedFile is the template with what config/namespaced adds.
	namespacedFile = "namespaced.yaml"
	// namespaceFlag is the namespace that the manager watches, or empty.
	namespaceFlag = `index .Values.flags "namespace"`
)

// tokenFile begins the endpoint of a ServiceMonitor, and authorization replaces it in the
// chart: a Prometheus that refuses files takes the token from a Secret.
const (
	tokenFile     = "  - bearerTokenFile: /var/run/secrets/kubernetes.io/serviceaccount/token\n    honorLabels: true\n" //nolint:gosec // The path of a file.
	authorization = "  - honorLabels: true\n    {{- with .Values.monitoring.authorization }}\n    authorization:\n      {{- toYaml . | nindent 6 }}\n" +
		"    {{- else }}\n    bearerTokenFile: /var/run/secrets/kubernetes.io/serviceaccount/token\n    {{- end }}\n"
)

// aggregated is the label of a role that may be a part of one of Kubernetes' roles.
var aggregated = regexp.MustCompile(`/aggregate-to-(view|edit): "(?:true|false)"`)

// writeChart writes the generated templates of charts/capt.
func writeChart(root string) error {
	c, err := loadConfig(root, "chart")
	if err != nil {
		return err
	}
	files, known := map[string]*bytes.Buffer{}, map[string]bool{}
	for _, dir := range []string{"config/default", "config/prometheus", "config/namespaced"} {
		rendered, err := c.render(dir)
		if err != nil {
			return err
		}
		if err := addTemplates(files, known, dir, rendered.Resources()); err != nil {
			return err
		}
	}
	for name, text := range files {
		if conditions[name] != "" {
			text.WriteString("{{- end }}\n")
		}
		if err := os.WriteFile(filepath.Join(root, "charts", "capt", "templates", name), text.Bytes(), 0o644); err != nil {
			return fmt.Errorf("writing the chart: %w", err)
		}
	}
	return nil
}

// addTemplates adds the objects of a directory that are not known yet to the templates.
func addTemplates(files map[string]*bytes.Buffer, known map[string]bool, dir string, objects []*resource.Resource) error {
	for _, object := range objects {
		name, generated := chartFiles[object.GetKind()]
		id := object.CurId().String()
		if !generated || known[id] {
			continue
		}
		known[id] = true
		if dir == "config/namespaced" {
			name = namespacedFile
		}
		text, err := chartTemplate(object)
		if err != nil {
			return err
		}
		if files[name] == nil {
			files[name] = bytes.NewBufferString("# Generated from config/ by `make generate`.\n")
			if condition := conditions[name]; condition != "" {
				fmt.Fprintf(files[name], "{{- if %s }}\n", condition)
			}
		}
		files[name].WriteString("---\n")
		files[name].Write(text)
	}
	return nil
}

// chartTemplate returns an object as a template of Helm.
func chartTemplate(object *resource.Resource) ([]byte, error) {
	text, err := object.AsYAML()
	if err != nil {
		return nil, fmt.Errorf("encoding %s: %w", object.CurId(), err)
	}
	text = bytes.ReplaceAll(text, []byte("{{"), []byte(`{{ "{{" }}`))
	switch object.GetKind() {
	case "ClusterRole":
		text = aggregated.ReplaceAll(text, []byte("/aggregate-to-$1: \"{{ .Values.rbac.aggregate.$1 }}\""))
	case "CustomResourceDefinition":
		// Helm deletes objects of a release that is uninstalled, and with the CRDs
		// everything of their kinds.
		text = bytes.Replace(text, []byte("\n  annotations:\n"), []byte("\n  annotations:\n    {{- if .Values.crds.keep }}\n    helm.sh/resource-policy: keep\n    {{- end }}\n"), 1)
	case "ClusterRoleBinding":
		if object.GetName() == "capt-manager-rolebinding" {
			text = slices.Concat([]byte("{{- if not ("+namespaceFlag+") }}\n"), text, []byte("{{- end }}\n"))
		}
	case "ValidatingAdmissionPolicyBinding":
		if object.GetName() == "capt-approval" {
			text = bytes.Replace(text, []byte("  - Deny\n"), []byte("  {{- if .Values.approval.enforce }}\n  - Deny\n  {{- else }}\n  - Warn\n  - Audit\n  {{- end }}\n"), 1)
		}
	case "NetworkPolicy":
		for port, value := range map[string]string{
			"9443": `index .Values.flags "webhook-port"`,
			"8443": `last (splitList ":" (index .Values.flags "diagnostics-address"))`,
			"9440": `last (splitList ":" (index .Values.flags "health-addr"))`,
		} {
			text = bytes.ReplaceAll(text, []byte("port: "+port), []byte("port: {{ "+value+" }}"))
		}
	case "ServiceMonitor", "PrometheusRule":
		// The Prometheus operator selects them by labels.
		text = bytes.Replace(text, []byte(tokenFile), []byte(authorization), 1)
		text = bytes.Replace(text, []byte("\n  labels:\n"), []byte("\n  labels:\n    {{- with .Values.monitoring.labels }}\n    {{- toYaml . | nindent 4 }}\n    {{- end }}\n"), 1)
	case "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration":
		text = bytes.ReplaceAll(text, []byte("  clientConfig:\n"), []byte("  clientConfig:\n    {{- with $.Values.webhook.caBundle }}\n    caBundle: {{ . }}\n    {{- end }}\n"))
	}
	text = bytes.ReplaceAll(text, []byte("capt-workspaces"), []byte("{{ "+namespaceFlag+" }}"))
	return bytes.ReplaceAll(text, []byte("capt-system"), []byte("{{ .Release.Namespace }}")), nil
}

package main

import (
	"slices"
	"strings"
	"testing"
)

// page renders the chart with the page, and returns the pod of its Deployment.
func page(t *testing.T, values map[string]any) (map[string]manifest, map[string]any) {
	t.Helper()
	values["enabled"] = true
	objects, err := renderCAPT(t, map[string]any{"ui": values})
	if err != nil {
		t.Fatal(err)
	}
	deployment := objects["Deployment capt-ui"]
	if deployment == nil {
		t.Fatal("no Deployment is rendered")
	}
	return objects, deployment["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)
}

func TestPage_isOffByDefault(t *testing.T) {
	objects, err := renderCAPT(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	for id := range objects {
		if strings.Contains(id, "capt-ui") {
			t.Errorf("%s is rendered without ui.enabled", id)
		}
	}
	for _, values := range []map[string]any{
		{"enabled": true},
		{"enabled": true, "origin": "http://capt.example.com"},
		{"enabled": true, "origin": "https://capt.example.com/path/"},
		{"enabled": true, "origin": "https://capt.example.com", "oidc": map[string]any{"issuer": "https://id.example.com"}},
	} {
		if _, err := renderCAPT(t, map[string]any{"ui": values}); err == nil {
			t.Errorf("%v is accepted", values)
		}
	}
}

// The page acts with the identity of its users.
func TestPage_hasNoRights(t *testing.T) {
	objects, pod := page(t, map[string]any{"origin": "https://capt.example.com"})
	without, err := renderCAPT(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	for id := range objects {
		if _, same := without[id]; !same && strings.Contains(id, "Role") {
			t.Errorf("the page adds %s", id)
		}
	}
	if pod["automountServiceAccountToken"] != false || objects["ServiceAccount capt-ui"]["automountServiceAccountToken"] != false {
		t.Error("the pod has a token")
	}
	container := pod["containers"].([]any)[0].(map[string]any)
	security := container["securityContext"].(map[string]any)
	if security["readOnlyRootFilesystem"] != true || security["allowPrivilegeEscalation"] != false {
		t.Errorf("the container has the security context %v", security)
	}
	for _, id := range []string{"NetworkPolicy capt-ui", "Service capt-ui", "Certificate capt-ui"} {
		if objects[id] == nil {
			t.Errorf("%s is missing", id)
		}
	}
}

func TestPage_passesItsValues(t *testing.T) {
	_, pod := page(t, map[string]any{
		"origin": "https://capt.example.com/", "tls": false, "namespaces": []any{"team-a", "team-b"},
		"oidc": map[string]any{"issuer": "https://id.example.com", "clientID": "capt", "clientSecretName": "capt-oidc", "name": "Example"},
	})
	var args []string
	for _, arg := range pod["containers"].([]any)[0].(map[string]any)["args"].([]any) {
		args = append(args, arg.(string))
	}
	for _, want := range []string{
		"--origin=https://capt.example.com", "--namespaces=team-a,team-b", "--oidc-issuer=https://id.example.com", "--oidc-client-id=capt",
		"--oidc-client-secret-file=/etc/capt/oidc/client-secret", "--oidc-name=Example", "--oidc-scopes=profile,email,groups",
	} {
		if !slices.Contains(args, want) {
			t.Errorf("%s is missing in %v", want, args)
		}
	}
	if slices.ContainsFunc(args, func(arg string) bool { return strings.HasPrefix(arg, "--tls-cert-dir") }) {
		t.Errorf("there is no certificate: %v", args)
	}
}

func TestPage_hasTheCertificateOfItsOrigin(t *testing.T) {
	objects, _ := page(t, map[string]any{"origin": "https://capt.example.com:8443/"})
	names := objects["Certificate capt-ui"]["spec"].(map[string]any)["dnsNames"].([]any)
	if names[0] != "capt.example.com" {
		t.Errorf("the certificate is for %v", names)
	}
	objects, _ = page(t, map[string]any{"origin": "https://capt.example.com/", "tlsSecretName": "own"})
	if objects["Certificate capt-ui"] != nil {
		t.Error("a certificate is created besides the one of the Secret")
	}
	for _, secret := range []string{"", "own"} {
		_, err := renderCAPT(t, map[string]any{
			"certManager": map[string]any{"enabled": false},
			"ui":          map[string]any{"enabled": true, "origin": "https://capt.example.com", "tlsSecretName": secret},
		})
		if failed := err != nil && strings.Contains(err.Error(), "ui.tlsSecretName"); failed != (secret == "") {
			t.Errorf("with the Secret %q: %v", secret, err)
		}
	}
}

package template

import (
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/terraform"
)

// Keys of the Secrets for fetching modules, apart from those of Kubernetes' types of
// Secrets. Flux uses identity and known_hosts.
const (
	tokenKey      = "token"
	identityKey   = "identity"
	knownHostsKey = "known_hosts"
	// moduleKeys are the keys of which a Secret needs one.
	moduleKeys = "token, password, ssh-privatekey, identity or .dockerconfigjson"
	// defaultUsername is the user name for a token, which most servers ignore.
	defaultUsername = "git"
)

// moduleAuth adds the credentials for fetching modules to the request. They are not part of
// the inputs: a rotated token starts no run.
func (r *resolver) moduleAuth(request *terraform.Request) error {
	for i, c := range r.Template.Spec.Template.Spec.ForProvider.ModuleCredentials {
		field, name := fmt.Sprintf("moduleCredentials[%d]", i), c.SecretRef.Name
		if err := checkSecretName(field, name); err != nil {
			return err
		}
		data, exists := r.Secrets[name]
		if !exists {
			return &MissingKeyError{Field: field, Secret: true, Name: name}
		}
		auth, err := authOf(field, c, data)
		if err != nil {
			return err
		}
		request.Module.Auth = append(request.Module.Auth, auth)
	}
	return nil
}

// authOf returns the credentials of a Secret. Its keys say for which protocols they are.
func authOf(field string, c infrav1.ModuleCredential, data map[string][]byte) (terraform.ModuleAuth, error) {
	value := func(keys ...string) string {
		for _, key := range keys {
			if text := strings.TrimSpace(string(data[key])); text != "" {
				return text
			}
		}
		return ""
	}
	missing := func(key string) error {
		return &MissingKeyError{Field: field, Secret: true, Name: c.SecretRef.Name, Key: key, ObjectExists: true}
	}
	auth := terraform.ModuleAuth{
		Host: c.Host, Password: value(tokenKey, corev1.BasicAuthPasswordKey), PrivateKey: value(corev1.SSHAuthPrivateKey, identityKey),
	}
	if auth.Password != "" {
		if auth.Username = value(corev1.BasicAuthUsernameKey); auth.Username == "" {
			auth.Username = defaultUsername
		}
	}
	if strings.ContainsFunc(auth.Username+auth.Password, func(c rune) bool { return c < ' ' }) {
		return auth, problem(infrav1.InvalidVariableReason, "%s: user name, password and token in Secret %s must be one line", field, c.SecretRef.Name)
	}
	if auth.PrivateKey != "" {
		if auth.KnownHosts = value(knownHostsKey); auth.KnownHosts == "" {
			return auth, missing(knownHostsKey)
		}
	}
	if text := value(corev1.DockerConfigJsonKey); text != "" {
		if auth.Registries = registriesOf(c.Host, text); len(auth.Registries) == 0 {
			return auth, problem(infrav1.InvalidVariableReason, "%s: %s in Secret %s has no entry for %s", field, corev1.DockerConfigJsonKey, c.SecretRef.Name, c.Host)
		}
	}
	if auth.Password == "" && auth.PrivateKey == "" && len(auth.Registries) == 0 {
		return auth, missing(moduleKeys)
	}
	return auth, nil
}

// registriesOf returns the entries of a host in the config.json of a client. Other settings
// in it, such as programs that return credentials, are not used.
func registriesOf(host, text string) map[string]terraform.RegistryAuth {
	var config struct {
		Auths map[string]terraform.RegistryAuth `json:"auths"`
	}
	if json.Unmarshal([]byte(text), &config) != nil {
		return nil
	}
	for key := range config.Auths {
		_, address, hasScheme := strings.Cut(key, "://")
		if !hasScheme {
			address = key
		}
		if of, _, _ := strings.Cut(address, "/"); of != host {
			delete(config.Auths, key)
		}
	}
	return config.Auths
}

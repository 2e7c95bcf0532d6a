package template

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/terraform"
)

// moduleSecretField is the field with the Secret for fetching the module.
const moduleSecretField = "moduleSecretRef"

// Keys of the Secret for fetching a module, apart from those of Kubernetes' types of
// Secrets. Flux uses identity and known_hosts.
const (
	tokenKey      = "token"
	identityKey   = "identity"
	knownHostsKey = "known_hosts"
	// defaultUsername is the user name for a token, which most servers ignore.
	defaultUsername = "git"
)

// moduleAuth adds the credentials for fetching the module to the request. They are not
// part of the inputs: a rotated token starts no run.
func (r *resolver) moduleAuth(request *terraform.Request) error {
	ref := r.Template.Spec.Template.Spec.ForProvider.ModuleSecretReference
	if ref == nil {
		return nil
	}
	method, host, err := terraform.AuthOf(request.Module.Address)
	if err != nil {
		return problem(infrav1.ModuleInvalidReason, "%s: %v", moduleSecretField, err)
	}
	if err := checkSecretName(moduleSecretField, ref.Name); err != nil {
		return err
	}
	data, exists := r.Secrets[ref.Name]
	if !exists {
		return &MissingKeyError{Field: moduleSecretField, Secret: true, Name: ref.Name}
	}
	value := func(keys ...string) (string, error) {
		for _, key := range keys {
			if text := strings.TrimSpace(string(data[key])); text != "" {
				return text, nil
			}
		}
		return "", &MissingKeyError{Field: moduleSecretField, Secret: true, Name: ref.Name, Key: keys[0], ObjectExists: true}
	}
	auth := &terraform.ModuleAuth{Method: method, Host: host}
	switch method {
	case terraform.AuthHTTPS:
		auth.Username = defaultUsername
		if name, err := value(corev1.BasicAuthUsernameKey); err == nil {
			auth.Username = name
		}
		auth.Password, err = value(tokenKey, corev1.BasicAuthPasswordKey)
	case terraform.AuthRegistry:
		auth.Password, err = value(tokenKey, corev1.BasicAuthPasswordKey)
	case terraform.AuthOCI:
		auth.DockerConfig, err = value(corev1.DockerConfigJsonKey)
	case terraform.AuthSSH:
		if auth.PrivateKey, err = value(corev1.SSHAuthPrivateKey, identityKey); err == nil {
			auth.KnownHosts, err = value(knownHostsKey)
		}
	}
	if err != nil {
		return err
	}
	if strings.ContainsFunc(auth.Username+auth.Password, func(c rune) bool { return c < ' ' }) {
		return problem(infrav1.InvalidVariableReason, "%s: user name, password and token in Secret %s must be one line", moduleSecretField, ref.Name)
	}
	request.Module.Auth = auth
	return nil
}

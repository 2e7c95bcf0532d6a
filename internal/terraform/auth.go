package terraform

// ModuleAuth are the credentials with which modules are fetched from a host. No other
// command gets them.
type ModuleAuth struct {
	// Host is the host, with its port if it has one, that gets the credentials.
	Host string `json:"host"`
	// Username and Password are those of Git over HTTPS. Password is also the token of a
	// module registry.
	Username string `json:"username,omitempty"`
	Password string `json:"password,omitempty"`
	// PrivateKey and KnownHosts are those of Git over SSH, in the formats of OpenSSH.
	PrivateKey string `json:"privateKey,omitempty"`
	KnownHosts string `json:"knownHosts,omitempty"`
	// Registries are the entries of the host in the config.json of a client of OCI
	// registries such as Docker.
	Registries map[string]RegistryAuth `json:"registries,omitempty"`
}

// RegistryAuth is what the tool reads of an entry of auths in such a file.
type RegistryAuth struct {
	Auth          string `json:"auth,omitempty"`
	IdentityToken string `json:"identitytoken,omitempty"`
}

// secrets returns what must not appear in a log.
func (a *ModuleAuth) secrets() []string {
	secrets := []string{a.Password, a.PrivateKey}
	for _, r := range a.Registries {
		secrets = append(secrets, r.Auth, r.IdentityToken)
	}
	return secrets
}

package terraform

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
)

// AuthMethod is how the server of a module authenticates a client.
type AuthMethod string

const (
	// AuthHTTPS is Git over HTTPS with user name and password or token.
	AuthHTTPS AuthMethod = "HTTPS"
	// AuthSSH is Git over SSH with a key. The server must have a known host key.
	AuthSSH AuthMethod = "SSH"
	// AuthRegistry is a module registry with a token.
	AuthRegistry AuthMethod = "Registry"
	// AuthOCI is an OCI registry with the configuration of a client such as Docker.
	AuthOCI AuthMethod = "OCI"
)

// ModuleAuth are the credentials with which a module, and the modules of the same host that
// it uses, are fetched. No other command gets them.
type ModuleAuth struct {
	Method AuthMethod `json:"method"`
	// Host is the host, with its port if it has one, that gets the credentials.
	Host string `json:"host"`
	// Username and Password are those of AuthHTTPS. Password is also the token of
	// AuthRegistry.
	Username string `json:"username,omitempty"`
	Password string `json:"password,omitempty"`
	// PrivateKey and KnownHosts are those of AuthSSH, in the formats of OpenSSH.
	PrivateKey string `json:"privateKey,omitempty"`
	KnownHosts string `json:"knownHosts,omitempty"`
	// DockerConfig is the config.json of AuthOCI.
	DockerConfig string `json:"dockerConfig,omitempty"`
}

// secrets returns what must not appear in a log.
func (a *ModuleAuth) secrets() []string {
	if a == nil {
		return nil
	}
	return append([]string{a.Password, a.PrivateKey}, inFile(a.DockerConfig)...)
}

var (
	// scpAddress matches Git's short form of SSH, such as git@example.com:network.git.
	scpAddress = regexp.MustCompile(`^[A-Za-z0-9_.-]+@([A-Za-z0-9.-]+):[^/]`)
	// registryAddress matches a module in a registry.
	registryAddress = regexp.MustCompile(`^(?:([A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+(?::[0-9]+)?|localhost:[0-9]+)/)?[0-9A-Za-z_-]+/[0-9A-Za-z_-]+/[0-9a-z]+(?://.*)?$`)
	// gitHosts are the hosts of Git repositories that need no prefix.
	gitHosts = []string{"github.com", "bitbucket.org"}
)

// AuthOf returns how the server of a module's address authenticates clients, and its host.
func AuthOf(address string) (AuthMethod, string, error) {
	forced, rest, isForced := strings.Cut(address, "::")
	if !isForced {
		forced, rest = "", address
	}
	if match := scpAddress.FindStringSubmatch(rest); match != nil && (forced == "" || forced == "git") {
		return AuthSSH, match[1], nil
	}
	for _, host := range gitHosts {
		if forced == "" && strings.HasPrefix(rest, host+"/") {
			return AuthHTTPS, host, nil
		}
	}
	if match := registryAddress.FindStringSubmatch(rest); match != nil && forced == "" {
		if match[1] == "" {
			return "", "", fmt.Errorf("credentials need the host of the registry: write it before %s, for example registry.example.com/%[1]s", rest)
		}
		return AuthRegistry, match[1], nil
	}
	parsed, err := url.Parse(rest)
	switch {
	case err != nil || parsed.Host == "":
	case forced == "" && parsed.Scheme == "oci":
		return AuthOCI, parsed.Host, nil
	case forced == "git" && parsed.Scheme == "https":
		return AuthHTTPS, parsed.Host, nil
	case forced == "git" && parsed.Scheme == "ssh":
		return AuthSSH, parsed.Host, nil
	case forced == "git" && parsed.Scheme == "http":
		return "", "", errors.New("credentials are not sent without TLS: write git::https://")
	}
	return "", "", errors.New("credentials are supported for Git (git::https://…, git::ssh://…), for module registries (HOST/NAMESPACE/NAME/PROVIDER) and for OCI registries (oci://…)")
}

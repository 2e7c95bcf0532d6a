package manager

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// homeSecrets are the places of credentials in a home directory.
var homeSecrets = []string{
	".aws", ".azure", ".config/gcloud", ".config/gh", ".config/helm", ".config/op", ".docker", ".git-credentials", ".gnupg",
	".kube", ".netrc", ".oci", ".terraform.d/credentials.tfrc.json", ".vault-token",
}

// hidden returns the files and directories that runs of the process executor must not
// read: the credentials of the manager and of its user.
func (o *EngineOptions) hidden() []string {
	hidden := slices.Concat(o.Hide, filepath.SplitList(os.Getenv("KUBECONFIG")), []string{"/var/run/secrets/kubernetes.io"})
	if kubeconfig := flag.Lookup("kubeconfig"); kubeconfig != nil {
		hidden = append(hidden, kubeconfig.Value.String())
	}
	home, err := os.UserHomeDir()
	if err != nil || o.InheritHome {
		return absolute(hidden)
	}
	for _, name := range homeSecrets {
		hidden = append(hidden, filepath.Join(home, name))
	}
	return absolute(append(hidden, sshKeys(home)...))
}

// sshKeys returns the files of a user's SSH configuration other than those without
// secrets.
func sshKeys(home string) []string {
	files, _ := filepath.Glob(filepath.Join(home, ".ssh", "*")) // The pattern is valid.
	return slices.DeleteFunc(files, func(path string) bool {
		name := filepath.Base(path)
		return strings.HasPrefix(name, "known_hosts") || strings.HasSuffix(name, ".pub") || name == "config"
	})
}

// absolute returns the paths as absolute ones. A comma separates the runner's arguments.
func absolute(paths []string) []string {
	var all []string
	for _, path := range paths {
		if path == "" {
			continue
		}
		if path, err := filepath.Abs(path); err == nil && !strings.Contains(path, ",") {
			all = append(all, path)
		}
	}
	return all
}

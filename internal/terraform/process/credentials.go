package process

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/access"
	"github.com/appthrust/capt/internal/terraform/command"
	"github.com/appthrust/capt/internal/terraform/command/binary"
	"github.com/appthrust/capt/internal/terraform/served"
)

func (e *Executor) granter() access.Granter {
	return access.Granter{Client: e.Client, Reader: e.Reader, KeepsDirectories: true}
}

// kubeconfig returns the kubeconfig of a run. It has a token of the run's own service
// account, which can access the Secret of the run, the state and its lock.
func (e *Executor) kubeconfig(ctx context.Context, run terraform.Run, request *terraform.Request) ([]byte, error) {
	if err := e.granter().Grant(ctx, run, request); err != nil {
		return nil, err
	}
	token, err := e.granter().Token(ctx, run, request)
	if err != nil {
		return nil, err
	}
	api := rest.CopyConfig(e.API)
	if err := rest.LoadTLSFiles(api); err != nil {
		return nil, fmt.Errorf("reading certificates: %w", err)
	}
	const name = "capt"
	text, err := clientcmd.Write(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{name: {
			Server: api.Host, CertificateAuthorityData: api.CAData, InsecureSkipTLSVerify: api.Insecure, TLSServerName: api.ServerName,
		}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{name: {Token: token}},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: name}},
		CurrentContext: name,
	})
	if err != nil {
		return nil, fmt.Errorf("encoding the kubeconfig: %w", err)
	}
	return text, nil
}

// inherited returns the end of a pipe from which the child reads the content. No other
// process can open it.
func inherited(content []byte) (*os.File, error) {
	reader, writer, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("passing the kubeconfig: %w", err)
	}
	go func() {
		// It fails only if the child has exited.
		_, _ = writer.Write(content)
		_ = writer.Close()
	}()
	return reader, nil
}

// environment returns the part of the manager's environment that the runner needs. The
// rest may have credentials of the manager, and modules can read the environment of the
// runner.
func (e *Executor) environment() []string {
	passed := append(command.Inherited(), "POD_NAME", "POD_NAMESPACE", "POD_UID", "TF_CLI_CONFIG_FILE", binary.Env, served.Env, terraform.ProvidersEnv)
	patterns := strings.Split(e.Inherit, ",")
	// The processes of an environment are found by their home directory.
	env := []string{"HOME=" + e.WorkDir}
	for _, entry := range os.Environ() {
		name, _, _ := strings.Cut(entry, "=")
		if slices.Contains(passed, name) || slices.ContainsFunc(patterns, func(pattern string) bool { return command.MatchName(pattern, name) }) {
			env = append(env, entry)
		}
	}
	return env
}

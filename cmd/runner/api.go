package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// inheritedConfig reads a kubeconfig from a file that the manager opened. It closes the
// file, so that no module inherits it.
func inheritedConfig(fd int) (*rest.Config, error) {
	file := os.NewFile(uintptr(fd), "kubeconfig")
	if file == nil {
		return nil, fmt.Errorf("file descriptor %d is not open", fd)
	}
	text, err := io.ReadAll(file)
	if err := errors.Join(err, file.Close()); err != nil {
		return nil, err
	}
	return clientcmd.RESTConfigFromKubeConfig(text)
}

// mountedConfig returns the configuration of a pod whose token is not at the usual path,
// where modules find it.
func mountedConfig(dir string) (*rest.Config, error) {
	host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")
	if host == "" || port == "" {
		return nil, rest.ErrNotInCluster
	}
	config := &rest.Config{
		Host:            "https://" + net.JoinHostPort(host, port),
		TLSClientConfig: rest.TLSClientConfig{CAFile: filepath.Join(dir, "ca.crt")},
		// The kubelet renews the token.
		BearerTokenFile: filepath.Join(dir, "token"),
	}
	if _, err := os.ReadFile(config.BearerTokenFile); err != nil {
		return nil, fmt.Errorf("reading the token of the run: %w", err)
	}
	return config, nil
}

// Command ui serves the page of captctl ui to the users of a management cluster, who log
// in. It has no rights of its own: requests carry the token of their user.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"

	"github.com/appthrust/capt/internal/version"
	"github.com/appthrust/capt/internal/web"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "ui:", err)
		os.Exit(1)
	}
}

// options are the flags.
type options struct {
	listen, health, server, ca, tlsDir string
	oidcSecretFile, oidcCA             string
	oidc                               web.OIDC
	cluster                            web.ClusterOptions
	version                            bool
}

func run() error {
	var o options
	o.addFlags(pflag.CommandLine)
	pflag.Parse()
	if o.version {
		fmt.Println("ui", version.Get())
		return nil
	}
	ctrl.SetLogger(klog.Background())
	ctx := ctrl.SetupSignalHandler()
	if err := o.complete(); err != nil {
		return err
	}
	server, err := web.NewCluster(o.cluster)
	if err != nil {
		return err
	}
	config, err := o.tls(ctx)
	if err != nil {
		return err
	}
	var listen net.ListenConfig
	listener, err := listen.Listen(ctx, "tcp", o.listen)
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	server.ListenCluster(listener, config)
	if !web.Built() {
		fmt.Fprintln(os.Stderr, "This program was built without the page.")
	}
	failed := make(chan error, 2)
	go func() { failed <- serveHealth(ctx, o.health) }()
	go server.Expire(ctx)
	go func() { failed <- server.Serve(ctx) }()
	return <-failed
}

func (o *options) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.cluster.Origin, "origin", "", "Address of the page in browsers: https://HOST. Requests for other hosts are refused.")
	flags.StringVar(&o.listen, "listen-address", ":8443", "Address to serve the page at.")
	flags.StringVar(&o.health, "health-addr", ":9440", "Address to serve /healthz and /readyz at.")
	flags.StringVar(&o.tlsDir, "tls-cert-dir", "", "Directory with tls.crt and tls.key. If it is empty, a proxy must terminate TLS.")
	flags.StringVar(&o.server, "server", "", "Address of the management cluster's API server. Defaults to that of the pod's cluster.")
	flags.StringVar(&o.ca, "certificate-authority", "", "File with the CA of the API server.")
	flags.StringVar(&o.cluster.Context, "cluster-name", "management", "Name of the management cluster that the page shows.")
	flags.StringSliceVar(&o.cluster.Namespaces, "namespaces", nil, "Namespaces to show to users who may not list namespaces, as far as they may list the objects in them.")
	flags.DurationVar(&o.cluster.Idle, "session-idle", time.Hour, "Time after which a session ends that no page uses.")
	flags.DurationVar(&o.cluster.Lifetime, "session-lifetime", 12*time.Hour, "Time after which a session ends. It never outlives its token.")
	flags.StringVar(&o.oidc.Issuer, "oidc-issuer", "", "Address of the identity provider. The API server must accept its ID tokens.")
	flags.StringVar(&o.oidc.ClientID, "oidc-client-id", "", "ID of the client at the identity provider, which is the audience of its ID tokens.")
	flags.StringVar(&o.oidcSecretFile, "oidc-client-secret-file", "", "File with the secret of the client. A public client has none.")
	flags.StringSliceVar(&o.oidc.Scopes, "oidc-scopes", []string{"profile", "email", "groups"}, "Scopes to request besides openid.")
	flags.StringVar(&o.oidc.Name, "oidc-name", "", "Name of the identity provider that the page shows.")
	flags.StringVar(&o.oidcCA, "oidc-certificate-authority", "", "File with the CA of the identity provider, if it is not a public one.")
	flags.BoolVar(&o.version, "version", false, "Print the version and exit.")
}

// complete fills in what depends on files and on the environment.
func (o *options) complete() error {
	o.cluster.Config = &rest.Config{Host: o.server, TLSClientConfig: rest.TLSClientConfig{CAFile: o.ca}, QPS: 50, Burst: 100}
	if o.server == "" {
		host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")
		if host == "" || port == "" {
			return errors.New("not in a cluster: set --server")
		}
		o.cluster.Config.Host = "https://" + net.JoinHostPort(host, port)
	}
	if o.oidc.Issuer == "" {
		return nil
	}
	if o.oidc.ClientID == "" {
		return errors.New("--oidc-issuer requires --oidc-client-id")
	}
	if o.oidcSecretFile != "" {
		secret, err := os.ReadFile(o.oidcSecretFile)
		if err != nil {
			return fmt.Errorf("reading the secret of the client: %w", err)
		}
		o.oidc.ClientSecret = strings.TrimSpace(string(secret))
	}
	client, err := clientWithCA(o.oidcCA)
	if err != nil {
		return err
	}
	o.oidc.Client = client
	o.cluster.OIDC = &o.oidc
	return nil
}

// clientWithCA returns a client that trusts a CA besides the public ones.
func clientWithCA(file string) (*http.Client, error) {
	client := &http.Client{Timeout: 30 * time.Second}
	if file == "" {
		return client, nil
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading the CA: %w", err)
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		return nil, fmt.Errorf("reading the public CAs: %w", err)
	}
	if !pool.AppendCertsFromPEM(content) {
		return nil, fmt.Errorf("%s contains no certificate", file)
	}
	client.Transport = &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: true,
	}
	return client, nil
}

// tls returns the TLS configuration, whose certificate follows its file. It returns nil
// without a certificate.
func (o *options) tls(ctx context.Context) (*tls.Config, error) {
	if o.tlsDir == "" {
		return nil, nil
	}
	watcher, err := certwatcher.New(filepath.Join(o.tlsDir, "tls.crt"), filepath.Join(o.tlsDir, "tls.key"))
	if err != nil {
		return nil, fmt.Errorf("reading the certificate: %w", err)
	}
	go func() { _ = watcher.Start(ctx) }()
	return &tls.Config{GetCertificate: watcher.GetCertificate, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}, nil
}

// serveHealth answers the probes until the context ends.
func serveHealth(ctx context.Context, address string) error {
	mux := http.NewServeMux()
	for _, path := range []string{"/healthz", "/readyz"} {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok")) })
	}
	server := &http.Server{Addr: address, Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	if err := server.ListenAndServe(); ctx.Err() == nil {
		return fmt.Errorf("serving the probes: %w", err)
	}
	return nil
}

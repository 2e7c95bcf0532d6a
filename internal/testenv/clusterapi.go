package testenv

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/appthrust/capt/internal/testenv/waits"
)

// installClusterAPI installs Cluster API's CRDs. If run is set, it also runs the
// controllers and webhooks.
func (e *Environment) installClusterAPI(root, assets string, run bool) error {
	source, err := moduleDir(root, "sigs.k8s.io/cluster-api")
	if err != nil {
		return err
	}
	config := filepath.Join(source, "core", "config")
	crds := envtest.CRDInstallOptions{
		Scheme:             e.Scheme,
		Paths:              []string{filepath.Join(config, "crd", "bases")},
		ErrorIfPathMissing: true,
		MaxTime:            waits.Timeout,
	}
	if !run {
		// Without conversion webhooks only the storage version can be served.
		if err := envtest.ReadCRDFiles(&crds); err != nil {
			return fmt.Errorf("reading Cluster API's CRDs: %w", err)
		}
		crds.Paths = nil
		for _, crd := range crds.CRDs {
			serveStorageVersionOnly(crd)
		}
		if _, err := envtest.InstallCRDs(e.Config, crds); err != nil {
			return fmt.Errorf("installing Cluster API's CRDs: %w", err)
		}
		return nil
	}

	hooks := envtest.WebhookInstallOptions{
		Paths:                   []string{filepath.Join(config, "webhook", "manifests.yaml")},
		IgnoreSchemeConvertible: true,
	}
	if err := ServeOnFreePort(&hooks); err != nil {
		return err
	}
	if err := hooks.PrepWithoutInstalling(); err != nil {
		return fmt.Errorf("preparing Cluster API's webhooks: %w", err)
	}
	// CAPT's configurations have the same generated names.
	for _, hook := range hooks.ValidatingWebhooks {
		hook.Name = "capi-" + hook.Name
	}
	for _, hook := range hooks.MutatingWebhooks {
		hook.Name = "capi-" + hook.Name
	}
	crds.WebhookOptions = hooks
	if _, err := envtest.InstallCRDs(e.Config, crds); err != nil {
		return fmt.Errorf("installing Cluster API's CRDs: %w", err)
	}
	if err := e.startClusterAPI(assets, &hooks); err != nil {
		return err
	}
	if err := hooks.Install(e.Config); err != nil {
		return fmt.Errorf("installing Cluster API's webhooks: %w", err)
	}
	e.stops = append(e.stops, hooks.Cleanup)
	return nil
}

func (e *Environment) startClusterAPI(assets string, hooks *envtest.WebhookInstallOptions) error {
	health, err := freePort()
	if err != nil {
		return err
	}
	diagnostics, err := freePort()
	if err != nil {
		return err
	}
	cmd := exec.Command(filepath.Join(assets, "cluster-api"),
		"--leader-elect=false",
		"--webhook-port="+strconv.Itoa(hooks.LocalServingPort),
		"--webhook-cert-dir="+hooks.LocalServingCertDir,
		"--health-addr="+net.JoinHostPort("127.0.0.1", health),
		"--diagnostics-address="+net.JoinHostPort("127.0.0.1", diagnostics),
		"--insecure-diagnostics=true",
		"--feature-gates=ClusterTopology=true",
		"--v=2",
	)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+e.Kubeconfig, "POD_NAMESPACE=capi-system", "POD_NAME=capi", "POD_UID=0")
	return e.startProcess("cluster-api", cmd, fmt.Sprintf("http://127.0.0.1:%s/readyz", health))
}

// serveStorageVersionOnly makes a CRD serve only the version that needs no conversion.
func serveStorageVersionOnly(crd *apiextensionsv1.CustomResourceDefinition) {
	crd.Spec.Conversion = nil
	for i := range crd.Spec.Versions {
		crd.Spec.Versions[i].Served = crd.Spec.Versions[i].Storage
	}
}

// InstallFluxKinds installs the kinds of Flux's sources.
func (e *Environment) InstallFluxKinds() error {
	dir, err := partModuleDir("flux", "github.com/fluxcd/source-controller")
	if err != nil {
		return err
	}
	_, err = envtest.InstallCRDs(e.Config, envtest.CRDInstallOptions{MaxTime: waits.Timeout, Paths: []string{filepath.Join(dir, "config", "crd", "bases")}})
	return err
}

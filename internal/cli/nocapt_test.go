package cli_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/appthrust/capt/internal/cli"
	"github.com/appthrust/capt/internal/testenv"
)

func TestErrors_withoutCAPT(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	assets, err := testenv.Assets()
	g.Expect(err).NotTo(HaveOccurred())
	bare := &envtest.Environment{BinaryAssetsDirectory: assets, ControlPlaneStartTimeout: 2 * time.Minute}
	_, err = bare.Start()
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = bare.Stop() })
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	g.Expect(os.WriteFile(kubeconfig, bare.KubeConfig, 0o600)).To(Succeed())

	for command, group := range map[string]string{
		"plan": "infrastructure.cluster.x-k8s.io", "describe": "cluster.x-k8s.io", "addon": "addons.cluster.x-k8s.io",
	} {
		args := map[string][]string{"plan": {"plan", "x"}, "describe": {"describe", "cluster", "x"}, "addon": {"addon", "list"}}[command]
		var out bytes.Buffer
		err := execute(t.Context(), cli.Streams{In: &out, Out: &out, Err: &out}, append([]string{"--kubeconfig", kubeconfig}, args...)...)
		g.Expect(err).To(MatchError("the cluster has no API group " + group + ": install Cluster API and CAPT (clusterctl init --kubeconfig " + kubeconfig + "), or choose another cluster with --context"))
		g.Expect(cli.Code(err)).To(Equal(1))
	}
}

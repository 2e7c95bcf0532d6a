package aws

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/aws/awstest"
	"github.com/appthrust/capt/internal/kubernetes/kubeversion"
	"github.com/appthrust/capt/internal/kubernetes/manifest"
	"github.com/appthrust/capt/internal/testenv"
)

// What is shipped is what is tested: a flavor as captctl writes it, with the templates
// of this tree, becomes a cluster, is changed and upgraded, and is deleted without
// leaving anything in the account.
func TestFlavors_liveAndLeaveNothing(t *testing.T) {
	for name, test := range map[string]struct {
		flavor string
		set    []string
		// vpc reports whether the VPC exists before the cluster, and stays.
		vpc bool
	}{
		"eks":              {flavor: "eks", set: []string{"ENDPOINT_PUBLIC_CIDRS=192.0.2.0/24,203.0.113.7/32"}},
		"eks-private":      {flavor: "eks", set: []string{"ENDPOINT_PUBLIC_CIDRS=", "ENDPOINT_PUBLIC_ACCESS=false", "NAT_GATEWAY=PerZone"}},
		"eks-existing-vpc": {flavor: "eks-existing-vpc", set: []string{"ENDPOINT_PUBLIC_CIDRS=192.0.2.0/24"}, vpc: true},
	} {
		t.Run(name, func(t *testing.T) {
			needsEmulator(t)
			flavorLives(t, test.flavor, test.set, test.vpc)
		})
	}
}

func flavorLives(t *testing.T, flavor string, set []string, vpc bool) {
	t.Helper()
	initial, err := kubeversion.Parse(kubeversion.EKSDefault)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	account := awstest.New(t)
	server := startAPIServer(t, awstest.NewAuthenticator(t, account, "demo"), initial.String())
	e := startEmulator(t, "-cluster-endpoint", server.endpoint, "-cluster-ca", server.ca)
	account.URL = e.url
	if vpc {
		set = append(slices.Clone(set), "VPC_ID="+output[string](e.network("demo"), "vpc_id"))
	}
	before := e.resources()
	m := startManagement(e)
	m.providerConfig(account.Env())
	m.ship(flavor, set)

	cluster, plane := &clusterv1.Cluster{}, &controlplanev1.CAPTControlPlane{}
	m.wait(&infrav1.CAPTCluster{}, infrav1.ReadyCondition)
	m.wait(plane, infrav1.ReadyCondition)
	m.wait(cluster, clusterv1.AvailableCondition)
	e.Expect(plane.Status.Version).To(HavePrefix("v" + initial.String()))

	t.Log("Available; changing the tags")
	runs := m.workspace("demo").Status.Runs
	m.change(plane, func() { plane.Spec.AdditionalTags = map[string]string{"stage": "two"} })
	m.wait(plane, infrav1.ReadyCondition)
	e.Expect(m.workspace("demo").Status.Runs).To(BeNumerically(">", runs), "changed tags cause a run")

	next := initial.Next()
	t.Logf("upgrading to %s", next)
	m.change(plane, func() { plane.Spec.Version = "v" + next.String() + ".0" })
	e.Eventually(func(g Gomega) {
		status, text := e.request("GET", "/clusters/demo", "eks", "application/json", "", "")
		g.Expect(status).To(Equal(200), text)
		g.Expect(text).To(And(ContainSubstring(`"version":"`+next.String()+`"`), ContainSubstring(`"status":"ACTIVE"`)))
	}, testTimeout, time.Second).Should(Succeed())
	server.serve(next.String())
	e.Eventually(func(g Gomega) {
		g.Expect(m.get("demo", plane)).To(Succeed())
		g.Expect(plane.Status.Version).To(HavePrefix("v" + next.String()))
	}, testTimeout, time.Second).Should(Succeed())
	m.wait(plane, infrav1.ReadyCondition)
	m.wait(cluster, clusterv1.AvailableCondition)

	t.Log("deleting the Cluster")
	e.Expect(m.env.Client.Delete(t.Context(), cluster)).To(Succeed())
	for _, obj := range []conditioned{&controlplanev1.CAPTControlPlane{}, &infrav1.CAPTCluster{}, &clusterv1.Cluster{}} {
		e.Eventually(func(g Gomega) {
			g.Expect(apierrors.IsNotFound(m.get("demo", obj))).To(BeTrue(), "%T: %v", obj, obj.GetConditions())
		}, testTimeout, time.Second).Should(Succeed())
	}
	e.Expect(slices.DeleteFunc(e.resources(), func(name string) bool { return name == spotRole })).To(Equal(before), "only the account's role for Spot is left")
}

// ship creates the templates of this tree and a cluster of a flavor, as a user does:
// captctl generate, captctl validate, kubectl apply.
func (m *management) ship(flavor string, set []string) {
	m.t.Helper()
	captctl, err := testenv.Built("captctl")
	m.Expect(err).NotTo(HaveOccurred())
	top, err := testenv.Root()
	m.Expect(err).NotTo(HaveOccurred())
	shipped, err := filepath.Glob(filepath.Join(top, "templates", "*.yaml"))
	m.Expect(err).NotTo(HaveOccurred())
	m.Expect(shipped).NotTo(BeEmpty())

	args := []string{"generate", "cluster", "demo", "--flavor", flavor, "--namespace", m.namespace, "--set", "AWS_REGION=" + region}
	for _, assignment := range set {
		args = append(args, "--set", assignment)
	}
	var problems bytes.Buffer
	cmd := exec.CommandContext(m.t.Context(), captctl, args...)
	cmd.Stderr = &problems
	generated, err := cmd.Output()
	m.Expect(err).NotTo(HaveOccurred(), problems.String())
	file := filepath.Join(m.t.TempDir(), "cluster.yaml")
	m.Expect(os.WriteFile(file, generated, 0o600)).To(Succeed())

	config := filepath.Join(top, "examples", "provider-config-aws.yaml")
	out, err := exec.CommandContext(m.t.Context(), captctl,
		append([]string{"validate", "--strict", "--namespace", m.namespace, file, config}, shipped...)...).CombinedOutput()
	m.Expect(err).NotTo(HaveOccurred(), string(out))

	for _, path := range append(shipped, file) {
		text, err := os.ReadFile(path)
		m.Expect(err).NotTo(HaveOccurred())
		objects, err := manifest.Parse(text)
		m.Expect(err).NotTo(HaveOccurred())
		for _, obj := range objects {
			m.create(obj)
		}
	}
}

// change changes an object, also while controllers do.
func (m *management) change(obj client.Object, change func()) {
	m.t.Helper()
	m.Eventually(func() error {
		if err := m.get(obj.GetName(), obj); err != nil {
			return err
		}
		change()
		return m.env.Client.Update(m.t.Context(), obj)
	}, testTimeout).Should(Succeed(), "another client may cause conflicts")
}

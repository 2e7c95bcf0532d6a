package aws

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/aws/awstest"
	"github.com/appthrust/capt/internal/testenv"
	"github.com/appthrust/capt/internal/testenv/statetest"
)

// kubernetesVersion is the version of the API server of the workload cluster.
const kubernetesVersion = "1.37"

// spotRole is a role that belongs to the account. It stays.
const spotRole = "iam arn:aws:iam::123456789012:role/aws-service-role/spot.amazonaws.com/AWSServiceRoleForEC2Spot"

// management is a namespace of a management cluster with the real manager.
type management struct {
	*emulator
	env       *environment
	namespace string
	// cluster is the name of the Cluster.
	cluster string
	// states is the bucket of the states, or nil.
	states *statetest.S3
}

// Creation and deletion of a Cluster: modules/network and modules/eks as templates, run
// by the real manager. A real API server that accepts EKS tokens replaces that of EKS,
// at the address that the emulator returns.
func TestCAPT_createsAndDeletesEKSCluster(t *testing.T) {
	needsEmulator(t)
	steps := progressOf(t)
	account := awstest.New(t)
	server := startAPIServer(t, awstest.NewAuthenticator(t, account, "demo"), kubernetesVersion)
	endpoint := server.endpoint
	e := startEmulator(t, "-cluster-endpoint", endpoint, "-cluster-ca", server.ca)
	// Tokens are signed for the emulator with keys that the authenticator accepts.
	account.URL = e.url
	before := e.everything()
	m := startManagement(e)
	m.templates(account.Env())
	m.create(demo()...)
	steps.done("environment started")

	m.wait(&infrav1.CAPTCluster{}, infrav1.ReadyCondition)
	steps.done("VPC ready")
	plane := &controlplanev1.CAPTControlPlane{}
	m.wait(plane, infrav1.ReadyCondition)
	cluster := &clusterv1.Cluster{}
	m.wait(cluster, clusterv1.AvailableCondition)
	steps.done("available")
	e.Expect(cluster.Spec.ControlPlaneEndpoint.String()).To(Equal(strings.TrimPrefix(endpoint, "https://")))
	e.Expect(e.resources()).To(ContainElements("eks "+region+"/clusters/demo", "iam arn:aws:iam::123456789012:role/KarpenterNode-demo-"+region))

	runs := m.workspace("demo").Status.Runs
	e.Eventually(func() error {
		if err := m.get("demo", plane); err != nil {
			return err
		}
		plane.Spec.AdditionalTags = map[string]string{"stage": "two"}
		return m.env.Client.Update(t.Context(), plane)
	}, testTimeout).Should(Succeed(), "another client may cause conflicts")
	m.wait(plane, infrav1.ReadyCondition)
	e.Expect(m.workspace("demo").Status.Runs).To(BeNumerically(">", runs), "changed tags cause a run")
	steps.done("tags changed")

	// The controllers of the cluster leave something in the account.
	infra, outputs := &infrav1.CAPTCluster{}, m.workspace("demo").Status.Outputs
	e.Expect(m.get("demo", infra)).To(Succeed())
	var nodeGroup string
	e.Expect(json.Unmarshal(outputs["node_security_group_id"].Raw, &nodeGroup)).To(Succeed())
	e.leave("demo", infra.Status.VPCID, infra.Status.SubnetIDs, nodeGroup)
	e.Expect(m.env.Client.Delete(t.Context(), cluster)).To(Succeed())
	for _, obj := range []conditioned{&controlplanev1.CAPTControlPlane{}, &infrav1.CAPTCluster{}, &clusterv1.Cluster{}} {
		e.Eventually(func(g Gomega) {
			g.Expect(apierrors.IsNotFound(m.get("demo", obj))).To(BeTrue(), "%T: %v", obj, obj.GetConditions())
		}, testTimeout, time.Second).Should(Succeed())
	}
	steps.done("deleted")
	left := slices.DeleteFunc(e.everything(), func(name string) bool { return name == spotRole })
	e.Expect(left).To(Equal(before), "only the account's role for Spot is left")
}

// apiServer is an API server that replaces that of EKS.
type apiServer struct {
	*WithT
	program, dir, webhook, parts string
	endpoint                     string
	// ca is a file with the certificate authority.
	ca string
}

// startAPIServer starts an API server of a Kubernetes version with the authenticator as
// token webhook.
func startAPIServer(t *testing.T, authenticator *awstest.Authenticator, version string) *apiServer {
	t.Helper()
	s := &apiServer{WithT: NewWithT(t)}
	var err error
	s.program, err = testenv.Built("localcluster")
	s.Expect(err).NotTo(HaveOccurred())
	s.parts, err = testenv.Assets()
	s.Expect(err).NotTo(HaveOccurred())
	work := t.TempDir()
	s.dir, s.webhook, s.ca = filepath.Join(work, "eks"), filepath.Join(work, "webhook"), filepath.Join(work, "ca.crt")
	s.Expect(authenticator.WriteKubeconfig(s.webhook)).To(Succeed())
	t.Cleanup(func() { s.run("down") })
	s.serve(version)
	text, err := os.ReadFile(filepath.Join(s.dir, "kubeconfig"))
	s.Expect(err).NotTo(HaveOccurred())
	config, err := clientcmd.RESTConfigFromKubeConfig(text)
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(os.WriteFile(s.ca, config.CAData, 0o600)).To(Succeed())
	s.endpoint = config.Host
	return s
}

// serve starts the API server with a Kubernetes version, or upgrades it in place.
func (s *apiServer) serve(version string) {
	s.run("up", "--name", "eks", "--kubernetes-version", version, "--bin-dir", s.parts, "--token-webhook", s.webhook)
}

func (s *apiServer) run(args ...string) {
	out, err := exec.Command(s.program, append(args, "--dir", s.dir)...).CombinedOutput()
	s.Expect(err).NotTo(HaveOccurred(), string(out))
}

const passphraseKey = "passphrase"

// stateKey returns the key of a workspace's state in the bucket.
func (m *management) stateKey(workspace string) string {
	return "capt/" + m.namespace + "/" + workspace + ".tfstate"
}

// providerConfig creates the provider config aws, whose runs have the given settings.
func (m *management) providerConfig(settings map[string]string) {
	m.t.Helper()
	settings["AWS_REGION"], settings["AWS_EC2_METADATA_DISABLED"] = region, "true"
	config := &infrav1.WorkspaceProviderConfig{ObjectMeta: metav1.ObjectMeta{Name: "aws"}}
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		config.Spec.Credentials = append(config.Spec.Credentials, infrav1.ProviderCredential{Env: name, SecretRef: infrav1.KeyReference{Name: "aws", Key: name}})
	}
	if m.states != nil {
		config.Spec.Backend = &infrav1.BackendConfig{Type: "s3", Configuration: m.states.Configuration("capt/${WORKSPACE_NAMESPACE}/${WORKSPACE_NAME}.tfstate")}
		config.Spec.StateEncryption = &infrav1.StateEncryption{PassphraseSecretRef: &infrav1.KeyReference{Name: "aws", Key: passphraseKey}}
		settings[passphraseKey] = "a passphrase of sixteen characters"
	}
	m.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "aws"}, StringData: settings}, config)
}

// configureProvider gives the provider config aws the specification of an example, beside
// the settings of the emulator. The manager of these tests runs no Jobs: test/job checks
// the identities of their service accounts.
func (m *management) configureProvider(example *unstructured.Unstructured) {
	m.t.Helper()
	shown := &infrav1.WorkspaceProviderConfig{}
	m.Expect(runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(example.Object, shown, true)).To(Succeed())
	shown.Spec.Runner = nil
	config := &infrav1.WorkspaceProviderConfig{ObjectMeta: metav1.ObjectMeta{Name: example.GetName()}}
	m.change(config, func() {
		credentials := slices.Concat(config.Spec.Credentials, shown.Spec.Credentials)
		config.Spec = shown.Spec
		config.Spec.Credentials = credentials
	})
}

// templates creates the templates vpc and eks from the modules of this tree, whose runs
// have the given settings.
func (m *management) templates(settings map[string]string) {
	m.t.Helper()
	m.providerConfig(settings)
	top, err := testenv.Root()
	m.Expect(err).NotTo(HaveOccurred())
	for name, module := range map[string]string{"vpc": "network", "eks": "eks"} {
		spec := infrav1.WorkspaceSpec{
			ForProvider: infrav1.ModuleParameters{
				Source: infrav1.ModuleSourceRemote, Module: filepath.Join(top, "modules"), Entrypoint: module,
			},
			ProviderConfigRef: &infrav1.LocalReference{Name: "aws"},
		}
		m.create(&infrav1.WorkspaceTemplate{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       infrav1.WorkspaceTemplateSpec{Template: infrav1.WorkspaceTemplateDefinition{Spec: spec}},
		})
	}
}

// demo returns a cluster of these templates.
func demo() []client.Object {
	named := metav1.ObjectMeta{Name: "demo"}
	return []client.Object{
		&clusterv1.Cluster{ObjectMeta: named, Spec: clusterv1.ClusterSpec{
			InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "CAPTCluster", Name: "demo"},
			ControlPlaneRef:   clusterv1.ContractVersionedObjectReference{APIGroup: controlplanev1.GroupVersion.Group, Kind: "CAPTControlPlane", Name: "demo"},
		}},
		&infrav1.CAPTCluster{ObjectMeta: named, Spec: infrav1.CAPTClusterSpec{
			Region: region, VPCTemplateRef: &infrav1.TemplateReference{Name: "vpc"},
		}},
		&controlplanev1.CAPTControlPlane{ObjectMeta: named, Spec: controlplanev1.CAPTControlPlaneSpec{
			Version: "v" + kubernetesVersion + ".0", WorkspaceTemplateRef: infrav1.TemplateReference{Name: "eks"},
		}},
	}
}

func (m *management) create(objects ...client.Object) {
	m.t.Helper()
	for _, obj := range objects {
		obj.SetNamespace(m.namespace)
		m.Expect(m.env.Client.Create(m.t.Context(), obj)).To(Succeed())
	}
}

func (m *management) get(name string, into client.Object) error {
	return m.env.Client.Get(m.t.Context(), client.ObjectKey{Namespace: m.namespace, Name: name}, into)
}

func (m *management) workspace(name string) *infrav1.WorkspaceTemplateApply {
	m.t.Helper()
	apply := &infrav1.WorkspaceTemplateApply{}
	m.Expect(m.get(name, apply)).To(Succeed())
	return apply
}

type conditioned interface {
	client.Object
	GetConditions() []metav1.Condition
}

// own reads the Cluster, or its infrastructure or control plane.
func (m *management) own(obj client.Object) error {
	cluster := &clusterv1.Cluster{}
	if err := m.get(m.cluster, cluster); err != nil {
		return err
	}
	name := m.cluster
	switch obj.(type) {
	case *infrav1.CAPTCluster:
		name = cluster.Spec.InfrastructureRef.Name
	case *controlplanev1.CAPTControlPlane:
		name = cluster.Spec.ControlPlaneRef.Name
	}
	return m.get(name, obj)
}

// wait waits until a condition of the Cluster, its infrastructure or control plane is
// True for the current generation. It stops if a run failed.
func (m *management) wait(obj conditioned, kind string) {
	m.t.Helper()
	m.Eventually(func(g Gomega) {
		g.Expect(m.own(obj)).To(Succeed())
		c := meta.FindStatusCondition(obj.GetConditions(), kind)
		g.Expect(c).NotTo(BeNil())
		if c.Reason == infrav1.WorkspaceFailedReason {
			StopTrying(fmt.Sprintf("%T: %s", obj, c.Message)).Now()
		}
		g.Expect(string(c.Status)).To(Equal("True"), "%T: %s: %s", obj, c.Reason, c.Message)
		g.Expect(c.ObservedGeneration).To(Equal(obj.GetGeneration()))
	}, testTimeout, time.Second).Should(Succeed())
}

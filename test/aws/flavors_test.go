package aws

import (
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/aws/awstest"
	"github.com/appthrust/capt/internal/kubernetes/kubeversion"
	"github.com/appthrust/capt/internal/testenv/statetest"
)

// shipped is a cluster of a flavor or of examples.
type shipped struct {
	// flavor and set are arguments of captctl generate cluster. The cluster is demo.
	flavor string
	set    []string
	// examples are files, whose cluster and region are given here.
	examples        []string
	cluster, region string
	// vpc reports whether the VPC exists before the cluster, and stays.
	vpc bool
	// role is the ARN in the examples of a role that the kubeconfig uses.
	role string
	// privateCharts reports whether the cluster gets examples/addon-private-chart.yaml.
	privateCharts bool
	// roles reports whether the roles and the key in the examples exist before the cluster,
	// and stay.
	roles bool
	// image is the ID in the examples of an image of the user's own.
	image string
	// zone is a zone that the VPC gets later.
	zone string
	// states reports whether the states are in S3, encrypted, as in
	// examples/provider-config-aws.yaml.
	states bool
	// orphan reports whether an earlier cluster of the name has left its log group.
	orphan bool
	// variables are further variables of the control plane's module, as JSON.
	variables map[string]string
}

// What is shipped is what is tested: a flavor as captctl writes it, with the templates
// of this tree, becomes a cluster, is changed and upgraded, and is deleted without
// leaving anything in the account.
func TestFlavors_liveAndLeaveNothing(t *testing.T) {
	needsEmulator(t)
	for name, s := range map[string]shipped{
		"eks":         {flavor: "eks", set: []string{"ENDPOINT_PUBLIC_CIDRS=192.0.2.0/24,203.0.113.7/32"}, orphan: true},
		"eks-private": {flavor: "eks", set: []string{"ENDPOINT_PUBLIC_CIDRS=", "ENDPOINT_PUBLIC_ACCESS=false", "NAT_GATEWAY=PerZone"}, states: true},
		// Without internet access.
		"eks-isolated":     {flavor: "eks", set: []string{"ENDPOINT_PUBLIC_CIDRS=", "ENDPOINT_PUBLIC_ACCESS=false", "NAT_GATEWAY=None"}},
		"eks-existing-vpc": {flavor: "eks-existing-vpc", set: []string{"ENDPOINT_PUBLIC_CIDRS=192.0.2.0/24"}, vpc: true},
		"eks-fargate": {
			flavor: "eks", set: []string{"ENDPOINT_PUBLIC_CIDRS=192.0.2.0/24"}, variables: map[string]string{"compute": `"Fargate"`},
		},
		"eks-pod-identity": {
			flavor: "eks", set: []string{"ENDPOINT_PUBLIC_CIDRS=192.0.2.0/24"}, variables: map[string]string{"karpenter_identity": `"PodIdentity"`},
		},
		"eks-auto-mode": {flavor: "eks-auto-mode", set: []string{"ENDPOINT_PUBLIC_CIDRS=192.0.2.0/24"}},
		// CoreDNS waits for the nodes of the pool, which waits for the control plane.
		"eks-class":      {flavor: "eks-class", set: []string{"ENDPOINT_PUBLIC_CIDRS=192.0.2.0/24"}},
		"eks-node-group": {flavor: "eks-node-group", set: []string{"ENDPOINT_PUBLIC_CIDRS=192.0.2.0/24"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s.cluster, s.region = "demo", region
			s.lives(t)
		})
	}
}

// The examples too, in their own regions.
func TestExamples_liveAndLeaveNothing(t *testing.T) {
	needsEmulator(t)
	for name, s := range map[string]shipped{
		"cluster": {
			cluster: "production", region: "ap-northeast-1", zone: "ap-northeast-1d",
			examples: []string{"cluster", "machine-pool", "machine-deployment", "machine-deployment-cluster-api"},
		},
		"cluster-existing-vpc": {
			cluster: "staging", region: region, examples: []string{"cluster-existing-vpc"}, vpc: true, role: "arn:aws:iam::123456789012:role/capt", privateCharts: true,
		},
		"cluster-other-account": {
			cluster: "spoke", region: region, examples: []string{"cluster-other-account"}, role: "arn:aws:iam::210987654321:role/capt",
		},
		"cluster-existing-roles": {cluster: "regulated", region: region, examples: []string{"cluster-existing-roles"}, roles: true},
		"cluster-node-groups":    {cluster: "fleet", region: "eu-west-1", examples: []string{"cluster-node-groups"}, image: "ami-0123456789abcdef0"},
		"cluster-class":          {cluster: "topology", region: "us-west-2", examples: []string{"cluster-class"}},
		"cluster-class-ipv6":     {cluster: "topology-ipv6", region: "eu-west-1", examples: []string{"cluster-class-ipv6"}},
		"cluster-class-workers":  {cluster: "topology-workers", region: "ap-northeast-1", examples: []string{"cluster-class-workers"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s.lives(t)
		})
	}
}

// lives creates, changes, upgrades and deletes the cluster.
func (s shipped) lives(t *testing.T) {
	t.Helper()
	steps := progressOf(t)
	initial, err := kubeversion.Parse(kubeversion.EKSDefault)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	account := awstest.New(t)
	server := startAPIServer(t, awstest.NewAuthenticator(t, account, s.cluster), initial.String())
	e := startEmulator(t, "-cluster-endpoint", server.endpoint, "-cluster-ca", server.ca)
	e.region = s.region
	replace := map[string]string{}
	if s.vpc {
		vpc := e.network(s.cluster)
		id, subnets := output[string](vpc, "vpc_id"), output[[]string](vpc, "private_subnets")
		s.set = append(slices.Clone(s.set), "VPC_ID="+id)
		maps.Copy(replace, map[string]string{
			"ap-northeast-1": region, "vpc-0123456789abcdef0": id, "subnet-0123456789abcdef0": subnets[0], "subnet-0123456789abcdef1": subnets[1],
		})
	}
	if s.roles {
		maps.Copy(replace, e.createRoles())
	}
	if s.image != "" {
		replace[s.image] = ownImages[0]
	}
	before := e.resources()
	if s.orphan {
		status, text := e.request("POST", "/", "logs", "application/x-amz-json-1.1", "Logs_20140328.CreateLogGroup", `{"logGroupName":"/aws/eks/`+s.cluster+`/cluster"}`)
		e.Expect(status).To(Equal(200), text)
	}
	m := startManagement(e)
	m.cluster = s.cluster
	settings := account.Env()
	settings["AWS_ENDPOINT_URL"] = e.url
	if s.role != "" {
		// The emulator knows no keys, so it cannot verify those of a session.
		replace[s.role], settings["AWS_ENDPOINT_URL_STS"] = account.AddRole("capt"), account.URL
	} else {
		account.URL = e.url
	}
	if s.states {
		m.states = &statetest.S3{Address: e.url, Bucket: "states"}
		e.Expect(m.states.CreateBucket(t.Context())).To(Succeed())
	}
	m.providerConfig(settings)
	m.ship(s, replace)
	joinNodes(m, server)
	steps.done("created")

	cluster, infra, plane := &clusterv1.Cluster{}, &infrav1.CAPTCluster{}, &controlplanev1.CAPTControlPlane{}
	m.wait(infra, infrav1.ReadyCondition)
	steps.done("VPC ready")
	if s.role != "" && !s.vpc {
		// Until now only a run needed the role: that of the VPC.
		e.Expect(account.Calls("AssumeRole")).To(BeNumerically(">", 0), "runs assume the role")
	}
	m.wait(plane, infrav1.ReadyCondition)
	steps.done("control plane ready")
	m.available(cluster)
	steps.done("available")
	e.Expect(plane.Status.Version).To(HavePrefix("v" + initial.String()))
	if s.role != "" {
		// The authenticator accepts every identity of the account. EKS accepts those with
		// an access entry.
		e.eks("GET", "/clusters/"+s.cluster+"/access-entries/"+url.PathEscape(replace[s.role]), "")
	}

	if s.states {
		state, err := m.states.Get(t.Context(), m.stateKey(plane.Status.WorkspaceRef.Name))
		e.Expect(err).NotTo(HaveOccurred())
		e.Expect(string(state)).To(And(ContainSubstring("encrypted_data"), Not(ContainSubstring("aws_eks_cluster"))))
	}
	if s.roles {
		m.usesExistingRoles()
	}
	if s.privateCharts {
		m.installPrivateCharts(server)
		steps.done("add-ons with private charts installed")
	}
	groups := m.nodeGroups()
	if s.zone != "" {
		m.addZone(infra, s.zone)
		steps.done("zone added to the VPC")
	}
	runs := m.workspace(plane.Status.WorkspaceRef.Name).Status.Runs
	m.changeOnce(cluster, plane)
	e.Eventually(func() int64 {
		return m.workspace(plane.Status.WorkspaceRef.Name).Status.Runs
	}, testTimeout, time.Second).Should(BeNumerically(">", runs), "the change causes a run")
	e.Eventually(func() string {
		return m.workspace(plane.Status.WorkspaceRef.Name).Spec.Variables["subnet_ids"].String()
	}, testTimeout, time.Second).Should(MatchJSON(asJSON(infra.Status.SubnetIDs)), "the control plane gets the subnets of the VPC")
	m.wait(plane, infrav1.ReadyCondition)
	m.available(cluster)
	e.Expect(m.nodeGroups()).To(Equal(groups), "no node group is replaced")
	if s.image != "" {
		m.nodesHaveImage(ownImages[0])
	}
	steps.done("changed")

	next := initial.Next()
	m.upgrade(cluster, plane, server, next.String())
	if s.image != "" {
		m.nodesHaveImage(ownImages[1])
	}
	steps.done("upgraded to %s", next)

	gone := []conditioned{plane, infra, cluster}
	e.Expect(m.env.Client.Delete(t.Context(), cluster)).To(Succeed())
	for _, obj := range gone {
		name := obj.GetName()
		e.Eventually(func(g Gomega) {
			g.Expect(apierrors.IsNotFound(m.get(name, obj))).To(BeTrue(), "%T: %v", obj, obj.GetConditions())
		}, testTimeout, time.Second).Should(Succeed())
		steps.done("%T deleted", obj)
	}
	e.Expect(e.withoutSpotRole()).To(Equal(before), "only the account's role for Spot is left")
}

// addZone adds a zone to the VPC of a cluster, and waits for its subnets.
func (m *management) addZone(infra *infrav1.CAPTCluster, zone string) {
	m.t.Helper()
	m.change(infra, func() {
		infra.Spec.VPCConfig.AvailabilityZones = append(infra.Spec.VPCConfig.AvailabilityZones, zone)
	})
	m.Eventually(func(g Gomega) {
		g.Expect(m.get(infra.Name, infra)).To(Succeed())
		g.Expect(infra.Status.SubnetIDs).To(HaveLen(len(infra.Spec.VPCConfig.AvailabilityZones)), "%v", infra.Status.Conditions)
	}, testTimeout, time.Second).Should(Succeed())
	m.wait(infra, infrav1.ReadyCondition)
}

func asJSON(value any) string {
	text, _ := json.Marshal(value)
	return string(text)
}

// changeOnce changes what a user may change at any time: a variable of a class, or tags,
// and the size of a pool.
func (m *management) changeOnce(cluster *clusterv1.Cluster, plane *controlplanev1.CAPTControlPlane) {
	m.t.Helper()
	if cluster.Spec.Topology.IsDefined() {
		m.change(cluster, func() {
			for i, v := range cluster.Spec.Topology.Variables {
				if v.Name == "endpointPublicCIDRs" {
					cluster.Spec.Topology.Variables[i].Value = apiextensionsv1.JSON{Raw: []byte(`["198.51.100.0/24"]`)}
				}
			}
			for i := range cluster.Spec.Topology.Workers.MachinePools {
				*cluster.Spec.Topology.Workers.MachinePools[i].Replicas++
			}
		})
		return
	}
	m.change(plane, func() { plane.Spec.AdditionalTags = map[string]string{"stage": "two"} })
	for _, pool := range m.pools() {
		m.change(&pool, func() { *pool.Spec.Replicas++ })
	}
}

// upgrade upgrades the control plane, and then the workers that do not follow it.
func (m *management) upgrade(cluster *clusterv1.Cluster, plane *controlplanev1.CAPTControlPlane, server *apiServer, next string) {
	m.t.Helper()
	version := "v" + next + ".0"
	if cluster.Spec.Topology.IsDefined() {
		m.change(cluster, func() { cluster.Spec.Topology.Version = version })
	} else {
		m.change(plane, func() { plane.Spec.Version = version })
	}
	m.Eventually(func(g Gomega) {
		status, text := m.request("GET", "/clusters/"+m.cluster, "eks", "application/json", "", "")
		g.Expect(status).To(Equal(200), text)
		g.Expect(text).To(And(ContainSubstring(`"version":"`+next+`"`), ContainSubstring(`"status":"ACTIVE"`)))
	}, testTimeout, time.Second).Should(Succeed())
	progressOf(m.t).done("EKS serves %s", next)
	server.serve(next)
	m.Eventually(func(g Gomega) {
		g.Expect(m.get(plane.Name, plane)).To(Succeed())
		g.Expect(plane.Status.Version).To(HavePrefix("v" + next))
	}, testTimeout, time.Second).Should(Succeed())
	m.wait(plane, infrav1.ReadyCondition)
	if !cluster.Spec.Topology.IsDefined() {
		for _, pool := range m.pools() {
			m.change(&pool, func() { pool.Spec.Template.Spec.Version = version })
		}
		m.changeImages(ownImages[1])
		for _, deployment := range m.deployments() {
			m.change(&deployment, func() { deployment.Spec.Template.Spec.Version = version })
		}
	}
	m.Eventually(func(g Gomega) {
		for _, pool := range m.pools() {
			g.Expect(pool.Spec.Template.Spec.Version).To(Equal(version), pool.Name)
		}
		for _, deployment := range m.deployments() {
			g.Expect(deployment.Spec.Template.Spec.Version).To(Equal(version), deployment.Name)
			g.Expect(deployment.Status.UpToDateReplicas).To(HaveValue(Equal(*deployment.Spec.Replicas)), deployment.Name)
		}
	}, testTimeout, time.Second).Should(Succeed())
	m.workersHave(next)
	m.available(cluster)
}

// change changes an object, also while controllers do.
func (m *management) change(obj client.Object, change func()) {
	m.t.Helper()
	m.Eventually(func() error {
		if err := m.get(obj.GetName(), obj); err != nil {
			return err
		}
		change()
		err := m.env.Client.Update(m.t.Context(), obj)
		if apierrors.IsInvalid(err) {
			return StopTrying("the change is invalid").Wrap(err)
		}
		return err
	}, testTimeout).Should(Succeed(), "another client may cause conflicts")
}

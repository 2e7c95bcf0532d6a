package desired

import (
	"encoding/json"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/workspace"
)

func TestClusterInfo_offersDeclaredVariables(t *testing.T) {
	g := NewWithT(t)
	controlPlane := &controlplanev1.CAPTControlPlane{Spec: controlplanev1.CAPTControlPlaneSpec{Version: "v1.34.0"}}
	controlPlane.Status.Version = "v1.33.5"
	apply := &infrav1.WorkspaceTemplateApply{}
	apply.Status.Outputs = map[string]infrav1.Value{
		"cluster_endpoint": infrav1.StringValue("https://api.example.com"), "cluster_name": infrav1.StringValue("eks-production"),
		"vpc_id": infrav1.StringValue("vpc-of-the-output"), "empty": {Raw: []byte("null")}, "labels": {Raw: []byte(`{"not":"yours"}`)},
	}
	infra := &infrav1.CAPTCluster{Spec: infrav1.CAPTClusterSpec{Region: "ap-northeast-1"}}
	infra.Status.VPCID, infra.Status.SubnetIDs = "vpc-1", []string{"subnet-1"}

	cluster := &clusterv1.Cluster{}
	cluster.Name = "production"
	cluster.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: "ignored.example.com", Port: 443}
	info, err := NewClusterInfo(cluster, controlPlane, apply, infra)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(info.Version).To(Equal("1.33"), "a node must not be newer than the API server")
	g.Expect(info.Name).To(Equal("eks-production"))
	g.Expect(info.ControlPlaneDeleting).To(BeFalse())

	for name, c := range map[string]struct {
		pinned   map[string]infrav1.Value
		declared []string
		want     string
	}{
		"nothing": {want: `{}`},
		"everything": {
			declared: []string{"region", "vpc_id", "subnet_ids", "cluster_endpoint", "labels", "empty"},
			want:     `{"region":"ap-northeast-1","vpc_id":"vpc-1","subnet_ids":["subnet-1"],"cluster_endpoint":"https://api.example.com"}`,
		},
		"pinned": {
			pinned:   map[string]infrav1.Value{"subnet_ids": {Raw: []byte(`["subnet-0"]`)}, "elsewhere": infrav1.StringValue("x")},
			declared: []string{"subnet_ids", "vpc_id", "elsewhere"},
			want:     `{"subnet_ids":["subnet-0"],"vpc_id":"vpc-1"}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			values, err := workspace.NewValues(inspectedTemplate(c.declared...), "team")
			g.Expect(err).NotTo(HaveOccurred())
			info.offer(values, c.pinned)
			result, err := values.Result()
			g.Expect(err).NotTo(HaveOccurred())
			text, err := json.Marshal(result)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(text).To(MatchJSON(c.want))
		})
	}
}

func TestClusterInfo_offersTheRegionOfTheControlPlane(t *testing.T) {
	for name, test := range map[string]struct {
		config   *controlplanev1.ControlPlaneConfig
		variable string
		want     string
	}{
		"none":              {nil, "", ""},
		"no region":         {&controlplanev1.ControlPlaneConfig{}, "", ""},
		"the control plane": {&controlplanev1.ControlPlaneConfig{Region: "eu-west-1"}, "", "eu-west-1"},
		"its variable":      {&controlplanev1.ControlPlaneConfig{Region: "eu-west-1"}, "eu-west-2", "eu-west-2"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			controlPlane := &controlplanev1.CAPTControlPlane{Spec: controlplanev1.CAPTControlPlaneSpec{Version: "v1.34.0", ControlPlaneConfig: test.config}}
			if test.variable != "" {
				controlPlane.Spec.Variables = map[string]infrav1.Value{"region": infrav1.StringValue(test.variable)}
			}
			info, err := NewClusterInfo(&clusterv1.Cluster{}, controlPlane, nil, nil)
			g.Expect(err).NotTo(HaveOccurred())
			values, err := workspace.NewValues(inspectedTemplate("region"), "team")
			g.Expect(err).NotTo(HaveOccurred())
			info.offer(values, nil)
			result, err := values.Result()
			g.Expect(err).NotTo(HaveOccurred())
			if test.want == "" {
				g.Expect(result).NotTo(HaveKey("region"))
				return
			}
			g.Expect(result["region"].String()).To(Equal(test.want))
		})
	}
}

// Nodes are replaced once by an upgrade over several minors, unless the upgrade waits for
// them.
func TestClusterInfo_upgradingUntilTheVersionOfTheSpec(t *testing.T) {
	for name, c := range map[string]struct {
		spec, served, requested, reason string
		want                            bool
	}{
		"complete":                {spec: "v1.35.0", served: "v1.35.2", requested: "1.35"},
		"not known":               {spec: "v1.35.0", requested: "1.35", want: true},
		"during a step":           {spec: "v1.35.0", served: "v1.33.1", requested: "1.34", want: true},
		"between two steps":       {spec: "v1.35.0", served: "v1.34.1", requested: "1.34", want: true},
		"waits for nodes":         {spec: "v1.35.0", served: "v1.34.1", requested: "1.34", reason: controlplanev1.NodesTooOldReason},
		"a step after the wait":   {spec: "v1.35.0", served: "v1.34.1", requested: "1.35", reason: controlplanev1.NodesTooOldReason, want: true},
		"upgraded by the cloud":   {spec: "v1.33.0", served: "v1.34.1", requested: "1.34"},
		"an invalid version":      {spec: "latest", served: "v1.34.1", requested: "1.34"},
		"waits for another thing": {spec: "v1.35.0", served: "v1.34.1", requested: "1.34", reason: controlplanev1.UpgradingReason, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			controlPlane := &controlplanev1.CAPTControlPlane{Spec: controlplanev1.CAPTControlPlaneSpec{Version: c.spec}}
			controlPlane.Status.Version = c.served
			if c.reason != "" {
				conditions.Set(controlPlane, metav1.Condition{Type: controlplanev1.WorkspaceReadyCondition, Status: metav1.ConditionFalse, Reason: c.reason})
			}
			apply := &infrav1.WorkspaceTemplateApply{}
			apply.Spec.Variables = map[string]infrav1.Value{"kubernetes_version": infrav1.StringValue(c.requested)}
			info, err := NewClusterInfo(&clusterv1.Cluster{}, controlPlane, apply, nil)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(info.Upgrading).To(Equal(c.want))
		})
	}
}

func TestSharedOutputs_areNoFields(t *testing.T) {
	g := NewWithT(t)
	apply := &infrav1.WorkspaceTemplateApply{}
	apply.Status.Outputs = map[string]infrav1.Value{"network_id": {Raw: []byte(`42`)}, "labels": {Raw: []byte(`{}`)}, "empty": {Raw: []byte("null")}}
	g.Expect(SharedOutputs(apply)).To(Equal(map[string]infrav1.Value{"network_id": {Raw: []byte(`42`)}}))
	g.Expect(SharedOutputs(nil)).To(BeEmpty())
	info, err := NewClusterInfo(&clusterv1.Cluster{}, nil, nil, nil)
	g.Expect(err).NotTo(HaveOccurred())
	info.AddOutputs(SharedOutputs(apply))
	values, err := workspace.NewValues(inspectedTemplate("network_id"), "team")
	g.Expect(err).NotTo(HaveOccurred())
	info.offer(values, nil)
	g.Expect(values.Result()).To(HaveKey("network_id"))
}

package nodes

import (
	"encoding/json"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/workspace"
)

func valuesFor(t *testing.T, variables ...string) *workspace.Values {
	t.Helper()
	template := &infrav1.WorkspaceTemplate{}
	for _, name := range variables {
		template.Status.Variables = append(template.Status.Variables, infrav1.DeclaredVariable{Name: name})
	}
	conditions.Set(template, metav1.Condition{Type: infrav1.ModuleValidCondition, Status: metav1.ConditionTrue, Reason: infrav1.ModuleInspectedReason})
	values, err := workspace.NewValues(template)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return values
}

func TestSurroundings_offerWhatTheTemplateTakes(t *testing.T) {
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

	s := &Surroundings{ClusterName: "production", values: map[string]any{}}
	g.Expect(s.readControlPlane(controlPlane, apply)).To(Succeed())
	s.readInfrastructure(infra)
	g.Expect(s.Version).To(Equal("1.33"), "no node is newer than the API server")
	g.Expect(s.ClusterName).To(Equal("eks-production"))
	g.Expect(s.ControlPlaneLeaving).To(BeFalse())

	for name, c := range map[string]struct {
		given    map[string]infrav1.Value
		declared []string
		want     string
	}{
		"nothing": {want: `{}`},
		"everything": {
			declared: []string{"region", "vpc_id", "subnet_ids", "cluster_endpoint", "labels", "empty"},
			want:     `{"region":"ap-northeast-1","vpc_id":"vpc-1","subnet_ids":["subnet-1"],"cluster_endpoint":"https://api.example.com"}`,
		},
		"what was given before": {
			given:    map[string]infrav1.Value{"subnet_ids": {Raw: []byte(`["subnet-0"]`)}, "elsewhere": infrav1.StringValue("x")},
			declared: []string{"subnet_ids", "vpc_id", "elsewhere"},
			want:     `{"subnet_ids":["subnet-0"],"vpc_id":"vpc-1"}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			values := valuesFor(t, c.declared...)
			s.Offer(values, c.given)
			result, err := values.Result()
			g.Expect(err).NotTo(HaveOccurred())
			text, err := json.Marshal(result)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(text).To(MatchJSON(c.want))
		})
	}
}

package api_test

import (
	"context"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Cluster API's topology controller updates a changed template in a dry run before it
// creates a new one.
func TestTemplates_allowTopologyDryRuns(t *testing.T) {
	changes := map[string]map[string]any{
		"captclustertemplate":         {"region": "us-east-1", "vpcTemplateRef": map[string]any{"name": "other"}},
		"captcontrolplanetemplate":    {"controlPlaneConfig": map[string]any{"region": "us-east-1"}},
		"captmachinetemplate":         {"instanceType": "m7g.xlarge"},
		"captmachinepooltemplate":     {"capacityType": "Spot"},
		"captbootstrapconfigtemplate": {"userData": "#cloud-config"},
	}
	for kind, spec := range changes {
		t.Run(kind, func(t *testing.T) {
			g := NewWithT(t)
			ctx := context.Background()
			var r refusals
			decode(t, filepath.Join("testdata", "bad", kind+".yaml"), &r)
			obj := object(t, r.Object, nil, env.Namespace(t))
			if kind == "captcontrolplanetemplate" {
				g.Expect(unstructured.SetNestedField(obj.Object, "ap-northeast-1",
					"spec", "template", "spec", "controlPlaneConfig", "region")).To(Succeed())
			}
			g.Expect(env.Client.Create(ctx, obj)).To(Succeed())
			for field, value := range spec {
				g.Expect(unstructured.SetNestedField(obj.Object, value, "spec", "template", "spec", field)).To(Succeed())
			}

			g.Expect(env.Client.Update(ctx, obj.DeepCopy(), client.DryRunAll)).
				To(MatchError(ContainSubstring("cannot be changed")), "a dry run of another client")

			obj.SetAnnotations(map[string]string{clusterv1.TopologyDryRunAnnotation: ""})
			g.Expect(env.Client.Update(ctx, obj.DeepCopy())).
				To(MatchError(ContainSubstring("cannot be changed")), "an update with the annotation that is not a dry run")
			g.Expect(env.Client.Update(ctx, obj.DeepCopy(), client.DryRunAll)).To(Succeed(), "a topology dry run")
		})
	}
}

func TestTemplates_allowLabelsAndAnnotations(t *testing.T) {
	g := NewWithT(t)
	ctx := context.Background()
	var r refusals
	decode(t, filepath.Join("testdata", "bad", "captmachinetemplate.yaml"), &r)
	obj := object(t, r.Object, nil, env.Namespace(t))
	g.Expect(env.Client.Create(ctx, obj)).To(Succeed())
	obj.SetLabels(map[string]string{"a": "b"})
	obj.SetAnnotations(map[string]string{"c": "d"})
	g.Expect(env.Client.Update(ctx, obj)).To(Succeed())
}

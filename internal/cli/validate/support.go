package validate

import (
	"strings"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	"github.com/appthrust/capt/internal/webhooks"
)

// checkSupport warns of versions that are not in standard support of EKS.
func (c *checker) checkSupport() {
	if c.Now.IsZero() {
		return
	}
	objects, controlPlanes := all[*controlplanev1.CAPTControlPlane](c)
	for i, controlPlane := range controlPlanes {
		c.warnOfSupport(objects[i], "spec.version", controlPlane)
	}
	objects, clusters := all[*clusterv1.Cluster](c)
	for i, cluster := range clusters {
		if template := c.controlPlaneOf(cluster); template != nil {
			c.warnOfSupport(objects[i], "spec.topology.version", &controlplanev1.CAPTControlPlane{Spec: controlplanev1.CAPTControlPlaneSpec{
				Version: cluster.Spec.Topology.Version, Kubeconfig: template.Spec.Template.Spec.Kubeconfig,
			}})
		}
	}
}

func (c *checker) warnOfSupport(o *Object, path string, controlPlane *controlplanev1.CAPTControlPlane) {
	if warning := webhooks.WarnOfSupport(controlPlane, c.Now); warning != "" {
		c.add(o.finding(Warning, RuleVersion, path, strings.TrimPrefix(warning, "spec.version: ")))
	}
}

// controlPlaneOf returns the template of the control plane of a cluster with a
// topology, if it is CAPT's and among the manifests.
func (c *checker) controlPlaneOf(cluster *clusterv1.Cluster) *controlplanev1.CAPTControlPlaneTemplate {
	if !cluster.Spec.Topology.IsDefined() {
		return nil
	}
	at := cluster.GetClassKey()
	class := find[*clusterv1.ClusterClass](c, key{group: clusterv1.GroupVersion.Group, kind: "ClusterClass", namespace: at.Namespace, name: at.Name})
	if class == nil {
		return nil
	}
	return find[*controlplanev1.CAPTControlPlaneTemplate](c, key{
		group: controlplanev1.GroupVersion.Group, kind: "CAPTControlPlaneTemplate", namespace: at.Namespace, name: class.Spec.ControlPlane.TemplateRef.Name,
	})
}

package config

import (
	"net/netip"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/appthrust/capt/internal/testenv"
)

// allows reports whether a policy allows connections to an address and port.
func allows(policy *networkingv1.NetworkPolicy, address string, port int32) bool {
	addr := netip.MustParseAddr(address)
	for _, rule := range policy.Spec.Egress {
		open := len(rule.Ports) == 0
		for _, p := range rule.Ports {
			open = open || p.Port.IntVal == port
		}
		reached := len(rule.To) == 0
		for _, peer := range rule.To {
			if peer.IPBlock == nil {
				// An address of no pod.
				continue
			}
			inside := netip.MustParsePrefix(peer.IPBlock.CIDR).Contains(addr)
			for _, except := range peer.IPBlock.Except {
				inside = inside && !netip.MustParsePrefix(except).Contains(addr)
			}
			reached = reached || inside
		}
		if open && reached {
			return true
		}
	}
	return false
}

// Each manager has a policy in its namespace: that of config/default, and those of all
// providers of clusterctl.
func TestNetworkPolicies_denyTheMetadataService(t *testing.T) {
	for _, dir := range []string{"default", "namespaced", "providers/infrastructure", "providers/control-plane", "providers/bootstrap", "providers/addon"} {
		t.Run(dir, func(t *testing.T) {
			g := NewWithT(t)
			objects, err := testenv.Kustomize("config/" + dir)
			g.Expect(err).NotTo(HaveOccurred())
			var policies []networkingv1.NetworkPolicy
			var managers []appsv1.Deployment
			for _, obj := range objects {
				switch obj.GetKind() {
				case "NetworkPolicy":
					policies = append(policies, *find[networkingv1.NetworkPolicy](t, objects, obj.GetKind(), obj.GetName()))
				case "Deployment":
					managers = append(managers, *find[appsv1.Deployment](t, objects, obj.GetKind(), obj.GetName()))
				}
			}
			g.Expect(policies).To(HaveLen(1))
			g.Expect(managers).To(HaveLen(1))
			policy := &policies[0]
			g.Expect(policy.Namespace).To(Equal(managers[0].Namespace))
			selector, err := metav1.LabelSelectorAsSelector(&policy.Spec.PodSelector)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(selector.Matches(labels.Set(managers[0].Spec.Template.Labels))).To(BeTrue())

			g.Expect(policy.Spec.PolicyTypes).To(ConsistOf(networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress))
			for _, denied := range []string{
				"169.254.169.254", "169.254.170.2", "168.63.129.16", "100.100.100.200", "192.0.0.192", "fd00:ec2::254", "fd20:ce::254", "fe80::1",
			} {
				g.Expect(allows(policy, denied, 80)).To(BeFalse(), denied)
			}
			g.Expect(allows(policy, "169.254.170.23", 80)).To(BeTrue(), "EKS Pod Identity")
			g.Expect(allows(policy, "fd00:ec2::23", 80)).To(BeTrue(), "EKS Pod Identity")
			g.Expect(allows(policy, "169.254.170.23", 443)).To(BeFalse())
			for _, allowed := range []string{"10.96.0.1", "52.95.110.1", "2600:1f00::1"} {
				g.Expect(allows(policy, allowed, 443)).To(BeTrue(), allowed)
			}
			g.Expect(allows(policy, "169.254.20.10", 53)).To(BeTrue(), "the DNS cache of a node is link-local")
			var ports []int32
			for _, rule := range policy.Spec.Ingress {
				for _, port := range rule.Ports {
					ports = append(ports, port.Port.IntVal)
				}
			}
			g.Expect(ports).To(ConsistOf(int32(9443), int32(8443), int32(9440)))
		})
	}
}

package config

import (
	"net/netip"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/terraform/record"
	"github.com/appthrust/capt/internal/testenv"
)

func readPolicy(t *testing.T, file string) *networkingv1.NetworkPolicy {
	t.Helper()
	g := NewWithT(t)
	text := testenv.ReadFile(t, "config/network/"+file)
	policy := &networkingv1.NetworkPolicy{}
	g.Expect(yaml.UnmarshalStrict(text, policy)).To(Succeed())
	return policy
}

// allows reports whether a policy allows connections to an address and port.
func allows(t *testing.T, policy *networkingv1.NetworkPolicy, address string, port int32) bool {
	t.Helper()
	addr := netip.MustParseAddr(address)
	for _, rule := range policy.Spec.Egress {
		open := len(rule.Ports) == 0
		for _, p := range rule.Ports {
			open = open || p.Port.IntVal == port
		}
		reached := len(rule.To) == 0
		for _, peer := range rule.To {
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

func TestNetworkPolicies_denyTheMetadataService(t *testing.T) {
	for _, file := range []string{"manager.yaml", "runs/runs.yaml"} {
		t.Run(file, func(t *testing.T) {
			g := NewWithT(t)
			policy := readPolicy(t, file)
			g.Expect(policy.Spec.PolicyTypes).To(ConsistOf(networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress))
			for _, denied := range []string{"169.254.169.254", "169.254.170.2", "fd00:ec2::254", "fd20:ce::254", "fe80::1"} {
				g.Expect(allows(t, policy, denied, 80)).To(BeFalse(), denied)
			}
			g.Expect(allows(t, policy, "169.254.170.23", 80)).To(BeTrue(), "EKS Pod Identity")
			g.Expect(allows(t, policy, "fd00:ec2::23", 80)).To(BeTrue(), "EKS Pod Identity")
			g.Expect(allows(t, policy, "169.254.170.23", 443)).To(BeFalse())
			for _, allowed := range []string{"10.96.0.1", "52.95.110.1", "2600:1f00::1"} {
				g.Expect(allows(t, policy, allowed, 443)).To(BeTrue(), allowed)
			}
			g.Expect(allows(t, policy, "169.254.20.10", 53)).To(BeTrue(), "the DNS cache of a node is link-local")
		})
	}
}

func TestNetworkPolicies_selectThePods(t *testing.T) {
	g := NewWithT(t)
	runs := readPolicy(t, "runs/runs.yaml")
	g.Expect(runs.Spec.PodSelector.MatchLabels).To(Equal(map[string]string{infrav1.ComponentLabel: record.ComponentRun}))
	g.Expect(runs.Spec.Ingress).To(BeEmpty())

	text := testenv.ReadFile(t, "config/manager/manager.yaml")
	var manager appsv1.Deployment
	g.Expect(yaml.Unmarshal(text, &manager)).To(Succeed())
	g.Expect(readPolicy(t, "manager.yaml").Spec.PodSelector.MatchLabels).To(Equal(manager.Spec.Selector.MatchLabels))
}

// Each manager that clusterctl installs has the policy of config/network in its namespace.
func TestNetworkPolicies_selectTheManagersOfAllProviders(t *testing.T) {
	g := NewWithT(t)
	objects, err := testenv.Kustomize("config/providers/network")
	g.Expect(err).NotTo(HaveOccurred())
	want := readPolicy(t, "manager.yaml").Spec
	selected := map[string]labels.Selector{}
	for _, obj := range objects {
		var policy networkingv1.NetworkPolicy
		g.Expect(runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(obj.Object, &policy, true)).To(Succeed())
		g.Expect(policy.Spec).To(Equal(want), policy.Namespace)
		selected[policy.Namespace], err = metav1.LabelSelectorAsSelector(&policy.Spec.PodSelector)
		g.Expect(err).NotTo(HaveOccurred())
	}
	for _, provider := range []string{"infrastructure", "control-plane", "bootstrap", "addon"} {
		objects, err := testenv.Kustomize("config/providers/" + provider)
		g.Expect(err).NotTo(HaveOccurred())
		managers := 0
		for _, obj := range objects {
			if obj.GetKind() != "Deployment" {
				continue
			}
			managers++
			podLabels, _, err := unstructured.NestedStringMap(obj.Object, "spec", "template", "metadata", "labels")
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(selected).To(HaveKey(obj.GetNamespace()), provider)
			g.Expect(selected[obj.GetNamespace()].Matches(labels.Set(podLabels))).To(BeTrue(), provider)
		}
		g.Expect(managers).To(Equal(1), provider)
	}
	g.Expect(selected).To(HaveLen(4))
}

// The chart has the same policies as config/network.
func TestNetworkPolicies_areInTheChart(t *testing.T) {
	g := NewWithT(t)
	text := testenv.ReadFile(t, "charts/capt/templates/networkpolicies.yaml")
	var specs []networkingv1.NetworkPolicySpec
	for _, part := range strings.Split(string(text), "\n---\n")[1:] {
		var lines []string
		for line := range strings.Lines(part) {
			if !strings.Contains(line, "{{") {
				lines = append(lines, line)
			}
		}
		var policy networkingv1.NetworkPolicy
		g.Expect(yaml.UnmarshalStrict([]byte(strings.Join(lines, "")), &policy)).To(Succeed())
		specs = append(specs, policy.Spec)
	}
	g.Expect(specs).To(Equal([]networkingv1.NetworkPolicySpec{readPolicy(t, "manager.yaml").Spec, readPolicy(t, "runs/runs.yaml").Spec}))
}

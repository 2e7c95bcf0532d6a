package job_test

import (
	"context"
	"net/netip"
	"testing"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/appthrust/capt/internal/terraform/access"
	"github.com/appthrust/capt/internal/terraform/job"
)

// isolating returns an executor that limits the network of its pods, with the permissions
// of the manager.
func (f *fixture) isolating() *job.Executor {
	f.t.Helper()
	manager := f.manager()
	return job.New(job.Options{Client: manager.Client, Reader: manager.Client, Image: "example.com/runner:v1", NetworkPolicy: true})
}

// reaches reports whether the API server's form of a policy lets pods connect to an address.
func reaches(policy *networkingv1.NetworkPolicy, protocol corev1.Protocol, address string, port int32) bool {
	addr := netip.MustParseAddr(address)
	for _, rule := range policy.Spec.Egress {
		open := len(rule.Ports) == 0
		for _, p := range rule.Ports {
			last := p.Port.IntVal
			if p.EndPort != nil {
				last = *p.EndPort
			}
			open = open || *p.Protocol == protocol && p.Port.IntVal <= port && port <= last
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

func TestStart_limitsTheNetworkOfItsNamespace(t *testing.T) {
	f := newFixture(t)
	f.executor = f.isolating()
	run := f.start("net")
	policy := &networkingv1.NetworkPolicy{}
	f.Expect(f.get(policy, "capt-runs")).To(Succeed())
	selector, err := metav1.LabelSelectorAsSelector(&policy.Spec.PodSelector)
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(selector.Matches(labels.Set(f.job(access.Name(run.ID)).Spec.Template.Labels))).To(BeTrue(), "it selects the pods of the run")
	f.Expect(selector.Empty()).To(BeFalse(), "it selects no other pods")
	f.Expect(policy.Spec.PolicyTypes).To(ConsistOf(networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress))
	f.Expect(policy.Spec.Ingress).To(BeEmpty())

	for _, metadata := range []string{
		"169.254.169.254", "169.254.170.2", "168.63.129.16", "100.100.100.200", "192.0.0.192", "fd00:ec2::254", "fd20:ce::254", "fe80::1",
	} {
		for _, port := range []int32{80, 443, 988, 32526} {
			f.Expect(reaches(policy, corev1.ProtocolTCP, metadata, port)).To(BeFalse(), "%s %d", metadata, port)
		}
		f.Expect(reaches(policy, corev1.ProtocolUDP, metadata, 80)).To(BeFalse(), metadata)
	}
	for _, address := range []string{"10.244.1.7", "2600:1f00::7"} {
		f.Expect(reaches(policy, corev1.ProtocolTCP, address, 9443)).To(BeFalse(), "webhooks of a manager")
		f.Expect(reaches(policy, corev1.ProtocolTCP, address, 9440)).To(BeFalse(), "probes of a manager")
	}
	for _, dns := range []string{"10.96.0.10", "169.254.20.10", "168.63.129.16", "fd00:ec2::253"} {
		f.Expect(reaches(policy, corev1.ProtocolUDP, dns, 53)).To(BeTrue(), "DNS at %s", dns)
		f.Expect(reaches(policy, corev1.ProtocolTCP, dns, 53)).To(BeTrue(), "DNS at %s", dns)
	}
	for _, address := range []string{"10.96.0.1", "52.95.110.1", "2600:1f00::1"} {
		f.Expect(reaches(policy, corev1.ProtocolTCP, address, 443)).To(BeTrue(), address)
		f.Expect(reaches(policy, corev1.ProtocolTCP, address, 6443)).To(BeTrue(), address)
	}
	for _, agent := range []string{"169.254.170.23", "fd00:ec2::23"} {
		f.Expect(reaches(policy, corev1.ProtocolTCP, agent, 80)).To(BeTrue(), "EKS Pod Identity")
		f.Expect(reaches(policy, corev1.ProtocolTCP, agent, 443)).To(BeFalse(), "EKS Pod Identity")
	}
}

// The next run restores what was changed, and writes nothing if nothing was.
func TestStart_restoresTheNetworkPolicy(t *testing.T) {
	f := newFixture(t)
	f.executor = f.isolating()
	f.start("a")
	shipped := &networkingv1.NetworkPolicy{}
	f.Expect(f.get(shipped, "capt-runs")).To(Succeed())
	f.start("b")
	again := &networkingv1.NetworkPolicy{}
	f.Expect(f.get(again, "capt-runs")).To(Succeed())
	f.Expect(again.ResourceVersion).To(Equal(shipped.ResourceVersion))

	again.Spec.Egress = []networkingv1.NetworkPolicyEgressRule{{}}
	f.Expect(f.env.Client.Update(f.ctx, again)).To(Succeed())
	f.start("c")
	f.Expect(f.get(again, "capt-runs")).To(Succeed())
	f.Expect(again.Spec).To(Equal(shipped.Spec))
}

func TestStart_startsNoPodWithoutTheNetworkPolicy(t *testing.T) {
	f := newFixture(t)
	writer, err := client.NewWithWatch(f.manager().Config, client.Options{Scheme: f.env.Scheme})
	f.Expect(err).NotTo(HaveOccurred())
	refusing := interceptor.NewClient(writer, interceptor.Funcs{
		Apply: func(context.Context, client.WithWatch, runtime.ApplyConfiguration, ...client.ApplyOption) error {
			return context.DeadlineExceeded
		},
	})
	executor := job.New(job.Options{Client: refusing, Reader: f.manager().Client, Image: "example.com/runner:v1", NetworkPolicy: true})
	run := f.run(f.workspace("open"))
	f.Expect(executor.Start(f.ctx, run)).To(MatchError(context.DeadlineExceeded))
	f.Expect(apierrors.IsNotFound(f.get(&batchv1.Job{}, access.Name(run.ID)))).To(BeTrue(), "no Job was created")
}

func TestStart_appliesNoNetworkPolicyIfItIsOff(t *testing.T) {
	f := newFixture(t)
	f.start("off")
	f.Expect(apierrors.IsNotFound(f.get(&networkingv1.NetworkPolicy{}, "capt-runs"))).To(BeTrue())
}

package aws

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/iam"
)

// leftoversTimeout bounds one lookup with its deletions.
const leftoversTimeout = time.Minute

// clusterName matches the names of EKS clusters. Filters of EC2 have wildcards.
var clusterName = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z_-]{0,99}$`)

// LeftoverQuery selects what a cluster has left in the account.
type LeftoverQuery struct {
	// Cluster is the name of the EKS cluster.
	Cluster string
	// VPC is the id of its VPC.
	VPC string
	// Managed are the ids of what runs create and destroy. They are never leftovers.
	Managed []string
	// Delete deletes what is found. Otherwise it is only listed.
	Delete bool
	// InterfacesOnly restricts the lookup to network interfaces.
	InterfacesOnly bool
}

// Leftovers are what controllers of a cluster have created in the account, and what no
// run destroys.
type Leftovers struct {
	// Remaining are what was found. With LeftoverQuery.Delete its deletion has been
	// requested, or the text has the reason why not.
	Remaining []string
	// Retained are volumes of the cluster. They hold data and are never deleted here.
	Retained []string
	// Unread are the lookups for which a permission is missing.
	Unread []string
}

// leftover is one object in the account.
type leftover struct {
	text   string
	delete func(ctx context.Context) error
}

// lookup finds the leftovers of one kind.
type lookup func(ctx context.Context) ([]leftover, error)

// SweepLeftovers looks up what the controllers of a cluster left in the account: load
// balancers, target groups, Karpenter's instances, launch templates and instance profiles,
// network interfaces of the VPC CNI and security groups of load balancers. Like the
// garbage collection of other providers, it recognises them by the tags that these
// controllers set, and never by the tag of the cluster alone, which resources of
// Terraform have too.
//
// Deletions are requested and not awaited: the caller repeats the call until nothing
// remains. They are made in the order of their dependencies.
func SweepLeftovers(ctx context.Context, cfg Config, query LeftoverQuery) (Leftovers, error) {
	if !clusterName.MatchString(query.Cluster) || query.VPC == "" {
		return Leftovers{}, fmt.Errorf("looking up what cluster %q left in VPC %q: a name of an EKS cluster and a VPC are required", query.Cluster, query.VPC)
	}
	ctx, cancel := context.WithTimeout(ctx, leftoversTimeout)
	defer cancel()
	s := &sweep{cfg: cfg, query: query, ec2: cfg.ec2(), iam: cfg.iam()}
	lookups := []lookup{
		s.balancersOf(balancers), s.balancersOf(classicBalancers), s.balancersOf(targetGroups), s.instances, s.interfaces, s.securityGroups,
		s.launchTemplates, s.instanceProfiles,
	}
	if query.InterfacesOnly {
		lookups = []lookup{s.interfaces}
	}
	for _, find := range lookups {
		if err := s.run(ctx, find); err != nil {
			return Leftovers{}, err
		}
	}
	if query.InterfacesOnly {
		return s.result, nil
	}
	err := s.unlessDenied(s.volumes(ctx))
	return s.result, err
}

// sweep is one lookup of the leftovers of a cluster.
type sweep struct {
	cfg    Config
	query  LeftoverQuery
	ec2    *ec2.Client
	iam    *iam.Client
	result Leftovers
}

// run looks up the leftovers of one kind and deletes them if the query says so.
func (s *sweep) run(ctx context.Context, find lookup) error {
	found, err := find(ctx)
	if err := s.unlessDenied(err); err != nil {
		return err
	}
	for _, l := range found {
		if s.query.Delete {
			err := l.delete(ctx)
			if KindOf(err) == KindNotFound {
				continue
			}
			if err != nil {
				l.text += " (" + err.Error() + ")"
			}
		}
		s.result.Remaining = append(s.result.Remaining, l.text)
	}
	return nil
}

// unlessDenied records a missing permission and returns every other error.
func (s *sweep) unlessDenied(err error) error {
	if KindOf(err) != KindDenied {
		return err
	}
	s.result.Unread = append(s.result.Unread, err.Error())
	return nil
}

// isManaged reports whether a run manages an object.
func (s *sweep) isManaged(id string) bool { return slices.Contains(s.query.Managed, id) }

// inVPC reports whether an object is in the VPC of the cluster.
func (s *sweep) inVPC(id string) bool { return s.query.VPC == id }

// Tags of resources that controllers in a cluster create.
const (
	// ownedTag is the value of the tag of a cluster that the resource belongs to alone.
	ownedTag = "owned"
	// eksClusterTag is set by Karpenter, and by the controllers of EKS Auto Mode.
	eksClusterTag = "eks:eks-cluster-name"
	// controlPlaneTag is set by EKS on its own resources.
	controlPlaneTag = "aws:eks:cluster-name"
	// loadBalancerTag is set by the AWS Load Balancer Controller.
	loadBalancerTag = "elbv2.k8s.aws/cluster"
	// serviceTag is set by the cloud controller manager.
	serviceTag = "kubernetes.io/service-name"
	// cniTag is set by the VPC CNI.
	cniTag = "cluster.k8s.amazonaws.com/name"
	// cniCreatedTag has the time at which the VPC CNI created a network interface.
	cniCreatedTag = "node.k8s.amazonaws.com/createdAt"
	// nodePoolTag and provisionerTag are set by Karpenter on instances.
	nodePoolTag    = "karpenter.sh/nodepool"
	provisionerTag = "karpenter.sh/provisioner-name"
	// nodeClassTag and karpenterClusterTag are set by Karpenter on launch templates.
	nodeClassTag        = "karpenter.k8s.aws/ec2nodeclass"
	karpenterClusterTag = "karpenter.k8s.aws/cluster"
	// volumeTag is set by the EBS CSI driver and the cloud controller manager.
	volumeTag = "kubernetes.io/created-for/pv/name"
)

// createdByBalancer reports whether the tags are those of a load balancer, or of a part of
// one, that a controller of the cluster created.
func (s *sweep) createdByBalancer(tags map[string]string) bool {
	_, service := tags[serviceTag]
	return tags[loadBalancerTag] == s.query.Cluster || tags[eksClusterTag] == s.query.Cluster ||
		service && tags[clusterTagPrefix+s.query.Cluster] == ownedTag
}

package aws

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	sdkaws "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/iam"
)

// leftoversTimeout bounds a lookup with its deletions, kindTimeout that of one kind.
const (
	leftoversTimeout = 2 * time.Minute
	kindTimeout      = 30 * time.Second
)

// LeftoverQuery selects what a cluster has left in the account.
type LeftoverQuery struct {
	// Cluster is the name of the EKS cluster.
	Cluster string
	// Endpoint is the host of its API server. Nothing is looked up in an account in which
	// the cluster has another one.
	Endpoint string
	// RoleARN is a role to search as if the cluster is not in the account of the
	// credentials.
	RoleARN string
	// VPC is the id of its VPC.
	VPC string
	// Managed are the ids of what runs of the control plane create and destroy, Protected
	// those of other workspaces of the cluster. They are never leftovers.
	Managed, Protected []string
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
	// Retained are volumes of the cluster, which hold data and are never deleted here, and
	// what must not be deleted with these credentials but does not prevent the deletion of
	// the VPC.
	Retained []string
	// Unread are the lookups for which a permission is missing, or why the account was not
	// searched at all.
	Unread []string
}

// leftover is one object in the account.
type leftover struct {
	text   string
	delete func(ctx context.Context) error
}

// lookup finds the leftovers of one kind.
type lookup struct {
	find func(ctx context.Context) ([]leftover, error)
	// blocks reports whether they prevent the deletion of the VPC or of the control plane.
	blocks bool
}

// SweepLeftovers looks up what the controllers of a cluster left in the account: load
// balancers, target groups, Karpenter's instances, launch templates and instance profiles,
// network interfaces of the VPC CNI and security groups of load balancers. Like the
// garbage collection of other providers, it recognises them by the tags that these
// controllers set, and never by the tag of the cluster alone, which resources of
// Terraform have too.
//
// It searches only the account of the cluster: see KindElsewhere.
//
// Deletions are requested and not awaited: the caller repeats the call until nothing
// remains. They are made in the order of their dependencies.
func SweepLeftovers(ctx context.Context, cfg Config, query LeftoverQuery) (Leftovers, error) {
	if !clusterNames.MatchString(query.Cluster) || query.VPC == "" || query.Endpoint == "" {
		return Leftovers{}, fmt.Errorf("looking up what cluster %q left in VPC %q: the name of an EKS cluster, its endpoint and its VPC are required", query.Cluster, query.VPC)
	}
	ctx, cancel := context.WithTimeout(ctx, leftoversTimeout)
	defer cancel()
	if err := checkAccount(ctx, cfg, query); err != nil {
		return Leftovers{}, err
	}
	s := &sweep{cfg: cfg, query: query, ec2: cfg.ec2(), iam: cfg.iam()}
	lookups := []lookup{
		{s.balancersOf(cfg.balancers()), true},
		{s.balancersOf(cfg.classicBalancers()), true},
		{s.instances, true},
		{s.interfaces, true},
		{s.securityGroups, true},
		{s.balancersOf(cfg.targetGroups()), false},
		{s.launchTemplates, false},
		{s.instanceProfiles, false},
		{s.volumes, false},
	}
	if query.InterfacesOnly {
		lookups = []lookup{{s.interfaces, true}}
	}
	if err := s.runAll(ctx, lookups); err != nil {
		return Leftovers{}, err
	}
	return s.result, nil
}

// checkAccount returns an error of KindElsewhere unless the cluster is in the account and
// region of a Config. Launch templates and instance profiles are recognised by its name
// alone, which a cluster of another account may have.
func checkAccount(ctx context.Context, cfg Config, query LeftoverQuery) error {
	err := cfg.locate(ctx, query.Cluster, query.Endpoint)
	switch kind := KindOf(err); {
	case kind == KindNotFound && query.InterfacesOnly:
		// It is destroyed already. The id of its VPC is unique in all accounts.
		return nil
	case kind == KindNotFound || kind == KindElsewhere:
		return &Error{Kind: KindElsewhere, Text: err.Error() + ". Look for leftovers in the account that the module uses. CAPT searches it if spec.kubeconfig.roleARN is a role in it", err: err}
	default:
		return err
	}
}

// locate returns an error unless the EKS cluster of a name, in the account and region of the
// Config, has a host as its endpoint. It is of KindNotFound if there is no such cluster, and
// of KindElsewhere if it is another one.
func (c Config) locate(ctx context.Context, name, host string) error {
	if !clusterNames.MatchString(name) {
		return invalid("%q is not the name of an EKS cluster", name)
	}
	answer, err := c.eks().DescribeCluster(ctx, &eks.DescribeClusterInput{Name: &name})
	err = explain("eks:DescribeCluster", err)
	switch {
	case KindOf(err) == KindNotFound:
		return &Error{Kind: KindNotFound, Text: fmt.Sprintf("EKS cluster %s does not exist in the account and region %s of the credentials", name, c.Region()), err: err}
	case err != nil:
		return err
	case answer.Cluster == nil || !strings.EqualFold(hostOf(sdkaws.ToString(answer.Cluster.Endpoint)), host):
		// The endpoint of that cluster is not for users of this one.
		return &Error{Kind: KindElsewhere, Text: fmt.Sprintf("EKS cluster %s in the account and region %s of the credentials is another cluster, whose endpoint is not %s", name, c.Region(), host)}
	}
	return nil
}

// hostOf returns the host of an endpoint.
func hostOf(endpoint string) string {
	if parsed, err := url.Parse(endpoint); err == nil && parsed.Hostname() != "" {
		return parsed.Hostname()
	}
	return endpoint
}

// sweep is one lookup of the leftovers of a cluster.
type sweep struct {
	cfg    Config
	query  LeftoverQuery
	ec2    *ec2.Client
	iam    *iam.Client
	result Leftovers
}

// runAll runs lookups. One that fails, or takes too long, does not prevent the next ones.
func (s *sweep) runAll(ctx context.Context, lookups []lookup) error {
	var failures []error
	for _, l := range lookups {
		if err := s.run(ctx, l); err != nil {
			failures = append(failures, err)
		}
	}
	if len(failures) == 0 {
		return nil
	}
	return failures[0]
}

// run looks up the leftovers of one kind and deletes them if the query says so.
func (s *sweep) run(ctx context.Context, l lookup) error {
	ctx, cancel := context.WithTimeout(ctx, kindTimeout)
	defer cancel()
	found, err := l.find(ctx)
	if err := s.unlessDenied(err); err != nil {
		return err
	}
	for _, each := range found {
		if s.query.Delete {
			err := each.delete(ctx)
			if KindOf(err) == KindNotFound {
				continue
			}
			if err != nil {
				each.text += " (" + err.Error() + ")"
			}
			if KindOf(err) == KindDenied && !l.blocks {
				s.result.Retained = append(s.result.Retained, each.text)
				continue
			}
		}
		s.result.Remaining = append(s.result.Remaining, each.text)
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
func (s *sweep) isManaged(id string) bool {
	return slices.Contains(s.query.Managed, id) || slices.Contains(s.query.Protected, id)
}

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

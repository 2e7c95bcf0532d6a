package aws

import (
	"context"
	"errors"
	"time"

	sdkaws "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/arn"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/workspace"
	"github.com/appthrust/capt/internal/kubernetes/dial"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// retryInterval is the delay before a refused call is repeated. No watch
// reports what a user fixes in AWS.
const retryInterval = 30 * time.Second

// Cloud calls AWS for the controllers. Each call uses the credentials of the
// template's runs and blocks for at most callTimeout. An error that a user has to
// fix is a fault.Waiting with the reason of the step that made the call.
type Cloud struct {
	// OwnIdentity lets the manager use its own AWS identity for templates whose
	// provider config has no credentials. Every user who can write templates
	// then acts with the manager's permissions.
	OwnIdentity bool
	// Policy restricts the addresses of endpoints that templates name.
	Policy *dial.Policy
	// Now returns the current time.
	Now func() time.Time
}

// errNoIdentity is returned if the provider config has no credentials and the
// manager must not use its own identity.
var errNoIdentity = errors.New("no AWS credentials: add them to the WorkspaceProviderConfig of the control plane's template, or start the manager with --aws-own-identity (flags.aws-own-identity of the chart)")

// errForeignEndpoint is returned if the manager's own identity would be sent to an
// address that a provider config names.
var errForeignEndpoint = errors.New("the manager does not use its own AWS identity with AWS_ENDPOINT_URL of a template or WorkspaceProviderConfig: add credentials, or set the endpoint in the environment of the manager")

// LookUpVPC returns an existing VPC and the subnets that a cluster uses, as roleARN if it
// is set. If subnets is empty, it selects them as the function LookUpVPC documents. If the
// role does not see the VPC, which may be one for the API server alone, it is looked up
// without the role.
func (c Cloud) LookUpVPC(ctx context.Context, credentials *workspace.Credentials, region, roleARN, vpcID, cluster string, subnets []string) (VPC, error) {
	config, err := c.load(ctx, credentials, region, roleARN)
	if err != nil {
		return VPC{}, asFault(err, infrav1.VPCNotFoundReason)
	}
	vpc, err := LookUpVPC(ctx, config, vpcID, cluster, subnets)
	if kind := KindOf(err); roleARN != "" && (kind == KindNotFound || kind == KindDenied) {
		// The id of a VPC is unique: this is never another one.
		if own, loadErr := c.load(ctx, credentials, region, ""); loadErr == nil {
			if found, ownErr := LookUpVPC(ctx, own, vpcID, cluster, subnets); ownErr == nil {
				return found, nil
			}
		}
	}
	return vpc, asFault(err, infrav1.VPCNotFoundReason)
}

// EnsureSpotRole creates the EC2 Spot service-linked role of the account if it does not
// exist, and reports whether it created the role. The account is that of roleARN, if it is
// set. If this role lacks the permission and the credentials are of the same account, they
// are used without it.
func (c Cloud) EnsureSpotRole(ctx context.Context, credentials *workspace.Credentials, region, roleARN string) (created bool, err error) {
	config, err := c.load(ctx, credentials, region, roleARN)
	if err != nil {
		return false, asFault(err, controlplanev1.SpotRoleFailedReason)
	}
	created, err = EnsureSpotRole(ctx, config)
	if roleARN != "" && KindOf(err) == KindDenied {
		if own, loadErr := c.load(ctx, credentials, region, ""); loadErr == nil && own.isInAccountOf(ctx, roleARN) {
			created, err = EnsureSpotRole(ctx, own)
		}
	}
	return created, asFault(err, controlplanev1.SpotRoleFailedReason)
}

// isInAccountOf reports whether the identity is known to be in the account of a role.
func (c Config) isInAccountOf(ctx context.Context, roleARN string) bool {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	caller, err := c.sts().GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
	parsed, parseErr := arn.Parse(roleARN)
	return err == nil && parseErr == nil && sdkaws.ToString(caller.Account) == parsed.AccountID
}

// Token signs a token for an EKS cluster, as roleARN if it is set. With lent credentials it
// does so only while the cluster of this name in their account has the endpoint: a token
// contains nothing but the name, which another team may have got after the deletion of the
// cluster.
func (c Cloud) Token(ctx context.Context, credentials *workspace.Credentials, region, roleARN string, cluster Cluster) (Token, error) {
	config, err := c.load(ctx, credentials, region, roleARN)
	if err == nil && credentials.Lent != nil {
		err = c.checkLent(ctx, credentials, config, roleARN, cluster)
	}
	if err != nil {
		return Token{}, asFault(err, controlplanev1.TokenFailedReason)
	}
	token, err := SignToken(ctx, config, cluster.Name, c.Now)
	return token, asFault(err, controlplanev1.TokenFailedReason)
}

// checkLent returns an error unless a cluster is in the account of the identity that signs,
// or in that of the lent credentials if the identity does not see it: its role may be one
// for the API server alone.
func (c Cloud) checkLent(ctx context.Context, credentials *workspace.Credentials, config Config, roleARN string, cluster Cluster) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	server, err := serverURL(cluster.Endpoint)
	if err != nil {
		return invalid("signing a token for %s: %v", cluster.Name, err)
	}
	err = config.locate(ctx, cluster.Name, hostOf(server))
	if kind := KindOf(err); roleARN != "" && (kind == KindNotFound || kind == KindDenied) {
		lender, loadErr := c.load(ctx, credentials, config.Region(), "")
		if loadErr != nil {
			return loadErr
		}
		err = lender.locate(ctx, cluster.Name, hostOf(server))
	}
	if kind := KindOf(err); kind == KindNotFound || kind == KindElsewhere {
		return &Error{Kind: kind, Op: "signing a token", Text: err.Error() + ". Lent credentials sign only for the cluster that a run created: correct the region, or request a run", err: err}
	}
	return err
}

// SweepLeftovers looks up what the controllers of a cluster left in the account, and
// deletes it if the query says so, as the function SweepLeftovers documents. If the
// account of the cluster is not found, or is hidden, the result says so and nothing is
// deleted.
func (c Cloud) SweepLeftovers(ctx context.Context, credentials *workspace.Credentials, region string, query LeftoverQuery) (Leftovers, error) {
	roles := []string{""}
	if query.RoleARN != "" {
		roles = append(roles, query.RoleARN)
	}
	var result Leftovers
	for i, role := range roles {
		config, err := c.load(ctx, credentials, region, role)
		if err != nil {
			return Leftovers{}, asFault(err, controlplanev1.LeftoversUnknownReason)
		}
		found, err := SweepLeftovers(ctx, config, query)
		if err == nil && query.InterfacesOnly && len(found.Remaining) == 0 && i+1 < len(roles) {
			// The cluster is destroyed, and may have been in the account of the role.
			continue
		}
		if kind := KindOf(err); kind != KindElsewhere && kind != KindDenied && (kind != KindRoleDenied || role == "") {
			return found, asFault(err, controlplanev1.LeftoversUnknownReason)
		}
		result = Leftovers{Unread: []string{err.Error()}}
	}
	return result, nil
}

// ListVPCUsers returns what prevents the deletion of a VPC.
func (c Cloud) ListVPCUsers(ctx context.Context, credentials *workspace.Credentials, region, vpcID string) ([]string, error) {
	config, err := c.load(ctx, credentials, region, "")
	if err != nil {
		return nil, err
	}
	return ListVPCUsers(ctx, config, vpcID)
}

// load returns the configuration for calls with the given credentials.
func (c Cloud) load(ctx context.Context, credentials *workspace.Credentials, region, roleARN string) (Config, error) {
	given, err := FromEnv(credentials.Env, credentials.Files)
	if err != nil {
		return Config{}, err
	}
	switch {
	case given.Given():
	case !c.OwnIdentity:
		return Config{}, errNoIdentity
	case len(given.endpoints) > 0:
		return Config{}, errForeignEndpoint
	}
	return Load(ctx, given, Options{Region: region, RoleARN: roleARN, Policy: c.Policy})
}

// asFault turns an error that only a change in AWS or of the credentials can fix
// into a wait with a reason. Other errors and nil are returned unchanged.
func asFault(err error, reason string) error {
	var explained *Error
	if !errors.As(err, &explained) && !errors.Is(err, errNoIdentity) && !errors.Is(err, errForeignEndpoint) {
		return err
	}
	return fault.WaitFor(retryInterval, reason, "%w", err)
}

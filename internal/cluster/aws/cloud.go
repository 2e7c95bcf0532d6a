package aws

import (
	"context"
	"errors"
	"time"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/workspace"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// retry is how soon the cloud is asked again: what a person mends there is not
// seen by any watch.
const retry = 30 * time.Second

// Cloud is AWS as the controllers see it: with the credentials of a template's
// runs, and with faults where a user has to act.
type Cloud struct {
	// OwnIdentity lets the manager sign as itself for templates whose provider
	// config has no credentials. Whoever may write templates then acts with the
	// manager's permissions.
	OwnIdentity bool
	// Now is the clock.
	Now func() time.Time
}

// errNoIdentity says that nobody is there to sign as.
var errNoIdentity = errors.New("no AWS credentials: put them into the WorkspaceProviderConfig of the control plane's template, or start the manager with --aws-own-identity")

// LookUpVPC finds a VPC and the subnets that a cluster may use.
func (c Cloud) LookUpVPC(ctx context.Context, credentials *workspace.Credentials, region, vpcID, cluster string, subnets []string) (VPC, error) {
	config, err := c.load(ctx, credentials, region, "")
	if err != nil {
		return VPC{}, explain(err, infrav1.VPCNotFoundReason)
	}
	vpc, err := LookUpVPC(ctx, config, vpcID, cluster, subnets)
	return vpc, explain(err, infrav1.VPCNotFoundReason)
}

// EnsureSpotRole makes sure of the account-wide EC2 Spot service-linked role.
func (c Cloud) EnsureSpotRole(ctx context.Context, credentials *workspace.Credentials, region string) (created bool, err error) {
	config, err := c.load(ctx, credentials, region, "")
	if err != nil {
		return false, explain(err, controlplanev1.SpotRoleFailedReason)
	}
	created, err = EnsureSpotRole(ctx, config)
	return created, explain(err, controlplanev1.SpotRoleFailedReason)
}

// Token signs a token for a cluster.
func (c Cloud) Token(ctx context.Context, credentials *workspace.Credentials, region, roleARN, cluster string) (Token, error) {
	config, err := c.load(ctx, credentials, region, roleARN)
	if err != nil {
		return Token{}, explain(err, controlplanev1.TokenFailedReason)
	}
	token, err := SignToken(ctx, config, cluster, c.Now)
	return token, explain(err, controlplanev1.TokenFailedReason)
}

func (c Cloud) load(ctx context.Context, credentials *workspace.Credentials, region, roleARN string) (Config, error) {
	given, err := FromEnv(credentials.Env, credentials.Files)
	if err != nil {
		return Config{}, err
	}
	if !given.Given() && !c.OwnIdentity {
		return Config{}, errNoIdentity
	}
	return Load(ctx, given, Options{Region: region, RoleARN: roleARN})
}

// explain makes a wait of what AWS refuses; it is tried again by the clock.
func explain(err error, reason string) error {
	var told *Error
	if !errors.As(err, &told) && !errors.Is(err, errNoIdentity) {
		return err
	}
	return fault.WaitFor(retry, reason, "%w", err)
}

package aws

import (
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/iam/types"
	"golang.org/x/sync/singleflight"
)

// The service-linked role that an account requires for Spot instances.
const (
	SpotRoleName    = "AWSServiceRoleForEC2Spot"
	spotServiceName = "spot.amazonaws.com"
)

// EnsureSpotRole creates the EC2 Spot service-linked role of the account if it does
// not exist, and reports whether this call created it. It never deletes the role.
//
// Frequent calls are cheap: the process caches for each identity that the role
// exists, and concurrent callers with the same identity share one request. Failures
// are not cached.
func EnsureSpotRole(ctx context.Context, cfg Config) (created bool, err error) {
	return knownSpotRoles.ensure(ctx, cfg)
}

// knownSpotRoles is global because the role belongs to the account.
var knownSpotRoles spotRoles

// spotRoles records the identities whose account has the role.
type spotRoles struct {
	exist   sync.Map
	flights singleflight.Group
}

func (s *spotRoles) ensure(ctx context.Context, cfg Config) (bool, error) {
	if _, known := s.exist.Load(cfg.identity); known {
		return false, nil
	}
	// Only the caller whose function runs reports that the role was created.
	created := false
	done := s.flights.DoChan(cfg.identity, func() (any, error) {
		if _, known := s.exist.Load(cfg.identity); known {
			return nil, nil
		}
		// Other callers wait for this request, so the context of the first caller must
		// not cancel it.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
		defer cancel()
		var err error
		if created, err = ensureSpotRole(ctx, cfg.iam()); err != nil {
			return nil, err
		}
		s.exist.Store(cfg.identity, true)
		return nil, nil
	})
	select {
	case result := <-done:
		return created && result.Err == nil, result.Err
	case <-ctx.Done():
		return false, explain("ensuring the EC2 Spot role", ctx.Err())
	}
}

func ensureSpotRole(ctx context.Context, client *iam.Client) (created bool, err error) {
	_, err = client.GetRole(ctx, &iam.GetRoleInput{RoleName: new(SpotRoleName)})
	if err == nil {
		return false, nil
	}
	var missing *types.NoSuchEntityException
	err = explain("reading the role "+SpotRoleName, err)
	unreadable := KindOf(err) == KindDenied
	if !errors.As(err, &missing) && !unreadable {
		return false, err
	}
	_, err = client.CreateServiceLinkedRole(ctx, &iam.CreateServiceLinkedRoleInput{
		AWSServiceName: new(spotServiceName), Description: new("EC2 Spot, created by CAPT"),
	})
	if err == nil {
		return true, nil
	}
	var taken *types.InvalidInputException
	if errors.As(err, &taken) && strings.Contains(taken.ErrorMessage(), "has been taken") {
		return false, nil
	}
	err = explain("creating the role "+SpotRoleName, err)
	if KindOf(err) != KindDenied {
		return false, err
	}
	return false, spotRoleDenied(unreadable, err)
}

func spotRoleDenied(unreadable bool, err error) error {
	text := "allow iam:CreateServiceLinkedRole with the condition iam:AWSServiceName=" + spotServiceName +
		", or create the role once with `aws iam create-service-linked-role --aws-service-name " + spotServiceName + "`"
	if unreadable {
		text += " and allow iam:GetRole on it"
	}
	return &Error{
		Kind: KindDenied, Op: "creating the role " + SpotRoleName, err: err,
		Text: "a permission is missing: " + text + ", or set spotServiceLinkedRole: Skip",
	}
}

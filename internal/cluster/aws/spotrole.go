package aws

import (
	"context"
	"errors"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/iam/types"
)

// The service-linked role that an account requires for Spot instances.
const (
	SpotRoleName    = "AWSServiceRoleForEC2Spot"
	spotServiceName = "spot.amazonaws.com"
)

// EnsureSpotRole creates the EC2 Spot service-linked role of the account if it does
// not exist, and reports whether this call created it. It never deletes the role.
func EnsureSpotRole(ctx context.Context, cfg Config) (created bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	client := cfg.iam()
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

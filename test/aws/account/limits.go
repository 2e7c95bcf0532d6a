// Package account guards a real AWS account while the tests of `make e2e-aws REAL=1` use
// it: it refuses accounts that were not named, ends a run before it exceeds its budget,
// and removes everything that a run has left.
package account

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sts"
)

// The variables of a run in a real account.
const (
	// AccountVariable is the id of the account. There is no default: the credentials of a
	// shell may be those of another account than the user believes.
	AccountVariable = "CAPT_E2E_ACCOUNT"
	// RegionVariable is the region of the cluster.
	RegionVariable = "CAPT_E2E_REGION"
	// BudgetVariable is what a run may cost, in USD.
	BudgetVariable = "CAPT_E2E_BUDGET"
)

const (
	// hourlyPrice is more than what a run costs per hour in the most expensive region: a
	// control plane, two system nodes, nodes of Karpenter, a NAT gateway, a load balancer.
	hourlyPrice = 1.0
	// shortest is how long a run takes at least, with its deletion.
	shortest = 3 * time.Hour
	// deletion is the part of the time that is reserved for the deletion and the sweep.
	deletion = 2 * time.Hour
	// largest is the largest budget.
	largest = 50
)

// usage is a command that has everything a run needs.
const usage = "make e2e-aws REAL=1 ACCOUNT=123456789012 REGION=eu-central-1 BUDGET=5"

var (
	accountIDs = regexp.MustCompile(`^[0-9]{12}$`)
	regions    = regexp.MustCompile(`^[a-z]{2}(-[a-z]+)+-[0-9]+$`)
)

// Limits are where a run may create resources, and what they may cost.
type Limits struct {
	Account, Region string
	// Budget is in USD.
	Budget float64
}

// ReadPlace returns the account and the region in the environment, which a sweep needs.
func ReadPlace(getenv func(string) string) (Limits, error) {
	l := Limits{Account: getenv(AccountVariable), Region: getenv(RegionVariable)}
	var errs []error
	if !accountIDs.MatchString(l.Account) {
		errs = append(errs, fmt.Errorf("ACCOUNT %q is not the id of an account: name the account in which resources are created", l.Account))
	}
	if !regions.MatchString(l.Region) {
		errs = append(errs, fmt.Errorf("REGION %q is not a region", l.Region))
	}
	return l, errors.Join(errs...)
}

// ReadLimits returns the limits in the environment. All of them are required.
func ReadLimits(getenv func(string) string) (Limits, error) {
	var errs []error
	l, err := ReadPlace(getenv)
	if err != nil {
		errs = append(errs, err)
	}
	least := hourlyPrice * shortest.Hours()
	if l.Budget, err = strconv.ParseFloat(getenv(BudgetVariable), 64); err != nil || !(l.Budget >= least && l.Budget <= largest) {
		errs = append(errs, fmt.Errorf("BUDGET %q is not an amount between %.0f and %d USD: a run costs up to %.2f USD per hour and takes at least %s", getenv(BudgetVariable), least, largest, hourlyPrice, shortest))
	}
	if len(errs) > 0 {
		return Limits{}, fmt.Errorf("nothing was created, because the command is incomplete: %w\nFor example: %s", errors.Join(errs...), usage)
	}
	return l, nil
}

// Work returns how long a run may work before it deletes what it created.
func (l Limits) Work() time.Duration { return l.Total() - deletion }

// Total returns how long the resources of a run may exist.
func (l Limits) Total() time.Duration {
	return time.Duration(l.Budget / hourlyPrice * float64(time.Hour))
}

// CheckAccount returns an error unless the credentials are those of the named account.
func (a *Account) CheckAccount(ctx context.Context, l Limits) error {
	identity, err := sts.NewFromConfig(a.config).GetCallerIdentity(ctx, nil)
	if err != nil {
		return fmt.Errorf("asking AWS whose credentials these are: %w", err)
	}
	if identity.Account == nil || *identity.Account != l.Account {
		found := "an unknown account"
		if identity.Account != nil {
			found = "account " + *identity.Account
		}
		return fmt.Errorf("the credentials are those of %s, not of account %s", found, l.Account)
	}
	return nil
}

// Check returns an error unless the credentials are those of the named account, and last
// as long as a run.
func (a *Account) Check(ctx context.Context, l Limits, now time.Time) error {
	if err := a.CheckAccount(ctx, l); err != nil {
		return fmt.Errorf("nothing was created: %w", err)
	}
	keys, err := a.config.Credentials.Retrieve(ctx)
	if err != nil {
		return fmt.Errorf("nothing was created: reading the credentials: %w", err)
	}
	if end := now.Add(l.Total()); keys.CanExpire && keys.Expires.Before(end) {
		return fmt.Errorf("nothing was created: the credentials expire at %s, and the run may take until %s: use a smaller budget or other credentials", keys.Expires.UTC().Format(time.RFC3339), end.UTC().Format(time.RFC3339))
	}
	return nil
}

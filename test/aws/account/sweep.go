package account

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/aws/smithy-go"
)

// TagKey is the tag of everything that a run creates. Its value is the id of the run.
const TagKey = "capt.appthrust.io/e2e"

// runIDs matches the ids of runs. They are part of names of AWS.
var runIDs = regexp.MustCompile(`^[a-z0-9]{6,12}$`)

// Run is one run of the tests in an account.
type Run struct{ ID string }

// ParseRun returns the run of an id.
func ParseRun(id string) (Run, error) {
	if !runIDs.MatchString(id) {
		return Run{}, fmt.Errorf("%q is not the id of a run, which has 6 to 12 lower-case letters and digits", id)
	}
	return Run{ID: id}, nil
}

// Cluster returns the name of the cluster of the run. The names of roles, queues, rules
// and log groups contain it.
func (r Run) Cluster() string { return "capt-e2e-" + r.ID }

// resource is something in the account that belongs to a run.
type resource struct {
	text string
	// delete requests the deletion. It may fail while others depend on the resource.
	delete func(ctx context.Context) error
}

// calling returns a function that calls an action of the SDK.
func calling[In, Out, Option any](action func(context.Context, *In, ...Option) (*Out, error), in *In) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := action(ctx, in)
		return err
	}
}

// finder returns the resources of one kind that belong to a run.
type finder func(ctx context.Context, run Run) ([]resource, error)

// finders returns the finders in the order of deletion.
func (a *Account) finders() []finder {
	return []finder{
		a.nodeGroups, a.fargateProfiles, a.clusters, a.loadBalancers, a.targetGroups, a.instances, a.natGateways, a.endpoints, a.interfaces, a.addresses,
		a.securityGroups, a.routeTables, a.internetGateways, a.egressGateways, a.subnets, a.vpcs, a.launchTemplates, a.volumes,
		a.instanceProfiles, a.roles, a.users, a.policies, a.identityProviders, a.logGroups, a.keys, a.taggedKeys, a.queues, a.rules,
	}
}

// Find returns what belongs to a run.
func (a *Account) Find(ctx context.Context, run Run) ([]string, error) {
	found, err := a.find(ctx, run)
	texts := make([]string, len(found))
	for i, r := range found {
		texts[i] = r.text
	}
	return texts, err
}

func (a *Account) find(ctx context.Context, run Run) ([]resource, error) {
	var all []resource
	var errs []error
	for _, find := range a.finders() {
		found, err := find(ctx, run)
		if err != nil {
			errs = append(errs, err)
		}
		all = append(all, found...)
	}
	return all, errors.Join(errs...)
}

// sweepInterval is how long a pass of the sweep waits for the deletions of the one before.
const sweepInterval = 15 * time.Second

// maxFailures is how many passes in a row may fail to list something.
const maxFailures = 8

// Sweep deletes everything that belongs to a run, and returns what is left when nothing
// is left or the context ends. Some deletions take minutes, and succeed only after
// others: it repeats them. Only what has the tag or the name of the run is deleted, or is
// in a VPC with that tag.
func (a *Account) Sweep(ctx context.Context, run Run, interval time.Duration, report func(format string, args ...any)) ([]string, error) {
	if _, err := ParseRun(run.ID); err != nil {
		return nil, err
	}
	if interval == 0 {
		interval = sweepInterval
	}
	for failures := 0; ; {
		found, findErr := a.find(ctx, run)
		var left []string
		for _, r := range found {
			left = append(left, r.text)
			if err := r.delete(ctx); err != nil && !isGone(err) {
				report("%s is not deleted yet: %v", r.text, err)
			}
		}
		if len(found) == 0 && findErr == nil {
			return nil, nil
		}
		// A permission that is missing stays missing.
		if failures++; findErr == nil {
			failures = 0
		}
		if failures == maxFailures {
			return left, fmt.Errorf("sweeping run %s: the account cannot be searched completely: %w", run.ID, findErr)
		}
		const named = 5
		report("%d resources of run %s are left, such as %s", len(left), run.ID, strings.Join(left[:min(named, len(left))], ", "))
		select {
		case <-ctx.Done():
			return left, errors.Join(findErr, fmt.Errorf("sweeping run %s: %w", run.ID, ctx.Err()))
		case <-time.After(interval):
		}
	}
}

// isGone reports whether an error says that something does not exist any more.
func isGone(err error) bool {
	var missing notFoundError
	var refused smithy.APIError
	return errors.As(err, &missing) || errors.As(err, &refused) && (strings.Contains(refused.ErrorCode(), "NotFound") || refused.ErrorCode() == "NoSuchEntity")
}

// inOrder calls functions until one fails. An object that is gone already counts as deleted.
func inOrder(steps ...func() error) error {
	for _, step := range steps {
		if err := step(); err != nil && !isGone(err) {
			return err
		}
	}
	return nil
}

// sorted returns resources in the order of their texts.
func sorted(found []resource) []resource {
	slices.SortFunc(found, func(a, b resource) int { return strings.Compare(a.text, b.text) })
	return found
}

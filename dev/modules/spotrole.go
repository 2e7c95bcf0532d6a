package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

const spotRole = "spot-role"

// checkSpotRole checks plans, because mocks import nothing: a missing role is created,
// an existing role is imported unchanged, an imported role does not change, and the
// role is never destroyed.
func (w *workspace) checkSpotRole(ctx context.Context) (string, error) {
	dir, err := w.rootOf(ctx, spotRole, "zz-spot-role", map[string]string{"zz_provider.tf": fakeProvider})
	if err != nil {
		return "", err
	}
	fake := newFakeAWS()
	defer fake.Close()
	for _, step := range []struct {
		name     string
		exists   bool
		actions  []string
		imported bool
	}{
		{"a missing role", false, []string{"create"}, false},
		{"a role that exists", true, []string{"no-op"}, true},
	} {
		fake.spotRole = step.exists
		changes, err := w.plan(ctx, dir, fake)
		if err != nil {
			return "", fmt.Errorf("%s: %w", step.name, err)
		}
		if len(changes) != 1 || !slices.Equal(changes[0].Change.Actions, step.actions) || (changes[0].Change.Importing != nil) != step.imported {
			return "", fmt.Errorf("%s: the plan is %+v, want %s and importing %t", step.name, changes, step.actions, step.imported)
		}
	}
	if _, err := w.run(ctx, dir, fake.env(), "apply", "-input=false", "-no-color", "tested.tfplan"); err != nil {
		return "", errors.Join(err, fake.unexpectedCalls())
	}
	changes, err := w.plan(ctx, dir, fake)
	if err != nil {
		return "", err
	}
	if len(changes) != 1 || !slices.Equal(changes[0].Change.Actions, []string{"no-op"}) || changes[0].Change.Importing != nil {
		return "", fmt.Errorf("the imported role: the plan is %+v, want no changes", changes)
	}
	out, err := w.run(ctx, dir, fake.env(), "plan", "-destroy", "-input=false", "-no-color")
	if err == nil || !strings.Contains(out.String(), "prevent_destroy") {
		return "", fmt.Errorf("the role could be destroyed:\n%s", out)
	}
	return "created, taken over, left alone, not destroyed", nil
}

package main

import (
	"context"
	"errors"
	"strings"
	"testing"
)

func TestRunChecks_reportsEachAndReturnsTheFailuresInOrder(t *testing.T) {
	var out strings.Builder
	pass := func(context.Context) (string, error) { return "3 tests", nil }
	fail := func(context.Context) (string, error) { return "", errors.New("broken") }
	failures := runChecks(t.Context(), &out, []check{{"a", pass}, {"b", fail}, {"c", pass}, {"d", fail}})
	if len(failures) != 2 || failures[0].Error() != "b: broken" || failures[1].Error() != "d: broken" {
		t.Errorf("failures are %v", failures)
	}
	for _, word := range []string{"[4/4]", "3 tests", "FAILED"} {
		if !strings.Contains(out.String(), word) {
			t.Errorf("the report lacks %q:\n%s", word, out.String())
		}
	}
}

func TestNewWorkspace_reportsHowToBuildMissingPrograms(t *testing.T) {
	source, parts := t.TempDir(), t.TempDir()
	write(t, source, map[string]string{"network/main.tf": ""})
	_, err := newWorkspace(source, parts)
	if err == nil || !strings.Contains(err.Error(), "terraform-provider-aws") || !strings.Contains(err.Error(), "go run ./parts") {
		t.Errorf("the error is %v", err)
	}
}

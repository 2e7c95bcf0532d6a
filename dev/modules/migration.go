package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
)

// The modules of the migration, and the test run of the first module whose state the
// second module is planned with.
const (
	migrationFrom = "eks-v1"
	migrationTo   = "eks"
	migrationTest = "tests/eks_v1.tftest.hcl"
	migrationRun  = "state_for_the_migration"
	// migrationFile contains the removed and moved blocks.
	migrationFile = "migration.tf"
	// helmProvider is the file of the template that configures the Helm provider.
	helmProvider = "../templates/source/helm-provider.tf"
)

// migrationVars are the variables of that run.
const migrationVars = `cluster_name       = "demo"
kubernetes_version = "1.33"
region             = "eu-central-1"
vpc_id             = "vpc-0123456789abcdef0"
subnet_ids         = ["subnet-a", "subnet-b"]
`

// forgotten are the resources that Terraform removes from the state without destroying
// them.
var forgotten = []string{`module.karpenter.helm_release.karpenter["main"]`}

// checkMigration plans the new module with the state of the old one: the plan must not
// destroy, replace or create anything, and must forget the release. As a control, the
// same plan without the blocks of migrationFile must destroy resources.
//
// The state comes from a test with mocks: its addresses and settings are real, its ids
// and ARNs are not.
func (w *workspace) checkMigration(ctx context.Context) (string, error) {
	state, err := w.oldState(ctx)
	if err != nil {
		return "", err
	}
	fake := newFakeAWS()
	defer fake.Close()
	// The template of CAPT is the root module, and so configures the provider.
	helm, err := os.ReadFile(helmProvider)
	if err != nil {
		return "", fmt.Errorf("reading the provider of the root module: %w", err)
	}
	files := map[string]string{"zz_provider.tf": fakeProvider, "zz_helm.tf": string(helm), "terraform.tfvars": migrationVars, "terraform.tfstate": state}

	changes, err := w.migrate(ctx, fake, "zz-migration", files)
	if err != nil {
		return "", err
	}
	if err := harmless(changes); err != nil {
		return "", err
	}
	naive, err := w.migrate(ctx, fake, "zz-migration-naive", files, migrationFile)
	if err != nil {
		return "", err
	}
	lost := with("delete", naive)
	if !slices.Contains(lost, forgotten[0]) || len(lost) < 2 {
		return "", fmt.Errorf("without %s only %q would be destroyed: the control plan must destroy more", migrationFile, lost)
	}
	return fmt.Sprintf("%d resources kept, %d forgotten; without %s %d would be destroyed", len(changes)-len(forgotten), len(forgotten), migrationFile, len(lost)), nil
}

func (w *workspace) migrate(ctx context.Context, fake *fakeAWS, as string, files map[string]string, without ...string) ([]change, error) {
	dir, err := w.rootOf(ctx, migrationTo, as, files, without...)
	if err != nil {
		return nil, err
	}
	// No refresh, because the fake has no resources.
	changes, err := w.plan(ctx, dir, fake, "-refresh=false")
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(changes, func(c change) bool { return c.has("read") }), nil
}

// harmless returns an error for a plan that does more than update and forget.
func harmless(changes []change) error {
	var problems []error
	for _, action := range []string{"delete", "create"} {
		for _, address := range with(action, changes) {
			problems = append(problems, fmt.Errorf("the plan would %s %s", action, address))
		}
	}
	if forgets := with("forget", changes); !slices.Equal(forgets, forgotten) {
		problems = append(problems, fmt.Errorf("the plan forgets %q, want %q", forgets, forgotten))
	}
	return errors.Join(problems...)
}

// oldState runs the test of the old module and returns its state as a state file.
func (w *workspace) oldState(ctx context.Context) (string, error) {
	dir, err := w.rootOf(ctx, migrationFrom, "zz-migration-from", nil)
	if err != nil {
		return "", err
	}
	out, err := w.run(ctx, dir, nil, "test", "-json", "-verbose", "-test-directory=../"+migrationFrom+"/tests", "-filter=../"+migrationFrom+"/"+migrationTest)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(out.stdout) {
		var event struct {
			Type  string `json:"type"`
			Run   string `json:"@testrun"`
			State struct {
				Values struct {
					Root stateModule `json:"root_module"`
				} `json:"values"`
			} `json:"test_state"`
		}
		if err := json.Unmarshal([]byte(line), &event); err != nil {
			return "", fmt.Errorf("reading the test's state: %w", err)
		}
		if event.Type == "test_state" && event.Run == migrationRun {
			return stateFile(event.State.Values.Root)
		}
	}
	return "", fmt.Errorf("the run %q left no state:\n%s", migrationRun, out)
}

// unexpectedCalls returns an error for calls that the fake does not implement.
func (f *fakeAWS) unexpectedCalls() error {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if len(f.unknown) == 0 {
		return nil
	}
	return fmt.Errorf("the fake of AWS does not implement %q", f.unknown)
}

package migrate

import (
	"fmt"
	"strings"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/terraform"
)

// releaseType is the Terraform resource type of a Helm release.
const releaseType = "helm_release"

// isRelease reports whether an address is that of a Helm release in any module.
func isRelease(address string) bool {
	return strings.HasPrefix(address, releaseType+".") || strings.Contains(address, "."+releaseType+".")
}

// checkForget refuses a plan that does anything but forget releases and change
// resources in place.
func checkForget(p *infrav1.PlanStatus) error {
	if err := checkHarmless(p); err != nil {
		return err
	}
	forgotten := 0
	for _, c := range p.Changes {
		forgets := terraform.Action(c.Action) == terraform.ActionForget
		switch {
		case forgets && isRelease(c.Address):
			forgotten++
		case forgets:
			return fmt.Errorf("plan %s would forget %s, which is not a %s", p.ID, c.Address, releaseType)
		case isRelease(c.Address):
			return fmt.Errorf("plan %s would %s %s instead of forgetting it: add a removed block for it to the new template", p.ID, c.Action, c.Address)
		}
	}
	if forgotten == 0 {
		return fmt.Errorf("plan %s forgets no %s: add a removed block with destroy = false to the new template", p.ID, releaseType)
	}
	return nil
}

// checkImport refuses a plan that installs a release instead of importing it, or
// destroys anything.
func checkImport(p *infrav1.PlanStatus) error { return checkReturn(p, terraform.ActionImport) }

// checkTakeOver is checkImport for a template that takes over a running release
// with upgrade_install: the plan creates the release.
func checkTakeOver(p *infrav1.PlanStatus) error { return checkReturn(p, terraform.ActionCreate) }

// checkReturn refuses a plan that destroys or forgets anything, or that does
// something to a release other than the expected action or an update.
func checkReturn(p *infrav1.PlanStatus, expected terraform.Action) error {
	if err := checkHarmless(p); err != nil {
		return err
	}
	for _, c := range p.Changes {
		action := terraform.Action(c.Action)
		if isRelease(c.Address) && action != expected && action != terraform.ActionUpdate {
			return fmt.Errorf("plan %s would %s %s instead of importing it: add an import block with the variable %s to the old template", p.ID, c.Action, c.Address, ImportVariable)
		}
		if action == terraform.ActionForget {
			return fmt.Errorf("plan %s would forget %s", p.ID, c.Address)
		}
	}
	return nil
}

// checkHarmless refuses a plan that destroys something, or whose changes are not all
// listed.
func checkHarmless(p *infrav1.PlanStatus) error {
	for _, c := range p.Changes {
		if a := terraform.Action(c.Action); a == terraform.ActionDelete || a == terraform.ActionReplace {
			return fmt.Errorf("plan %s would %s %s", p.ID, c.Action, c.Address)
		}
	}
	switch {
	case p.Destroy > 0:
		return fmt.Errorf("plan %s would destroy %d resources", p.ID, p.Destroy)
	case p.OmittedChanges > 0:
		return fmt.Errorf("plan %s has %d changes that its status does not list: apply other changes first, then migrate", p.ID, p.OmittedChanges)
	}
	return nil
}

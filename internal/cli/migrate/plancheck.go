package migrate

import (
	"fmt"
	"strings"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/terraform"
)

// releaseType is the type of a release in Terraform.
const releaseType = "helm_release"

// isRelease tells whether an address is that of a release, in whatever module.
func isRelease(address string) bool {
	return strings.HasPrefix(address, releaseType+".") || strings.Contains(address, "."+releaseType+".")
}

// checkForget refuses a plan that does more than to forget releases and change
// things in place.
func checkForget(p *infrav1.PlanStatus) error {
	if err := harmless(p); err != nil {
		return err
	}
	forgotten := 0
	for _, c := range p.Changes {
		forgets := terraform.Action(c.Action) == terraform.ActionForget
		switch {
		case forgets && isRelease(c.Address):
			forgotten++
		case forgets:
			return fmt.Errorf("plan %s would forget %s, which is no release", p.ID, c.Address)
		case isRelease(c.Address):
			return fmt.Errorf("plan %s would %s %s instead of forgetting it: the new template needs a removed block for it", p.ID, c.Action, c.Address)
		}
	}
	if forgotten == 0 {
		return fmt.Errorf("plan %s forgets no %s: the new template needs a removed block with destroy = false", p.ID, releaseType)
	}
	return nil
}

// checkImport refuses a plan that would install a release anew, or destroy
// anything.
func checkImport(p *infrav1.PlanStatus) error { return checkReturn(p, terraform.ActionImport) }

// checkTakeOver is for a template that takes a running release over where it
// would install it (upgrade_install): its plan says create.
func checkTakeOver(p *infrav1.PlanStatus) error { return checkReturn(p, terraform.ActionCreate) }

// checkReturn refuses a plan that does something else to the release than to get
// it back in the given way, or that destroys or forgets anything.
func checkReturn(p *infrav1.PlanStatus, by terraform.Action) error {
	if err := harmless(p); err != nil {
		return err
	}
	for _, c := range p.Changes {
		action := terraform.Action(c.Action)
		if isRelease(c.Address) && action != by && action != terraform.ActionUpdate {
			return fmt.Errorf("plan %s would %s %s instead of importing it: the old template needs an import block by the variable %s", p.ID, c.Action, c.Address, ImportVariable)
		}
		if action == terraform.ActionForget {
			return fmt.Errorf("plan %s would forget %s", p.ID, c.Address)
		}
	}
	return nil
}

// harmless refuses a plan that destroys something, or that cannot be seen whole.
func harmless(p *infrav1.PlanStatus) error {
	for _, c := range p.Changes {
		if a := terraform.Action(c.Action); a == terraform.ActionDelete || a == terraform.ActionReplace {
			return fmt.Errorf("plan %s would %s %s", p.ID, c.Action, c.Address)
		}
	}
	switch {
	case p.Destroy > 0:
		return fmt.Errorf("plan %s would destroy %d resources", p.ID, p.Destroy)
	case p.OmittedChanges > 0:
		return fmt.Errorf("plan %s has %d changes that are not listed: apply other changes first, then migrate", p.ID, p.OmittedChanges)
	}
	return nil
}

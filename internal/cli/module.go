package cli

import (
	"context"
	"errors"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cli/validate"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/speculate"
)

// toolDefault describes the default of the flag --terraform-binary of commands that fetch modules.
const toolDefault = "Defaults to $CAPT_TERRAFORM_BINARY, then tofu or terraform in PATH."

// fetchModule fetches a remote module with the tool and the user's own credentials, and returns
// the files of its root module.
func (o *Options) fetchModule(ctx context.Context, parameters *infrav1.ModuleParameters, binary string) (module validate.LocalModule, err error) {
	ctx, stop := untilHangup(ctx)
	defer stop()
	scratch, remove, err := speculate.TempDir()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, remove()) }()
	p := o.progress()
	defer p.end()
	p.show("Fetching " + parameters.Module)
	remote := terraform.Module{Source: terraform.SourceRemote, Address: parameters.Module, Version: parameters.Version, Entrypoint: parameters.Entrypoint}
	dir, err := speculate.Fetch(ctx, remote, speculate.Options{Binary: binary, Dir: scratch, Inherit: ownEnvironment()})
	if err != nil {
		return nil, err
	}
	return validate.ReadModule(dir)
}

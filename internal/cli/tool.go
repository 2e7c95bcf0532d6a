package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cli/operate"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/command"
)

// toolHelp describes the flag --terraform-binary.
const toolHelp = "Defaults to $CAPT_TERRAFORM_BINARY, then tofu or terraform in PATH, if it is the product that wrote the state, and not older."

// selectTool returns the path of the tool for the state of a workspace: the given binary, or
// one of the product and at least the version with which its runs work. Another product
// would change the state into one of its own, which runs may not read.
func selectTool(ctx context.Context, c client.Reader, apply *infrav1.WorkspaceTemplateApply, request *terraform.Request, binary string) (string, error) {
	if binary != "" {
		return binary, nil
	}
	writer, err := operate.ToolOf(ctx, c, apply, request.Backend)
	if err != nil {
		return "", err
	}
	requirement := writer.Since()
	if request.Tool != nil {
		// The template decides about the version.
		requirement = &terraform.ToolRequirement{Product: request.Tool.Product, Version: request.Tool.Version}
		if requirement.Product == "" {
			requirement.Product = writer.Product
		}
	}
	tool, err := command.Select(ctx, "", requirement)
	missing, refused := errors.AsType[*command.NotAvailableError](err)
	if refused && request.Tool == nil {
		return "", toolRefused(apply.Name, writer, missing.Available)
	}
	if err != nil {
		return "", err
	}
	return tool.Path, nil
}

// toolRefused returns the error if no tool fits the state of a workspace.
func toolRefused(name string, writer terraform.Tool, available []string) error {
	found := "no tool was found"
	if len(available) > 0 {
		found = "found only " + strings.Join(available, ", ")
	}
	return fmt.Errorf("%s uses %s, and another product or an older version could damage its state; %s. Put the right one into PATH, or choose one yourself with --terraform-binary PATH", name, writer, found)
}

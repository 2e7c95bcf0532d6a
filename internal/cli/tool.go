package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/client/operate"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/command/binary"
)

// toolHelp describes the flag --terraform-binary.
const toolHelp = "Defaults to $CAPT_TERRAFORM_BINARY, then tofu or terraform in PATH, if it is the product that wrote the state, and not older."

// setTool removes the requirement of the template from a request, after it has selected the
// path of the tool that meets it, or that the user has chosen regardless of it.
func setTool(ctx context.Context, c client.Reader, apply *infrav1.WorkspaceTemplateApply, request *terraform.Request, given string) (string, error) {
	path, err := selectTool(ctx, c, apply, request, given)
	if err != nil {
		return "", err
	}
	request.Tool = nil
	return path, nil
}

// selectTool returns the path of the tool for the state of a workspace: the given binary, or
// one of the product and at least the version with which its runs work. Another product
// would change the state into one of its own, which runs may not read.
func selectTool(ctx context.Context, c client.Reader, apply *infrav1.WorkspaceTemplateApply, request *terraform.Request, given string) (string, error) {
	if given != "" {
		return given, nil
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
	tool, err := binary.Select(ctx, "", requirement)
	missing, refused := errors.AsType[*binary.NotAvailableError](err)
	if refused {
		return "", toolRefused(apply.Name, writer, request.Tool, missing.Available)
	}
	if err != nil {
		return "", err
	}
	return tool.Path, nil
}

// toolRefused returns the error if no tool fits the state of a workspace, or what its template
// requires. A requirement without a product is that for the product which wrote the state.
func toolRefused(name string, writer terraform.Tool, required *terraform.ToolRequirement, available []string) error {
	found := "no tool was found"
	if len(available) > 0 {
		found = "found only " + strings.Join(available, ", ")
	}
	reason := fmt.Sprintf("%s uses %s, and another product or an older version could damage its state", name, writer)
	switch {
	case required != nil && required.Product == "" && writer.Product != "":
		reason = fmt.Sprintf("%s uses %s, and its template requires version %s", name, writer.Product, required.Version)
	case required != nil:
		reason = fmt.Sprintf("the template of %s requires %s", name, required)
	}
	return fmt.Errorf("%s; %s. Put the right one into PATH, or choose one yourself with --terraform-binary PATH", reason, found)
}

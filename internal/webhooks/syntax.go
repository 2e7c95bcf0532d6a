package webhooks

import (
	"fmt"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclparse"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/appthrust/capt/internal/terraform/inspect"
)

// maxSyntaxErrors limits the number of errors per text.
const maxSyntaxErrors = 3

// checkHCL rejects text that is not valid HCL, and checkJSONModule text that is not valid HCL in
// JSON syntax.
func checkHCL(path *field.Path, filename, text string) field.ErrorList {
	return checkSyntax(path, filename, text, hclparse.NewParser().ParseHCL)
}

func checkJSONModule(path *field.Path, filename, text string) field.ErrorList {
	return checkSyntax(path, filename, text, hclparse.NewParser().ParseJSON)
}

func checkSyntax(path *field.Path, filename, text string, parse func([]byte, string) (*hcl.File, hcl.Diagnostics)) field.ErrorList {
	diags := inspect.Complexity(filename, []byte(text))
	if !diags.HasErrors() {
		_, diags = parse([]byte(text), filename)
	}
	var errs field.ErrorList
	lines := strings.Split(text, "\n")
	for _, d := range diags {
		if d.Severity != hcl.DiagError || len(errs) == maxSyntaxErrors {
			continue
		}
		where, line := "", text
		if d.Subject != nil {
			where = fmt.Sprintf("%s:%d,%d: ", d.Subject.Filename, d.Subject.Start.Line, d.Subject.Start.Column)
			line = lines[min(max(d.Subject.Start.Line, 1), len(lines))-1]
		}
		errs = append(errs, invalid(path, line, strings.TrimSpace(where+d.Summary+": "+d.Detail)))
	}
	return errs
}

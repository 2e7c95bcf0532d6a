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

// checkHCL rejects text that is not valid HCL.
func checkHCL(path *field.Path, filename, text string) field.ErrorList {
	diags := inspect.Complexity(filename, []byte(text))
	if !diags.HasErrors() {
		_, diags = hclparse.NewParser().ParseHCL([]byte(text), filename)
	}
	return syntaxErrors(path, text, diags)
}

// checkJSONModule rejects text that is not valid HCL in JSON syntax.
func checkJSONModule(path *field.Path, filename, text string) field.ErrorList {
	diags := inspect.Complexity(filename, []byte(text))
	if !diags.HasErrors() {
		_, diags = hclparse.NewParser().ParseJSON([]byte(text), filename)
	}
	return syntaxErrors(path, text, diags)
}

func syntaxErrors(path *field.Path, text string, diags hcl.Diagnostics) field.ErrorList {
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

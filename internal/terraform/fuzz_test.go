package terraform_test

import (
	"strings"
	"testing"

	"github.com/appthrust/capt/internal/terraform"
)

// Templates have arguments of the commands.
func FuzzArgs(f *testing.F) {
	for _, seed := range []string{"", "-target=a", "-var\na=b", "--state=x", "-out=x", "-chdir=/", "-var\n-out=x", "-parallelism\n3"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		args := strings.Split(text, "\n")
		if terraform.CheckArgs(args) != nil {
			return
		}
		planning, applying := terraform.SplitArgs(args)
		for _, arg := range append(planning, applying...) {
			if !strings.Contains(text, arg) {
				t.Fatalf("%q is not an argument of %q", arg, text)
			}
		}
	})
}

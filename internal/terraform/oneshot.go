package terraform

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/appthrust/capt/internal/message"
)

// OneShot is an operation that a user requests once: a plan with other options than the
// plan of the inputs. It has one of Replace, Target, RefreshOnly and Import, or none of
// them with PlanOnly.
type OneShot struct {
	// ID is the UID of the WorkspaceOperation. Each is executed once.
	ID string `json:"id"`
	// Replace are the addresses of resource instances that are replaced, in addition to
	// what the inputs change.
	Replace []string `json:"replace,omitempty"`
	// Target are the addresses of the only resources or modules that are planned, with
	// what they depend on.
	Target []string `json:"target,omitempty"`
	// RefreshOnly updates the state to the real resources and changes none of them.
	RefreshOnly bool `json:"refreshOnly,omitempty"`
	// Import are existing resources that become resources of the state.
	Import []Import `json:"import,omitempty"`
	// PlanOnly shows the plan and does not apply it.
	PlanOnly bool `json:"planOnly,omitempty"`
	// Hold makes the plan wait for approval, even if other plans of the workspace do not.
	Hold bool `json:"hold,omitempty"`
}

// Import is an existing resource that becomes a resource of the state.
type Import struct {
	Address string `json:"address"`
	// ID is the provider's ID of the resource.
	ID string `json:"id"`
}

// maxImportID is the size of the ID of a resource to import, in bytes.
const maxImportID = 2048

const identifier = `[\p{L}_][\p{L}\p{N}_-]*`

// index matches the index of an instance: a number or a quoted key.
const index = `(?:\[(?:[0-9]+|"(?:[^"\\]|\\["\\])*")\])?`

const instance = `(?:module\.` + identifier + index + `\.)*` + identifier + `\.` + identifier + index

// Few runs need them, and all would wait for their compilation, which takes as long as
// that of all others.
var (
	instanceAddress  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^` + instance + `$`) })
	importedInstance = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?s)^(` + instance + `)=(.*)$`) })
)

// ParseImport parses an import in the form address=ID.
func ParseImport(text string) (Import, error) {
	match := importedInstance().FindStringSubmatch(text)
	if match == nil {
		return Import{}, fmt.Errorf("import %q is invalid: write the address of a resource instance, = and the ID of the existing resource, for example aws_vpc.main=vpc-0123456789abcdef0", text)
	}
	imported := Import{Address: match[1], ID: match[2]}
	return imported, imported.validate()
}

// What is wrong with the fields of an operation together.
var (
	ErrExclusive        = errors.New("replace, target, refreshOnly and import exclude each other: request one after the other")
	ErrNothingRequested = errors.New("nothing is requested: set replace, target, refreshOnly, import or planOnly")
	ErrHeldWithoutApply = errors.New("planOnly and hold exclude each other: a plan that is not applied needs no approval")
)

// Validate returns what is wrong with the operation.
func (o *OneShot) Validate() error {
	count := 0
	for _, set := range []bool{len(o.Replace) > 0, len(o.Target) > 0, o.RefreshOnly, len(o.Import) > 0} {
		if set {
			count++
		}
	}
	switch {
	case count > 1:
		return ErrExclusive
	case count == 0 && !o.PlanOnly:
		return ErrNothingRequested
	case o.PlanOnly && o.Hold:
		return ErrHeldWithoutApply
	case len(o.Replace)+len(o.Target)+len(o.Import) > maxAddresses:
		return fmt.Errorf("more than %d addresses are requested", maxAddresses)
	}
	for _, address := range o.Replace {
		if !isInstance(address) {
			return invalidInstance(address)
		}
	}
	for _, address := range o.Target {
		if !isAddress(address) {
			return fmt.Errorf("address %q is invalid: write the address of a resource or module, for example aws_vpc.main or module.network", address)
		}
	}
	for i, imported := range o.Import {
		if err := imported.validate(); err != nil {
			return err
		}
		if slices.ContainsFunc(o.Import[:i], func(other Import) bool { return other.Address == imported.Address }) {
			return fmt.Errorf("address %s is imported twice", imported.Address)
		}
	}
	return nil
}

// isInstance reports whether a text is the address of an instance of a managed resource
// that is written into configuration as it is: it has no template sequences.
func isInstance(address string) bool {
	if len(address) > maxAddressSize || !instanceAddress().MatchString(address) || strings.ContainsFunc(address, isControl) {
		return false
	}
	segments := splitAddress(address)
	kind := segments[len(segments)-2]
	return kind != "data" && kind != "module" && !strings.Contains(address, "${") && !strings.Contains(address, "%{")
}

func invalidInstance(address string) error {
	return fmt.Errorf(`address %q is invalid: write the address of one instance of a resource, for example aws_vpc.main or module.network.aws_subnet.private["a"]`, address)
}

func (i Import) validate() error {
	switch {
	case !isInstance(i.Address):
		return invalidInstance(i.Address)
	case i.ID == "" || len(i.ID) > maxImportID || strings.ContainsFunc(i.ID, isControl):
		return fmt.Errorf("the ID of %s is invalid: write the ID that the provider documents for imports, in one line", i.Address)
	}
	return nil
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f || r == '\u2028' || r == '\u2029' }

// Arguments returns the operation as the arguments of captctl run.
func (o *OneShot) Arguments() string {
	var args []string
	for _, address := range o.Replace {
		args = append(args, "--replace "+address)
	}
	for _, address := range o.Target {
		args = append(args, "--target "+address)
	}
	if o.RefreshOnly {
		args = append(args, "--refresh-only")
	}
	for _, i := range o.Import {
		args = append(args, "--import "+i.Address+"="+i.ID)
	}
	if o.PlanOnly {
		args = append(args, "--plan-only")
	}
	if o.Hold {
		args = append(args, "--hold")
	}
	return strings.Join(args, " ")
}

// CheckAddresses returns an error if the operation does not fit the resource instances in
// the state.
func (o *OneShot) CheckAddresses(state []string) error {
	for _, address := range o.Replace {
		if !slices.Contains(state, address) {
			return fmt.Errorf("the state has no resource instance %s%s: captctl state list shows all", address, message.Suggestion(address, state))
		}
	}
	for _, i := range o.Import {
		if slices.Contains(state, i.Address) {
			return fmt.Errorf("%s is in the state already: to import another resource, remove it from the state first with captctl state rm", i.Address)
		}
	}
	return nil
}

// UnknownTarget returns the first target that contains neither a resource of the state nor
// a planned change, or an empty string.
func (o *OneShot) UnknownTarget(state []string, changes []Change) string {
	for _, target := range o.Target {
		contains := func(address string) bool {
			rest, found := strings.CutPrefix(address, target)
			return found && (rest == "" || rest[0] == '.' || rest[0] == '[')
		}
		if !slices.ContainsFunc(state, contains) && !slices.ContainsFunc(changes, func(c Change) bool { return contains(c.Address) }) {
			return target
		}
	}
	return ""
}

// ImportBlocks returns the operation's imports as configuration, or nil. All texts in it are
// validated, and the ID is a literal.
func (o *OneShot) ImportBlocks() []byte {
	var out strings.Builder
	quote := strings.NewReplacer(`\`, `\\`, `"`, `\"`, `${`, `$${`, `%{`, `%%{`)
	for _, i := range o.Import {
		fmt.Fprintf(&out, "import {\n  to = %s\n  id = \"%s\"\n}\n", i.Address, quote.Replace(i.ID)) //nolint:gocritic // HCL is not quoted like Go.
	}
	return []byte(out.String())
}

package controlplane

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/appthrust/capt/internal/testenv"
)

// workspace applies a module with the real tofu. Like in a template, the module is one
// file.
type workspace struct {
	dir, tofu string
	vars      map[string]any
	// output is everything that tofu has printed.
	output strings.Builder
}

func moduleText(t *testing.T, module string) []byte {
	t.Helper()
	root, err := testenv.Root()
	if err != nil {
		t.Fatal(err)
	}
	var text []byte
	for _, name := range []string{"versions.tf", "variables.tf", "main.tf", "outputs.tf"} {
		content, err := os.ReadFile(filepath.Join(root, "modules", "local", module, name))
		if err != nil {
			t.Fatal(err)
		}
		text = append(text, content...)
	}
	return text
}

func newWorkspace(t *testing.T, module string, vars map[string]any) *workspace {
	t.Helper()
	tofu, err := testenv.Part("tofu")
	if err != nil {
		t.Fatal(err)
	}
	w := &workspace{dir: t.TempDir(), tofu: tofu, vars: maps.Clone(vars)}
	for name, content := range map[string][]byte{"main.tf": moduleText(t, module), "cli.tfrc": nil} {
		if err := os.WriteFile(filepath.Join(w.dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	w.must(t, "init", "-input=false")
	return w
}

// command returns a tofu command. tofu reads the variables from a file.
func (w *workspace) command(ctx context.Context, args ...string) (*exec.Cmd, error) {
	vars, err := json.Marshal(w.vars)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(w.dir, "terraform.tfvars.json"), vars, 0o600); err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, w.tofu, args...)
	cmd.Dir = w.dir
	cmd.Env = []string{
		"PATH=" + filepath.Dir(program) + ":" + assets + ":" + os.Getenv("PATH"), "TMPDIR=" + os.TempDir(), "NO_COLOR=1",
		"HOME=" + w.dir, "TF_IN_AUTOMATION=1", "CHECKPOINT_DISABLE=1", "TF_CLI_CONFIG_FILE=" + filepath.Join(w.dir, "cli.tfrc"),
	}
	return cmd, nil
}

// run returns the output and the exit code.
func (w *workspace) run(t *testing.T, args ...string) (string, int) {
	t.Helper()
	cmd, err := w.command(t.Context(), append(args, "-no-color")...)
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.CombinedOutput()
	w.output.Write(out)
	if exited, ok := errors.AsType[*exec.ExitError](err); ok {
		return string(out), exited.ExitCode()
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(out), 0
}

func (w *workspace) must(t *testing.T, args ...string) string {
	t.Helper()
	out, code := w.run(t, args...)
	if code != 0 {
		t.Fatalf("tofu %s: exit code %d: %s", args[0], code, out)
	}
	return out
}

func (w *workspace) apply(t *testing.T) string {
	t.Helper()
	return w.must(t, "apply", "-auto-approve", "-input=false")
}

func (w *workspace) destroy(t *testing.T) string {
	t.Helper()
	return w.must(t, "destroy", "-auto-approve", "-input=false")
}

// settled fails the test unless the plan is empty.
func (w *workspace) settled(t *testing.T) {
	t.Helper()
	if out, code := w.run(t, "plan", "-detailed-exitcode", "-input=false"); code != 0 || !strings.Contains(out, "No changes.") {
		t.Fatalf("the plan is not empty: exit code %d: %s", code, out)
	}
}

// actions returns the actions of a plan by resource, such as "delete create".
// Resources without changes are left out.
func (w *workspace) actions(t *testing.T) map[string]string {
	t.Helper()
	file := filepath.Join(w.dir, "plan.out")
	w.must(t, "plan", "-input=false", "-out="+file)
	cmd, err := w.command(t.Context(), "show", "-json", file)
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var plan struct {
		ResourceChanges []struct {
			Address string
			Change  struct{ Actions []string }
		} `json:"resource_changes"`
	}
	if err := json.Unmarshal(out, &plan); err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, change := range plan.ResourceChanges {
		if actions := strings.Join(change.Change.Actions, " "); actions != "no-op" {
			found[change.Address] = actions
		}
	}
	return found
}

// outputs returns all outputs, including the sensitive ones.
func (w *workspace) outputs(t *testing.T) map[string]any {
	t.Helper()
	cmd, err := w.command(t.Context(), "output", "-json")
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var outputs map[string]struct{ Value any }
	if err := json.Unmarshal(out, &outputs); err != nil {
		t.Fatal(err)
	}
	values := map[string]any{}
	for name, output := range outputs {
		values[name] = output.Value
	}
	return values
}

func texts(list any) []string {
	var texts []string
	for _, item := range list.([]any) {
		texts = append(texts, fmt.Sprint(item))
	}
	return texts
}

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// change is a planned change of a resource.
type change struct {
	Address string `json:"address"`
	Change  struct {
		Actions []string `json:"actions"`
	} `json:"change"`
}

// has reports whether the change has an action: create, update, delete or forget.
func (c change) has(action string) bool { return slices.Contains(c.Change.Actions, action) }

// plan creates a plan in a directory and returns its changes.
func (w *workspace) plan(ctx context.Context, dir string, fake *fakeAWS, args ...string) ([]change, error) {
	const file = "tested.tfplan"
	args = append([]string{"plan", "-input=false", "-no-color", "-out=" + file}, args...)
	if _, err := w.run(ctx, dir, fake.env(), args...); err != nil {
		return nil, errors.Join(err, fake.unexpectedCalls())
	}
	shown, err := w.run(ctx, dir, fake.env(), "show", "-json", file)
	if err != nil {
		return nil, err
	}
	var planned struct {
		Changes []change `json:"resource_changes"`
	}
	if err := json.Unmarshal([]byte(shown.stdout), &planned); err != nil {
		return nil, fmt.Errorf("reading the plan: %w", err)
	}
	return planned.Changes, nil
}

// with returns the addresses of the changes that have an action.
func with(action string, changes []change) []string {
	var addresses []string
	for _, c := range changes {
		if c.has(action) {
			addresses = append(addresses, c.Address)
		}
	}
	return addresses
}

// rootOf creates a root module from the files of a module, without some of them, next
// to the other modules, and initializes it.
func (w *workspace) rootOf(ctx context.Context, name, as string, files map[string]string, without ...string) (string, error) {
	dir := filepath.Join(w.copied, as)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("creating a root module: %w", err)
	}
	source, err := readTerraform(filepath.Join(w.copied, name))
	if err != nil {
		return "", err
	}
	for file, text := range source {
		if slices.Contains(without, file) {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, file), text, 0o600); err != nil {
			return "", fmt.Errorf("copying a module: %w", err)
		}
	}
	for file, text := range files {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			return "", fmt.Errorf("adding to a module: %w", err)
		}
	}
	return dir, w.init(ctx, dir)
}

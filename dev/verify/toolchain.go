package main

import (
	"errors"
	"fmt"
	"go/version"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// toolchains are the modules that select the toolchain. The workflows install that of the
// first. The go.mod files of third-party programs are part of the keys of their cache, so
// they do not name it.
var toolchains = []string{"go.mod", "api/go.mod", "dev/go.mod"}

// verifyGo checks that every module can be built with the Go of versions.mk, and that the
// modules with code of CAPT select it.
func verifyGo(versions []byte, root string) error {
	want, err := match(versions, `(?m)^GO_VERSION\s*:=\s*v(\S+)`)
	if err != nil {
		return errors.New("versions.mk: no GO_VERSION")
	}
	var errs []error
	for _, file := range toolchains {
		if _, err := os.Stat(filepath.Join(root, file)); err != nil {
			errs = append(errs, fmt.Errorf("reading a module: %w", err))
		}
	}
	walk := func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && slices.Contains([]string{".git", "testdata", "node_modules"}, entry.Name()), entry.IsDir() && path == filepath.Join(root, "bin"):
			return fs.SkipDir
		case entry.Name() != "go.mod" || entry.IsDir():
			return nil
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		errs = append(errs, verifyToolchain(path, filepath.ToSlash(name), want))
		return nil
	}
	if err := filepath.WalkDir(root, walk); err != nil {
		return fmt.Errorf("listing the modules: %w", err)
	}
	return errors.Join(errs...)
}

func verifyToolchain(path, name, want string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("reading a module: %w", err)
	}
	if required, err := match(text, `(?m)^go (\S+)`); err == nil && version.Compare("go"+required, "go"+want) > 0 {
		return fmt.Errorf("%s: requires Go %s, but versions.mk says %s", name, required, want)
	}
	// There may be none.
	selected, _ := match(text, `(?m)^toolchain go(\S+)`)
	if (selected != "" || slices.Contains(toolchains, name)) && selected != want {
		return fmt.Errorf("%s: toolchain is %q, but versions.mk says go%s", name, selected, want)
	}
	return nil
}

package validate

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// standardInput is the name by which standard input is asked for.
const standardInput = "-"

// Read reads the objects of files and of everything in directories; "-" is
// standard input. Its error is about files that cannot be read.
func Read(paths []string, stdin io.Reader) ([]*Object, []Finding, error) {
	var objects []*Object
	var findings []Finding
	read := func(name string, text []byte, named bool) {
		found, wrong := Parse(name, text, named)
		objects, findings = append(objects, found...), append(findings, wrong...)
	}
	for _, path := range paths {
		if path == standardInput {
			text, err := io.ReadAll(stdin)
			if err != nil {
				return nil, nil, fmt.Errorf("reading standard input: %w", err)
			}
			read("<stdin>", text, true)
			continue
		}
		files, named, err := list(path)
		if err != nil {
			return nil, nil, err
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				return nil, nil, fmt.Errorf("reading manifests: %w", err)
			}
			read(file, text, named)
		}
	}
	return objects, findings, nil
}

// manifests are the endings of files that are read in directories.
var manifests = []string{".yaml", ".yml", ".json"}

// list lists the files of a path. A path that is a file is named.
func list(path string) (files []string, named bool, err error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, fmt.Errorf("%s does not exist: give a file, a directory or - for standard input", path)
	}
	if err != nil {
		return nil, false, fmt.Errorf("reading manifests: %w", err)
	}
	if !info.IsDir() {
		return []string{path}, true, nil
	}
	err = filepath.WalkDir(path, func(file string, entry fs.DirEntry, err error) error {
		hidden := strings.HasPrefix(entry.Name(), ".") && file != path
		switch {
		case err != nil:
			return err
		case entry.IsDir() && hidden:
			return filepath.SkipDir
		case !entry.IsDir() && !hidden && slices.Contains(manifests, filepath.Ext(file)):
			files = append(files, file)
		}
		return nil
	})
	if err != nil {
		return nil, false, fmt.Errorf("reading manifests: %w", err)
	}
	if len(files) == 0 {
		return nil, false, fmt.Errorf("%s holds no .yaml, .yml or .json file: give a directory with manifests", path)
	}
	return files, false, nil
}

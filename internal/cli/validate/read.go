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

// standardInput is the path that means standard input.
const standardInput = "-"

// Read returns the objects of files and of all manifests in directories. The path "-" is
// standard input. It returns an error only if a file cannot be read.
func Read(paths []string, stdin io.Reader) ([]*Object, []Finding, error) {
	var objects []*Object
	var findings []Finding
	read := func(name string, text []byte, named bool) {
		found, problems := Parse(name, text, named)
		objects, findings = append(objects, found...), append(findings, problems...)
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

// extensions are the extensions of the files that are read in directories.
var extensions = []string{".yaml", ".yml", ".json"}

// list returns the files of a path. named reports whether the path itself is a file.
func list(path string) (files []string, named bool, err error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, fmt.Errorf("%s does not exist: pass a file, a directory or - for standard input", path)
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
		case !entry.IsDir() && !hidden && slices.Contains(extensions, filepath.Ext(file)):
			files = append(files, file)
		}
		return nil
	})
	if err != nil {
		return nil, false, fmt.Errorf("reading manifests: %w", err)
	}
	if len(files) == 0 {
		return nil, false, fmt.Errorf("%s contains no .yaml, .yml or .json files: pass a directory with manifests", path)
	}
	return files, false, nil
}

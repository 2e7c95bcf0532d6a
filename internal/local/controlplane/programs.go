package controlplane

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// findProgram looks in binDir, on PATH, beside this program and in parts/
// beside it.
func findProgram(name, binDir string) (string, error) {
	var looked []string
	if binDir != "" {
		looked = append(looked, binDir)
		if path := filepath.Join(binDir, name); isExecutable(path) {
			return path, nil
		}
	}
	looked = append(looked, "PATH")
	if path, err := exec.LookPath(name); err == nil {
		return filepath.Abs(path)
	}
	if self, err := os.Executable(); err == nil {
		if resolved, err := filepath.EvalSymlinks(self); err == nil {
			self = resolved
		}
		beside := filepath.Dir(self)
		for _, dir := range []string{beside, filepath.Join(beside, "parts")} {
			looked = append(looked, dir)
			if path := filepath.Join(dir, name); isExecutable(path) {
				return path, nil
			}
		}
	}
	return "", fmt.Errorf("no program %s in %s: put it there, or name its directory with --bin-dir", name, strings.Join(looked, ", "))
}

func isExecutable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0
}

package controlplane

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// findProgram searches binDir, PATH, the directory of this program and its
// subdirectory parts.
func findProgram(name, binDir string) (string, error) {
	var searched []string
	if binDir != "" {
		searched = append(searched, binDir)
		if path := filepath.Join(binDir, name); isExecutable(path) {
			return path, nil
		}
	}
	searched = append(searched, "PATH")
	if path, err := exec.LookPath(name); err == nil {
		return filepath.Abs(path)
	}
	if self, err := os.Executable(); err == nil {
		if resolved, err := filepath.EvalSymlinks(self); err == nil {
			self = resolved
		}
		own := filepath.Dir(self)
		for _, dir := range []string{own, filepath.Join(own, "parts")} {
			searched = append(searched, dir)
			if path := filepath.Join(dir, name); isExecutable(path) {
				return path, nil
			}
		}
	}
	return "", fmt.Errorf("program %s not found in %s: install it there, or pass its directory with --bin-dir", name, strings.Join(searched, ", "))
}

func isExecutable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0
}

package host

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/appthrust/capt/internal/message"
)

// WriteFile replaces a file atomically, so that a reader, or a start after a crash,
// never sees a part of it. It changes no other hard link to the old file, and does
// not create the directory.
func WriteFile(path string, content []byte, mode os.FileMode) error {
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-")
	if err != nil {
		return fmt.Errorf("writing %s: %w", filepath.Base(path), err)
	}
	_, err = file.Write(content)
	err = errors.Join(err, file.Chmod(mode), file.Close())
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		os.Remove(file.Name())
		return fmt.Errorf("writing %s: %w", filepath.Base(path), err)
	}
	return nil
}

// LogTail returns the last lines of a log, at most limit bytes, for an error
// message.
func LogTail(path string, limit int) string {
	content, err := os.ReadFile(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return "it has no log"
	case err != nil:
		return err.Error()
	}
	return message.Tail(string(content), limit)
}

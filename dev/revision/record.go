package revision

import (
	"encoding/json"
	"fmt"
	"os"
)

// RecordFile is the name of the file with a Record, beside what was built.
const RecordFile = "release.json"

// Record describes what images and the files of a release were built from.
type Record struct {
	// Version is the version with a leading v.
	Version string `json:"version"`
	// Commit has the suffix -dirty if the working tree differed from it.
	Commit string `json:"commit"`
	// Go is the version of the toolchain that built the images.
	Go string `json:"go,omitempty"`
	// Images maps the name of each image to its digest.
	Images map[string]string `json:"images,omitempty"`
}

// ReadRecord reads a record. The error is os.ErrNotExist if there is none.
func ReadRecord(path string) (Record, error) {
	var r Record
	text, err := os.ReadFile(path)
	if err != nil {
		return r, fmt.Errorf("reading the record of a build: %w", err)
	}
	if err := json.Unmarshal(text, &r); err != nil {
		return r, fmt.Errorf("parsing %s: %w", path, err)
	}
	return r, nil
}

// Write writes a record to a file.
func (r Record) Write(path string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the record of a build: %w", err)
	}
	if err := os.WriteFile(path, append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("writing the record of a build: %w", err)
	}
	return nil
}

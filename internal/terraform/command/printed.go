package command

import (
	"archive/zip"
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/appthrust/capt/internal/host"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/command/events"
)

// The tool prints its state if it can write it nowhere, for example because the disk
// is full. The stream of an apply has reserved space for it, and is kept until the
// state is saved.
const (
	applyStream = "apply.jsonl"
	// printedSuffix is the suffix of a stream that is kept beside the state file.
	printedSuffix = ".jsonl"
)

// minReserved is the space for the events of an apply, and for what it computes.
const minReserved = 8 << 20

// reserveFor returns the space that the stream of an apply needs.
func reserveFor(plan string) int64 {
	archive, err := zip.OpenReader(plan)
	if err != nil {
		// An encrypted plan is not compressed.
		info, err := os.Stat(plan)
		if err != nil {
			return minReserved
		}
		return minReserved + 16*info.Size()
	}
	defer archive.Close()
	size := int64(minReserved)
	for _, file := range archive.File {
		if file.Name == "tfplan" || file.Name == "tfstate" {
			size += 2 * int64(file.UncompressedSize64)
		}
	}
	return size
}

// createStateFiles creates the files to which the tool writes its state, because it
// ignores that it cannot create them. The result removes what was not used.
func (s *Session) createStateFiles() (removeUnused func(), err error) {
	paths := []string{filepath.Join(s.Root, erroredState)}
	if s.backend.Type == terraform.BackendKubernetes {
		paths = append(paths, s.StateFile())
	}
	for _, path := range paths {
		file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, fmt.Errorf("creating the state file: %w", err)
		}
		if err := file.Close(); err != nil {
			return nil, fmt.Errorf("creating the state file: %w", err)
		}
	}
	return func() {
		for _, path := range paths {
			if info, err := os.Stat(path); err == nil && info.Size() == 0 {
				_ = os.Remove(path)
			}
		}
	}, nil
}

// PrintedState returns the state that the last apply printed, or nil.
func (s *workingDir) PrintedState() ([]byte, error) {
	return printedState(s.dir(), filepath.Join(s.RunDir, applyStream))
}

// printedState returns the last state in a stream of events, or nil.
func printedState(dir, stream string) ([]byte, error) {
	file, err := openInside(dir, stream, os.O_RDONLY)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading a printed state: %w", err)
	}
	defer file.Close()
	var state []byte
	for reader := bufio.NewReaderSize(file, 64<<10); ; {
		line, err := reader.ReadBytes('\n')
		if printed := stateIn(line); printed != nil {
			state = printed
		}
		if errors.Is(err, io.EOF) {
			return state, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading a printed state: %w", err)
		}
	}
}

// stateIn returns the state in an event, or nil.
func stateIn(line []byte) []byte {
	if !bytes.Contains(line, []byte(`"state"`)) {
		return nil
	}
	event, ok := events.Parse(bytes.TrimSpace(line))
	if !ok || event.Type != events.TypeLog || len(event.State) == 0 || event.State[0] != '{' {
		return nil
	}
	return event.State
}

// keepPrinted moves the stream of a run to the state file if it contains a state.
// Moving needs no space.
func (w *Workdir) keepPrinted() error {
	stream := filepath.Join(w.runDir(), applyStream)
	printed, err := printedState(w.Dir, stream)
	if err != nil || printed == nil {
		return err
	}
	previous, err := readMarker(w.Dir)
	if err != nil {
		return err
	}
	if err := os.Rename(stream, filepath.Join(w.Dir, previous.Root, stateFileName)+printedSuffix); err != nil {
		return fmt.Errorf("keeping a printed state: %w", err)
	}
	return nil
}

// reservedBases is the space for the digests of saved states.
const reservedBases = 256 << 10

// writeBase starts the list of the states that the state file is based on.
func (s *workingDir) writeBase(saved []byte) error {
	path := s.StateFile() + baseSuffix
	if err := writeFile(path, digestLine(saved)); err != nil {
		return err
	}
	file, err := openInside(s.dir(), path, os.O_WRONLY)
	if err != nil {
		return fmt.Errorf("recording the saved state: %w", err)
	}
	return errors.Join(host.Reserve(file, reservedBases), file.Close())
}

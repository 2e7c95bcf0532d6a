package command

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/appthrust/capt/internal/host"
	"github.com/appthrust/capt/internal/terraform/statefile"
)

const (
	// erroredState is the file in which the tool saves a state that it could not
	// write to the backend.
	erroredState = "errored.tfstate"
	// backupSuffix is the suffix of the copy that the tool makes of a state file.
	backupSuffix = ".backup"
	// baseSuffix is the suffix of the file with the digests of the saved states that
	// a state file is based on.
	baseSuffix = ".base"
)

// Reopen returns a session for the state file of a working directory that an earlier
// runner prepared. It cannot run commands.
func Reopen(w *Workdir) (*Session, error) {
	if err := removeLinks(w.Dir); err != nil {
		return nil, err
	}
	previous, err := readMarker(w.Dir)
	if err != nil {
		return nil, err
	}
	return &Session{executor: executor{workingDir: workingDir{Root: filepath.Join(w.Dir, previous.Root), RunDir: w.runDir()}}}, nil
}

// StateFile returns the path of the state file of the Kubernetes backend.
func (s *workingDir) StateFile() string { return filepath.Join(s.Root, stateFileName) }

// WriteState writes the state file of the Kubernetes backend from the saved state.
// It removes the file if there is no state.
func (s *workingDir) WriteState(saved []byte) error {
	// The file must never exist with a wrong base.
	if err := s.RemoveState(); err != nil {
		return err
	}
	if err := s.writeBase(saved); err != nil {
		return err
	}
	if len(saved) == 0 {
		return nil
	}
	return writeFile(s.StateFile(), saved)
}

// ReplaceState replaces the state file of the Kubernetes backend. It is based on the
// same saved states.
func (s *workingDir) ReplaceState(state []byte) error { return writeFile(s.StateFile(), state) }

// RemoveState removes the state file of the Kubernetes backend.
func (s *workingDir) RemoveState() error { return UnsavedState{Path: s.StateFile()}.Remove() }

// AddBase records that a version of the state file is about to be saved.
func (s *workingDir) AddBase(saved []byte) error {
	file, err := openInside(s.dir(), s.StateFile()+baseSuffix, os.O_APPEND|os.O_CREATE|os.O_WRONLY)
	if err != nil {
		return fmt.Errorf("recording the saved state: %w", err)
	}
	_, err = file.Write(digestLine(saved))
	if err = errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("recording the saved state: %w", err)
	}
	return nil
}

// Bases returns the digests of the saved states that the state file is based on. They are
// unknown if they could not be written.
func (s *workingDir) Bases() (string, error) { return readBases(s.dir(), s.StateFile()) }

func readBases(dir, state string) (string, error) {
	bases, err := readInside(dir, state+baseSuffix)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("reading the bases of a state: %w", err)
	}
	return string(bases), nil
}

// BaseOf returns the digest of a saved state, as Bases has it.
func BaseOf(saved []byte) string { return string(digestLine(saved)) }

func digestLine(state []byte) []byte { return []byte(digest(state) + "\n") }

// UnsavedState is a state that an earlier run may not have saved: a state file that a
// killed runner left, or a state that the tool could not write to the backend, or only
// print.
type UnsavedState struct {
	Path    string
	Content []byte
	// stream is the stream of the run if the tool printed the state into it.
	stream string
	// Bases are the digests of the saved states that the file is based on. They are
	// unknown for a state that the tool could not write.
	Bases string
}

// Continues reports whether the state is based on the saved state, so that it may
// replace it.
func (u UnsavedState) Continues(saved []byte) bool {
	if u.Bases != "" {
		return strings.Contains(u.Bases, digest(saved))
	}
	return statefile.IsLater(u.Content, saved)
}

// Remove removes the files of the state.
func (u UnsavedState) Remove() error {
	for _, path := range []string{u.stream, u.Path + printedSuffix, u.Path, u.Path + baseSuffix} {
		if path == "" {
			continue
		}
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("removing an unsaved state: %w", err)
		}
	}
	return nil
}

// ownerFile contains the UID of the workspace whose runs used a working directory.
const ownerFile = "workspace"

// Owner returns the UID of the workspace whose runs used the working directory, or an
// empty string if it is unknown.
func (w *Workdir) Owner() string { return readLine(filepath.Join(w.Dir, ownerFile)) }

// SetOwner records the workspace that uses the working directory. What an earlier
// workspace of the same name left must have been removed.
func (w *Workdir) SetOwner(uid string) error {
	if uid == "" || w.Owner() == uid {
		return nil
	}
	return host.WriteFile(filepath.Join(w.Dir, ownerFile), []byte(uid+"\n"), 0o600)
}

// noOwner is the content of ownerFile if the next workspace may continue a state in the
// working directory.
const noOwner = "retained"

// Release leaves the working directory of a workspace to the next one.
func (w *Workdir) Release(uid string) error {
	if uid == "" || w.Owner() != uid {
		return nil
	}
	return host.WriteFile(filepath.Join(w.Dir, ownerFile), []byte(noOwner+"\n"), 0o600)
}

// OwnedBy reports whether the states in the working directory are those of a workspace.
func (w *Workdir) OwnedBy(uid string) bool {
	owner := w.Owner()
	return uid != "" && (owner == uid || owner == noOwner)
}

// UsedByAnother reports whether runs of another workspace used the working directory last.
func (w *Workdir) UsedByAnother(uid string) bool {
	owner := w.Owner()
	return uid != "" && owner != "" && owner != noOwner && owner != uid
}

// UnsavedStates returns the unsaved states in a working directory, oldest first.
func UnsavedStates(dir string) ([]UnsavedState, error) {
	if err := removeLinks(dir); err != nil {
		return nil, err
	}
	paths, err := rescuedFiles(dir)
	if err != nil {
		return nil, err
	}
	previous, err := readMarker(dir)
	if err != nil {
		return nil, err
	}
	current := filepath.Join(dir, previous.Root, stateFileName)
	paths = append(paths, current, filepath.Join(dir, previous.Root, erroredState))
	var unsaved []UnsavedState
	for _, path := range paths {
		stream := ""
		if path == current {
			stream = filepath.Join((&Workdir{Dir: dir}).runDir(), applyStream)
		}
		state, err := readUnsaved(dir, path, stream)
		if err != nil {
			return nil, err
		}
		if len(state.Content) > 0 {
			unsaved = append(unsaved, state)
		}
	}
	return unsaved, nil
}

// rescuedFiles returns the paths of the states that were moved out of a module.
func rescuedFiles(dir string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "rescued-*.tfstate*"))
	if err != nil {
		return nil, fmt.Errorf("listing unsaved states: %w", err)
	}
	for i, file := range files {
		files[i] = strings.TrimSuffix(strings.TrimSuffix(file, baseSuffix), printedSuffix)
	}
	slices.Sort(files)
	return slices.Compact(files), nil
}

// readUnsaved reads the state of a file. What the tool printed is newer.
func readUnsaved(dir, path, stream string) (UnsavedState, error) {
	state := UnsavedState{Path: path}
	for _, printed := range []string{stream, path + printedSuffix} {
		if printed == "" {
			continue
		}
		content, err := printedState(dir, printed)
		if err != nil {
			return state, err
		}
		if content != nil {
			state.Content = content
			break
		}
	}
	if state.Content == nil {
		content, err := readInside(dir, path)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return state, fmt.Errorf("reading an unsaved state: %w", err)
		}
		state.Content = content
	} else {
		state.stream = stream
	}
	var err error
	state.Bases, err = readBases(dir, path)
	return state, err
}

// rescue moves the files of unsaved states out of the module, so that the module
// can be replaced.
func rescue(dir, root string) error {
	for _, name := range []string{stateFileName, erroredState} {
		from := filepath.Join(root, name)
		if info, err := os.Stat(from); err == nil && info.Size() == 0 {
			// The tool was killed before it wrote its state.
			if err := os.Remove(from); err != nil {
				return fmt.Errorf("removing an empty state file: %w", err)
			}
		}
		to := filepath.Join(dir, fmt.Sprintf("rescued-%d.tfstate", time.Now().UnixNano()))
		for _, suffix := range []string{baseSuffix, printedSuffix, ""} {
			if err := os.Rename(from+suffix, to+suffix); err != nil && !errors.Is(err, os.ErrNotExist) {
				return fmt.Errorf("moving an unsaved state: %w", err)
			}
		}
	}
	return nil
}

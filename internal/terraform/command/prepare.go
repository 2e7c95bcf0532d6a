// Package command runs OpenTofu or Terraform, called the tool: it prepares working
// directories, runs the binary in them and reads its output.
package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/command/binary"
	"github.com/appthrust/capt/internal/terraform/command/events"
)

const (
	// dataDir is the tool's data directory in a root module.
	dataDir = ".terraform"
	// dependencyLock is the dependency lock file, which records the selected
	// providers.
	dependencyLock = ".terraform.lock.hcl"
)

// backendRecord is the tool's record of the backend that an init configured.
var backendRecord = filepath.Join(dataDir, "terraform.tfstate")

// Workdir configures where and how a workspace's commands run.
type Workdir struct {
	Tool *binary.Tool
	// Dir is the workspace's own directory. It may be empty or missing. Existing
	// content makes the run faster.
	Dir string
	// Cache is shared by workspaces: they reuse the result of an init. If empty,
	// nothing is shared.
	Cache string
	// PluginCache is the cache of downloaded providers for requests that use it.
	PluginCache string
	// Providers is a directory with installed providers, which requests that use the
	// cache do not download. It may be empty.
	Providers string
	// CLIConfig is the operator's CLI configuration file. It may be empty.
	CLIConfig string
	// Inherit names variables of the engine's environment that the tool inherits,
	// such as those of a service account's cloud identity. A trailing * matches a
	// prefix.
	Inherit []string
	// Hidden are files and directories that the tool must not use, if this system has a
	// sandbox. If empty, the tool has none.
	Hidden []string
	// NoLock is set if commands only read the state and do not lock it.
	NoLock bool
	// Others reports whether a process of an earlier engine exists that may start the
	// tool, or that works in the directory. It may be nil.
	Others func() (bool, error)
	// Archive returns the stored content of a module, or nil if it is not stored any
	// more. It may be nil.
	Archive func(ctx context.Context, name string) ([]byte, error)
	// Log receives the human-readable log.
	Log io.Writer
	// OnEvent is called with every event when it occurs.
	OnEvent func(events.Event)
}

func (w *Workdir) runDir() string    { return filepath.Join(w.Dir, "run") }
func (w *Workdir) homeDir() string   { return filepath.Join(w.runDir(), "home") }
func (w *Workdir) moduleDir() string { return filepath.Join(w.Dir, "module") }

// PlanFile returns the path of a run's saved plan.
func (w *Workdir) PlanFile() string { return filepath.Join(w.runDir(), "plan.out") }

// PatienceOf returns how long a run waits for the tool that an earlier one left: as long as that
// may take, unless the resources are to be destroyed.
func PatienceOf(request *terraform.Request) binary.Patience {
	patience := binary.Patience{Limit: request.Limit(), Grace: request.Grace}
	if request.Operation.Destroys() || request.Operation == terraform.OperationSaveState {
		patience.Limit = 0
	}
	return patience
}

// Prepare prepares the working directory for the request's commands. It runs an
// init only if the inputs of the init have changed. It waits for the end of a
// process that an earlier engine left in the directory.
func Prepare(ctx context.Context, w *Workdir, request *terraform.Request) (*Session, error) {
	if err := os.MkdirAll(w.runDir(), 0o700); err != nil {
		return nil, fmt.Errorf("creating the working directory: %w", err)
	}
	if err := w.Tool.AwaitEnd(ctx, w.Dir, w.Others, PatienceOf(request)); err != nil {
		return nil, err
	}
	if err := removeLinks(w.Dir); err != nil {
		return nil, err
	}
	if err := w.keepPrinted(); err != nil {
		return nil, err
	}
	// The output of an earlier run must not be taken for that of this one.
	if err := errors.Join(RemoveAll(w.runDir()), os.MkdirAll(w.homeDir(), 0o700)); err != nil {
		return nil, fmt.Errorf("clearing the directory of the run: %w", err)
	}
	key, err := w.key(request)
	if err != nil {
		return nil, err
	}
	previous, err := readMarker(w.Dir)
	if err != nil {
		return nil, err
	}
	if !previous.fits(key, filepath.Join(w.Dir, previous.Root), request) || request.Module.Refetch && previous.mayChange() {
		return w.prepareCold(ctx, request, key, previous)
	}
	return w.finish(request, previous, false)
}

// prepareCold replaces the module, from the shared cache if possible.
func (w *Workdir) prepareCold(ctx context.Context, request *terraform.Request, key string, previous marker) (*Session, error) {
	if err := w.clear(previous); err != nil {
		return nil, err
	}
	// Others must not get what they cannot fetch themselves.
	_, isLocal := w.localPath(request.Backend)
	shared := w.Cache != "" && isPinned(request.Module) && len(request.Module.Auth) == 0 && isLocal
	if shared {
		unlock, err := lockFile(ctx, w.templateLock(key))
		if err != nil {
			return nil, err
		}
		defer unlock()
		if !request.Module.Refetch {
			if found, err := w.fromTemplate(key, request); err != nil {
				return nil, err
			} else if found != nil {
				return w.finish(request, *found, false)
			}
		}
	}
	content, err := w.placeModule(ctx, request)
	if err != nil {
		return nil, err
	}
	prepared := marker{Key: key, Root: filepath.Join("module", content.root)}
	session, err := w.initialise(ctx, request, filepath.Join(w.Dir, prepared.Root))
	if err != nil {
		return nil, err
	}
	prepared.Product, prepared.OwnLock = session.used.Product, session.ownLock
	if prepared.Content, err = w.recordContent(request, content); err != nil {
		return nil, err
	}
	// Pinned content may be older than what other workspaces should get.
	if shared && content.pinned == nil {
		if err := w.toTemplate(prepared, request); err != nil {
			return nil, err
		}
	}
	return w.finish(request, prepared, true)
}

// initialise runs the init of a new module.
func (w *Workdir) initialise(ctx context.Context, request *terraform.Request, root string) (*Session, error) {
	if err := w.place(request, root, marker{}); err != nil {
		return nil, err
	}
	// A lock file of the module is the choice of its author.
	ownLock := exists(filepath.Join(root, dependencyLock))
	if len(request.LockFile) > 0 && !ownLock {
		if err := writeFile(filepath.Join(root, dependencyLock), request.LockFile); err != nil {
			return nil, err
		}
	}
	// Without the record the init does not connect to the backend, and its result
	// is the same for every workspace.
	_, isLocal := w.localPath(request.Backend)
	if isLocal {
		if err := os.RemoveAll(filepath.Join(root, backendRecord)); err != nil {
			return nil, fmt.Errorf("clearing the backend's record: %w", err)
		}
	}
	session, err := w.session(request, root)
	if err != nil {
		return nil, err
	}
	session.ownLock = ownLock
	if err := session.Init(ctx, InitOptions{Args: initArgs(request), Backend: !isLocal}); err != nil {
		return nil, err
	}
	return session, nil
}

// finish writes the files that are specific to this workspace and marks the
// directory as prepared.
func (w *Workdir) finish(request *terraform.Request, prepared marker, initialised bool) (*Session, error) {
	root := filepath.Join(w.Dir, prepared.Root)
	if err := w.place(request, root, prepared); err != nil {
		return nil, err
	}
	session, err := w.readySession(request, root)
	if err != nil {
		return nil, err
	}
	session.used.Product, session.ownLock, session.Content = prepared.Product, prepared.OwnLock, prepared.Content
	session.initRan = initialised
	if initialised {
		// The modules are fetched. Code of them may wait for the credentials of another
		// download.
		session.auth = nil
	}
	prepared.Files = slices.Sorted(maps.Keys(request.Files))
	return session, prepared.write(w.Dir)
}

// clear removes the module and everything that belongs to it, except states that
// are not saved.
func (w *Workdir) clear(previous marker) error {
	if err := rescue(w.Dir, filepath.Join(w.Dir, previous.Root)); err != nil {
		return err
	}
	for _, path := range []string{filepath.Join(w.Dir, markerFile), w.moduleDir(), w.ArchiveFile()} {
		if err := os.RemoveAll(path); err != nil {
			return fmt.Errorf("clearing the working directory: %w", err)
		}
	}
	if err := os.MkdirAll(w.moduleDir(), 0o700); err != nil {
		return fmt.Errorf("creating the module's directory: %w", err)
	}
	return nil
}

// place writes the request's files, variables and backend into the module, and
// removes the files of the previous request.
func (w *Workdir) place(request *terraform.Request, root string, previous marker) error {
	// A plan that was killed left it.
	if err := os.RemoveAll(filepath.Join(root, importsFile)); err != nil {
		return fmt.Errorf("removing %s: %w", importsFile, err)
	}
	for _, name := range previous.Files {
		if _, found := request.Files[name]; !found {
			if err := os.RemoveAll(filepath.Join(root, filepath.FromSlash(name))); err != nil {
				return fmt.Errorf("removing %s: %w", name, err)
			}
		}
	}
	if err := placeFiles(root, request.Files, func(string) bool { return true }); err != nil {
		return err
	}
	if err := placeVariables(root, request); err != nil {
		return err
	}
	return w.writeBackend(root, request.Backend)
}

// session returns a session that does not reinitialise the directory.
func (w *Workdir) session(request *terraform.Request, root string) (*Session, error) {
	cliConfig, err := w.cliConfig(request, root)
	if err != nil {
		return nil, err
	}
	return &Session{
		executor: executor{
			workingDir: workingDir{Root: root, RunDir: w.runDir()},
			tool:       w.Tool, env: w.environment(request, root, cliConfig), grace: request.Grace,
			log: newRunLog(w.Log, request.Redactor()), short: request.ShortSecrets(), onEvent: w.OnEvent,
			auth: request.Module.Auth, plugins: w.pluginCache(request), sandbox: w.sandbox(),
		},
		backend: request.Backend, noLock: w.NoLock, providers: w.Providers,
	}, nil
}

// readySession returns a session that reinitialises the directory if a command
// requires it.
func (w *Workdir) readySession(request *terraform.Request, root string) (*Session, error) {
	session, err := w.session(request, root)
	if err != nil {
		return nil, err
	}
	_, isLocal := w.localPath(request.Backend)
	_, encrypted := request.Env["TF_ENCRYPTION"]
	encrypted = encrypted || request.Encryption != ""
	session.reinit = func(ctx context.Context, backend bool) error {
		// With the record, an init reads the state without initialising the backend
		// and also installs the providers of the state. That does not work with an
		// encrypted state.
		full := !isLocal || backend || encrypted
		return session.Init(ctx, InitOptions{Args: initArgs(request), Backend: full})
	}
	return session, nil
}

// clearRunDir removes the files of the run. It keeps a state that the tool printed.
func (w *Workdir) clearRunDir() error {
	kept := w.keepPrinted()
	entries, err := os.ReadDir(w.runDir())
	if errors.Is(err, os.ErrNotExist) {
		return kept
	}
	errs := []error{kept, err}
	for _, entry := range entries {
		if kept == nil || entry.Name() != applyStream {
			errs = append(errs, RemoveAll(filepath.Join(w.runDir(), entry.Name())))
		}
	}
	if kept == nil {
		errs = append(errs, os.RemoveAll(w.runDir()))
	}
	return errors.Join(errs...)
}

// Scrub removes all secrets that a run leaves in the working directory: files,
// plans and event streams. It keeps what makes the next run faster, and states
// that are not saved. It does nothing while another runner works in the directory.
func (w *Workdir) Scrub() error {
	if w.Others != nil {
		if others, err := w.Others(); others || err != nil {
			return err
		}
	}
	if w.Tool != nil && len(w.Tool.Running(w.Dir)) > 0 {
		// A tool of an earlier run uses the files. Its interrupt must not be forgotten,
		// because it aborts after a second one.
		return nil
	}
	if err := removeLinks(w.Dir); err != nil {
		return err
	}
	previous, err := readMarker(w.Dir)
	if err != nil {
		return err
	}
	root := filepath.Join(w.Dir, previous.Root)
	errs := []error{w.clearRunDir(), os.RemoveAll(filepath.Join(root, stateFileName+backupSuffix)), os.RemoveAll(filepath.Join(root, variablesFile))}
	leftovers, err := filepath.Glob(filepath.Join(root, "."+terraform.ReservedFilePrefix+"*"))
	errs = append(errs, err)
	for _, path := range leftovers {
		errs = append(errs, os.RemoveAll(path))
	}
	for _, name := range previous.Files {
		if previous.Root != "" && !isConfig(name) {
			errs = append(errs, os.RemoveAll(filepath.Join(root, filepath.FromSlash(name))))
		}
	}
	return errors.Join(errs...)
}

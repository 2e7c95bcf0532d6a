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
)

const (
	// dataDir is the tool's own directory in a root module.
	dataDir = ".terraform"
	// dependencyLock records the chosen providers.
	dependencyLock = ".terraform.lock.hcl"
)

// backendRecord is what the tool knows of the backend it was set up with.
var backendRecord = filepath.Join(dataDir, "terraform.tfstate")

// Workdir is where and how a workspace's commands run.
type Workdir struct {
	Tool *Tool
	// Dir is the workspace's own directory. It may be empty or gone; what is
	// found in it makes the run faster.
	Dir string
	// Cache is shared by workspaces: what an init of one leaves there spares
	// others theirs. Nothing is shared when empty.
	Cache string
	// PluginCache holds downloaded providers for requests that want that.
	PluginCache string
	// CLIConfig is the operator's CLI configuration file.
	CLIConfig string
	// Kubeconfig is how the Kubernetes backend reaches the API server, with
	// everything embedded; from inside the cluster when empty.
	Kubeconfig []byte
	// Inherit names variables of the engine's environment that the tool gets,
	// such as those of a service account's cloud identity; * ends a prefix.
	Inherit []string
	// Lock has the tool take the lock of a Kubernetes state itself.
	Lock bool
	// Log gets what happens, for people to read.
	Log io.Writer
	// OnEvent is called with every event as it comes.
	OnEvent func(Event)
}

func (w *Workdir) runDir() string    { return filepath.Join(w.Dir, "run") }
func (w *Workdir) moduleDir() string { return filepath.Join(w.Dir, "module") }

// PlanFile is where the plan of a run is kept.
func (w *Workdir) PlanFile() string { return filepath.Join(w.runDir(), "plan.out") }

// Prepare makes the working directory ready for the request's commands. An
// init is run only when what it depends on has changed. It waits for the end
// of a process that an earlier engine left behind in the directory.
func Prepare(ctx context.Context, w *Workdir, request *terraform.Request) (*Session, error) {
	if err := os.MkdirAll(w.runDir(), 0o700); err != nil {
		return nil, fmt.Errorf("creating the working directory: %w", err)
	}
	if err := w.Tool.AwaitEnd(ctx, w.Dir, request.Grace); err != nil {
		return nil, err
	}
	key, err := w.key(request)
	if err != nil {
		return nil, err
	}
	kept, err := readMarker(w.Dir)
	if err != nil {
		return nil, err
	}
	if request.Module.Refetch || !kept.fits(key, filepath.Join(w.Dir, kept.Root), request.LockFile) {
		return w.prepareCold(ctx, request, key, kept)
	}
	return w.finish(request, kept, nil)
}

// prepareCold replaces the module, from the shared cache if it has it.
func (w *Workdir) prepareCold(ctx context.Context, request *terraform.Request, key string, kept marker) (*Session, error) {
	if err := w.clear(kept); err != nil {
		return nil, err
	}
	shared := w.Cache != "" && isPinned(request.Module) && w.knownBackend(request.Backend) != nil
	if shared {
		unlock, err := lockFile(ctx, w.templateLock(key))
		if err != nil {
			return nil, err
		}
		defer unlock()
		if !request.Module.Refetch {
			if found, err := w.fromTemplate(key, request.LockFile); err != nil {
				return nil, err
			} else if found != nil {
				return w.finish(request, *found, nil)
			}
		}
	}
	root, err := w.placeModule(ctx, request, w.moduleDir())
	if err != nil {
		return nil, err
	}
	done := marker{Key: key, Root: filepath.Join("module", root)}
	if err := w.setAsideVars(filepath.Join(w.Dir, done.Root)); err != nil {
		return nil, err
	}
	session, err := w.initialise(ctx, request, filepath.Join(w.Dir, done.Root))
	if err != nil {
		return nil, err
	}
	done.Product = session.product
	if shared {
		if err := w.toTemplate(done, request); err != nil {
			return nil, err
		}
	}
	return w.finish(request, done, session)
}

// initialise runs the init of a module that was just placed.
func (w *Workdir) initialise(ctx context.Context, request *terraform.Request, root string) (*Session, error) {
	if err := w.place(request, root, marker{}); err != nil {
		return nil, err
	}
	if len(request.LockFile) > 0 {
		if err := writeFile(filepath.Join(root, dependencyLock), request.LockFile); err != nil {
			return nil, err
		}
	}
	// Without its record the backend is not contacted, and what the init
	// leaves is the same for every workspace.
	known := w.knownBackend(request.Backend) != nil
	if known {
		if err := os.RemoveAll(filepath.Join(root, backendRecord)); err != nil {
			return nil, fmt.Errorf("clearing the backend's record: %w", err)
		}
	}
	session, err := w.session(request, root)
	if err != nil {
		return nil, err
	}
	if err := session.Init(ctx, InitOptions{Args: request.InitArgs, Backend: !known}); err != nil {
		return nil, err
	}
	session.InitRan, session.InitReason = true, "new or changed module"
	return session, nil
}

// finish places what belongs to this workspace alone and marks the directory
// as prepared.
func (w *Workdir) finish(request *terraform.Request, done marker, initialised *Session) (*Session, error) {
	if err := checkEnvironment(request, done.Product); err != nil {
		return nil, err
	}
	root := filepath.Join(w.Dir, done.Root)
	if err := w.place(request, root, done); err != nil {
		return nil, err
	}
	session, err := w.readySession(request, root)
	if err != nil {
		return nil, err
	}
	session.product = done.Product
	if initialised != nil {
		session.InitRan, session.InitReason = true, initialised.InitReason
	}
	done.Files = fileNames(request)
	return session, done.write(w.Dir)
}

// clear removes the module and what belongs to it. A state that could not be
// saved is kept.
func (w *Workdir) clear(kept marker) error {
	if err := rescue(w.Dir, filepath.Join(w.Dir, kept.Root)); err != nil {
		return err
	}
	for _, path := range []string{filepath.Join(w.Dir, markerFile), w.moduleDir(), filepath.Join(w.Dir, tfvarsDir)} {
		if err := os.RemoveAll(path); err != nil {
			return fmt.Errorf("clearing the working directory: %w", err)
		}
	}
	if err := os.MkdirAll(w.moduleDir(), 0o700); err != nil {
		return fmt.Errorf("creating the module's directory: %w", err)
	}
	return nil
}

// place writes the request's files, variables and backend into the module and
// removes files of an earlier request.
func (w *Workdir) place(request *terraform.Request, root string, earlier marker) error {
	for _, name := range earlier.Files {
		if _, still := request.Files[name]; !still {
			if err := os.RemoveAll(filepath.Join(root, filepath.FromSlash(name))); err != nil {
				return fmt.Errorf("removing %s: %w", name, err)
			}
		}
	}
	if err := placeFiles(root, request.Files, func(string) bool { return true }); err != nil {
		return err
	}
	if err := w.placeVars(root, request.Env); err != nil {
		return err
	}
	return w.writeBackend(root, request.Backend, earlier.Product)
}

func fileNames(request *terraform.Request) []string {
	return slices.Sorted(maps.Keys(request.Files))
}

// session makes a session that does not repair the directory by itself.
func (w *Workdir) session(request *terraform.Request, root string) (*Session, error) {
	cliConfig, err := w.cliConfig(request, root)
	if err != nil {
		return nil, err
	}
	return &Session{
		Root:    root,
		RunDir:  w.runDir(),
		tool:    w.Tool,
		env:     w.environment(request, root, cliConfig),
		grace:   request.Grace,
		log:     newRunLog(w.Log, request.Secrets()),
		onEvent: w.OnEvent,
		lock:    w.Lock,
		backend: request.Backend,
		plugins: w.pluginCache(request),
	}, nil
}

func (w *Workdir) readySession(request *terraform.Request, root string) (*Session, error) {
	session, err := w.session(request, root)
	if err != nil {
		return nil, err
	}
	known := w.knownBackend(request.Backend) != nil
	_, encrypted := request.Env["TF_ENCRYPTION"]
	encrypted = encrypted || request.Encryption != ""
	session.reinit = func(ctx context.Context, backend bool) error {
		// With its record the backend is read without being set up again, and
		// the providers of what is in the state are installed too. That does
		// not work for an encrypted state.
		full := !known || backend || encrypted
		return session.Init(ctx, InitOptions{Args: request.InitArgs, Backend: full})
	}
	return session, nil
}

// Scrub removes everything secret that a run leaves in the working directory:
// files, plans and event streams. What makes the next run faster stays.
func (w *Workdir) Scrub() error {
	kept, err := readMarker(w.Dir)
	if err != nil {
		return err
	}
	root := filepath.Join(w.Dir, kept.Root)
	errs := []error{os.RemoveAll(w.runDir()), os.RemoveAll(filepath.Join(root, kubeconfigFile))}
	for _, name := range kept.Files {
		if kept.Root != "" && !isConfig(name) {
			errs = append(errs, os.RemoveAll(filepath.Join(root, filepath.FromSlash(name))))
		}
	}
	return errors.Join(errs...)
}

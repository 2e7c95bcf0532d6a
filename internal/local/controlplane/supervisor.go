package controlplane

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/appthrust/capt/internal/host"
)

const (
	// supervisorLog is the name of the supervisor's log.
	supervisorLog = "supervisor"
	// supervisorEnv is a variable with the directory in a supervisor's environment.
	supervisorEnv = "LOCALCLUSTER_SUPERVISES"
	// checkInterval is how often the supervisor checks its directory.
	checkInterval = 200 * time.Millisecond
	// lockTimeout is how long the processes of the previous supervisor may take to
	// exit.
	lockTimeout  = 15 * time.Second
	probeTimeout = 15 * time.Second
)

// errRemoved means that the directory was removed or replaced by another.
var errRemoved = errors.New("the directory was removed")

// supervisor runs the programs of a directory.
type supervisor struct {
	layout
	lock   *host.FileLock
	self   Process
	ports  *ports
	client *http.Client
	log    *slog.Logger
	// launch passes functions to the thread that starts all programs. That thread
	// must run as long as the supervisor: the kernel kills a child when the thread
	// that started it ends.
	launch chan func()
	// killAtOnce makes programs be killed without a grace period, because there is
	// no data to save.
	killAtOnce atomic.Bool
	// changed receives a value when the status has changed.
	changed chan struct{}

	// recorded is the last content of the status file.
	recorded []byte

	// stopWatch stops the watch of Deployments. It is nil if there is none.
	stopWatch func()

	mu        sync.Mutex
	requestID string
	children  []*child
	// server is the URL of the API server. binDir is searched for the programs of
	// workloads, and paths are those already found.
	server, binDir string
	paths          map[string]string
	// workloads run for deployments, the observed Deployments with a known program.
	// deploymentsChanged is set until the workloads match them.
	workloads          []*child
	deployments        []*appsv1.Deployment
	deploymentsChanged bool
}

// Supervise runs the control plane of a directory until ctx ends, and then stops it in
// order. It applies changes of the spec, and returns an error when the directory is
// removed. A directory has at most one supervisor: a second one returns an error.
func Supervise(ctx context.Context, dir string) error {
	l := layout(dir)
	waiting, cancel := context.WithTimeout(ctx, lockTimeout)
	defer cancel()
	held, err := host.LockFile(waiting, l.supervisorLock())
	if err != nil {
		return fmt.Errorf("another supervisor or its processes are running in the directory: %w", err)
	}
	defer held.Release()
	if !held.Current() {
		return errRemoved
	}

	s := &supervisor{
		layout: l, lock: held, log: slog.New(slog.NewTextHandler(os.Stderr, nil)),
		launch: make(chan func()), changed: make(chan struct{}, 1),
	}
	if err := s.prepare(ctx); err != nil {
		return err
	}
	go s.launchAll()
	err = s.run(ctx)
	s.log.Info("Stopping", "reason", err)
	s.killAtOnce.Store(errors.Is(err, errRemoved))
	s.endWatch()
	s.stop(s.all())
	if errors.Is(err, context.Canceled) {
		s.record()
		return nil
	}
	return err
}

// prepare creates the files that the parts need and records this supervisor.
func (s *supervisor) prepare(ctx context.Context) error {
	var err error
	if s.self, err = self(); err != nil {
		return err
	}
	identity, err := json.Marshal(s.self)
	if err != nil {
		return fmt.Errorf("encoding the identity: %w", err)
	}
	if err := s.lock.File.Truncate(0); err != nil {
		return fmt.Errorf("writing the identity: %w", err)
	}
	if _, err := s.lock.File.WriteAt(identity, 0); err != nil {
		return fmt.Errorf("writing the identity: %w", err)
	}
	if err := s.ensureCertificates(time.Now()); err != nil {
		return err
	}
	if s.client, err = s.layout.client(probeTimeout); err != nil {
		return err
	}
	if s.ports, err = s.loadPorts(ctx); err != nil {
		return err
	}
	if err := host.WriteFile(s.stages(), stages, 0o600); err != nil {
		return err
	}
	return s.linkSupervisor()
}

// run applies the specs in the directory until ctx ends.
func (s *supervisor) run(ctx context.Context) error {
	ticker := time.NewTicker(checkInterval)
	defer ticker.Stop()
	for {
		if !s.lock.Current() {
			return errRemoved
		}
		if err := s.applySpec(ctx); err != nil {
			return err
		}
		if err := s.applyWorkloads(ctx); err != nil {
			return err
		}
		s.record()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		case <-s.changed:
		}
	}
}

// applySpec applies the spec if it has changed. Unchanged programs keep running.
func (s *supervisor) applySpec(ctx context.Context) error {
	var desired request
	if err := readJSON(s.spec(), &desired); err != nil {
		return err
	}
	if desired.ID == "" || desired.ID == s.requestID {
		return nil
	}
	if err := s.ports.ensure(s.layout, desired.parts()...); err != nil {
		return err
	}
	if err := s.writeKubeconfig(desired.Name, endpointOf(s.ports)); err != nil {
		return err
	}
	s.log.Info("Applying", "request", desired.ID, "version", desired.KubernetesVersion)
	s.mu.Lock()
	s.server, s.binDir, s.paths = endpointOf(s.ports), desired.BinDir, desired.Paths
	s.mu.Unlock()
	if err := s.replace(ctx, &s.children, s.programs(&desired, s.ports)); err != nil {
		return err
	}
	s.mu.Lock()
	s.requestID = desired.ID
	s.mu.Unlock()
	if desired.with(Workloads) {
		return s.startWatch(ctx)
	}
	s.endWatch()
	return nil
}

// replace makes children run the programs: it stops children of other programs, starts
// new ones, and keeps those that have not changed.
func (s *supervisor) replace(ctx context.Context, children *[]*child, programs []Program) error {
	var next, added []*child
	s.mu.Lock()
	previous := slices.Clone(*children)
	s.mu.Unlock()
	for _, program := range programs {
		hash, err := program.fingerprint()
		if err != nil {
			return err
		}
		i := slices.IndexFunc(previous, func(c *child) bool { return c.hash == hash })
		if i >= 0 {
			next = append(next, previous[i])
			continue
		}
		c := newChild(s, program, hash)
		next, added = append(next, c), append(added, c)
	}
	s.stop(slices.DeleteFunc(previous, func(c *child) bool { return slices.Contains(next, c) }))
	s.mu.Lock()
	*children = next
	s.mu.Unlock()
	for _, c := range added {
		go c.run(context.WithoutCancel(ctx))
	}
	return nil
}

func (s *supervisor) all() []*child {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Concat(s.children, s.workloads)
}

// stop stops children in order: first those that no other one depends on.
func (s *supervisor) stop(children []*child) {
	for len(children) > 0 {
		var now, later []*child
		for _, c := range children {
			needed := slices.ContainsFunc(children, func(other *child) bool { return slices.Contains(other.program.After, c.program.Name) })
			if needed {
				later = append(later, c)
			} else {
				now = append(now, c)
			}
		}
		var group sync.WaitGroup
		for _, c := range now {
			group.Go(c.stop)
		}
		group.Wait()
		children = later
	}
}

// ready reports whether all named programs are ready.
func (s *supervisor) ready(names []string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.children {
		if !c.status.Ready && slices.Contains(names, c.program.Name) {
			return false
		}
	}
	return true
}

// record writes the status. It writes nothing to a directory that was removed.
func (s *supervisor) record() {
	s.mu.Lock()
	observed := observation{RequestID: s.requestID, Supervisor: s.self}
	for _, c := range s.children {
		observed.Parts = append(observed.Parts, c.status)
	}
	for _, c := range s.workloads {
		observed.Workloads = append(observed.Workloads, c.status)
	}
	s.mu.Unlock()
	content, err := json.Marshal(observed)
	if err != nil {
		s.log.Error("Cannot encode the status", "error", err)
		return
	}
	if bytes.Equal(content, s.recorded) || !s.lock.Current() {
		return
	}
	if err := host.WriteFile(s.status(), content, 0o600); err != nil {
		s.log.Error("Cannot write the status", "error", err)
		return
	}
	s.recorded = content
}

// update changes a child's status and triggers record.
func (s *supervisor) update(c *child, change func(*PartStatus)) {
	s.mu.Lock()
	change(&c.status)
	s.mu.Unlock()
	s.notify()
}

// notify makes run act on a change.
func (s *supervisor) notify() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// launchAll starts programs. It never returns, so its thread never ends.
func (s *supervisor) launchAll() {
	runtime.LockOSThread()
	for start := range s.launch {
		start()
	}
}

func (s *supervisor) startCommand(cmd *exec.Cmd) error {
	done := make(chan error)
	s.launch <- func() { done <- cmd.Start() }
	return <-done
}

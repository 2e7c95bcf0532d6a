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
)

const (
	// supervisorLog names the supervisor's log among those of the parts.
	supervisorLog = "supervisor"
	// supervisorEnv marks a supervisor's process with its directory.
	supervisorEnv = "LOCALCLUSTER_SUPERVISES"
	// lookInterval is how often the supervisor looks at its directory.
	lookInterval = 200 * time.Millisecond
	// lockPatience is how long what ran before may take to let go.
	lockPatience = 15 * time.Second
	probeTimeout = 2 * time.Second
)

// errVanished says that the directory was removed, or replaced by another.
var errVanished = errors.New("the directory is gone")

// supervisor keeps the programs of one directory alive.
type supervisor struct {
	layout
	lock   *lock
	self   Process
	ports  *ports
	client *http.Client
	log    *slog.Logger
	// launch has a program started by the one thread that lives as long as
	// the supervisor: the kernel takes the end of the thread that started a
	// child for the end of the supervisor.
	launch chan func()
	// hurry has programs killed without asking: there is nothing to save.
	hurry atomic.Bool
	// changed is told when there is something to write down.
	changed chan struct{}

	// recorded is what was last written down.
	recorded []byte

	// unwatch ends the watch of Deployments; nil is none.
	unwatch func()

	mu        sync.Mutex
	requestID string
	children  []*child
	// server is the API server's URL, binDir where programs of workloads are
	// looked for, and paths where they were found.
	server, binDir string
	paths          map[string]string
	// workloads carry out deployments; fresh says that those have changed.
	workloads   []*child
	deployments map[string]*appsv1.Deployment
	fresh       bool
}

// Supervise runs the control plane of a directory until ctx ends, and then ends
// it in order. There is one supervisor for a directory; a second one is an
// error. It follows changes of what is wanted, and ends by itself when the
// directory is gone.
func Supervise(ctx context.Context, dir string) error {
	l := layout(dir)
	waiting, cancel := context.WithTimeout(ctx, lockPatience)
	defer cancel()
	held, err := waitForLock(waiting, l.supervisorLock())
	if err != nil {
		return fmt.Errorf("another supervisor, or what it left, works in the directory: %w", err)
	}
	defer held.release()
	if !held.current() {
		return errVanished
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
	s.log.Info("Ending", "reason", err)
	s.hurry.Store(errors.Is(err, errVanished))
	s.endWatch()
	s.stop(s.all())
	if errors.Is(err, context.Canceled) {
		s.record()
		return nil
	}
	return err
}

// prepare makes what the parts need and says who supervises.
func (s *supervisor) prepare(ctx context.Context) error {
	var err error
	if s.self, err = self(); err != nil {
		return err
	}
	identity, err := json.Marshal(s.self)
	if err != nil {
		return fmt.Errorf("encoding the identity: %w", err)
	}
	if err := s.lock.file.Truncate(0); err != nil {
		return fmt.Errorf("writing the identity: %w", err)
	}
	if _, err := s.lock.file.WriteAt(identity, 0); err != nil {
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
	if err := writeFile(s.stages(), stages, 0o600); err != nil {
		return err
	}
	return s.linkSupervisor()
}

// run follows the directory until ctx ends.
func (s *supervisor) run(ctx context.Context) error {
	ticker := time.NewTicker(lookInterval)
	defer ticker.Stop()
	for {
		if !s.lock.current() {
			return errVanished
		}
		if err := s.follow(ctx); err != nil {
			return err
		}
		if err := s.followWorkloads(ctx); err != nil {
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

// follow carries out what is wanted if that has changed: programs that go on
// unchanged are left alone.
func (s *supervisor) follow(ctx context.Context) error {
	var wanted request
	if err := readJSON(s.spec(), &wanted); err != nil {
		return err
	}
	if wanted.ID == "" || wanted.ID == s.requestID {
		return nil
	}
	if err := s.ports.ensure(s.layout, wanted.parts()...); err != nil {
		return err
	}
	if err := s.writeKubeconfig(wanted.Name, endpointOf(s.ports)); err != nil {
		return err
	}
	s.log.Info("Carrying out", "request", wanted.ID, "version", wanted.KubernetesVersion)
	s.mu.Lock()
	s.server, s.binDir, s.paths = endpointOf(s.ports), wanted.BinDir, wanted.Paths
	s.mu.Unlock()
	if err := s.exchange(ctx, &s.children, s.programs(&wanted, s.ports)); err != nil {
		return err
	}
	s.mu.Lock()
	s.requestID = wanted.ID
	s.mu.Unlock()
	if wanted.with(Workloads) {
		return s.beginWatch(ctx)
	}
	s.endWatch()
	return nil
}

// exchange makes children be those of the programs: what is not among them is
// stopped, what is new is started, and what is the same goes on.
func (s *supervisor) exchange(ctx context.Context, children *[]*child, programs []Program) error {
	var next, fresh []*child
	s.mu.Lock()
	before := slices.Clone(*children)
	s.mu.Unlock()
	for _, program := range programs {
		mark, err := fingerprint(program, program.Files)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(before, func(c *child) bool { return c.mark == mark })
		if i >= 0 {
			next = append(next, before[i])
			continue
		}
		c := newChild(s, program, mark)
		next, fresh = append(next, c), append(fresh, c)
	}
	s.stop(slices.DeleteFunc(before, func(c *child) bool { return slices.Contains(next, c) }))
	s.mu.Lock()
	*children = next
	s.mu.Unlock()
	for _, c := range fresh {
		go c.keep(context.WithoutCancel(ctx))
	}
	return nil
}

func (s *supervisor) all() []*child {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Concat(s.children, s.workloads)
}

// stop ends children: first those that no other of them depends on.
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

// ready tells whether all named programs are.
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

// record writes down what is known. A directory that is gone is noticed by run.
func (s *supervisor) record() {
	s.mu.Lock()
	seen := observation{RequestID: s.requestID, Supervisor: s.self}
	for _, c := range s.children {
		seen.Parts = append(seen.Parts, c.status)
	}
	for _, c := range s.workloads {
		seen.Workloads = append(seen.Workloads, c.status)
	}
	s.mu.Unlock()
	content, err := json.Marshal(seen)
	if err != nil {
		s.log.Error("Cannot encode the status", "error", err)
		return
	}
	if bytes.Equal(content, s.recorded) || !s.lock.current() {
		return
	}
	if err := writeFile(s.status(), content, 0o600); err != nil {
		s.log.Error("Cannot write the status", "error", err)
		return
	}
	s.recorded = content
}

// update changes a child's status and has it written down.
func (s *supervisor) update(c *child, change func(*PartStatus)) {
	s.mu.Lock()
	change(&c.status)
	s.mu.Unlock()
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// launchAll never ends, and so keeps its thread.
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

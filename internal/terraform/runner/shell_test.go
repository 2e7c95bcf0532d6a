package runner

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/command"
	_ "github.com/appthrust/capt/internal/testenv/waits"
)

// shellFixture is a shell with a fake API server and a fake tool.
type shellFixture struct {
	*api
	config  Config
	request *terraform.Request
	options ShellOptions
	// giveUp is closed by the test.
	giveUp chan struct{}

	mu     sync.Mutex
	lines  []string
	waited map[string]error
}

func newShellFixture(t *testing.T, script string) *shellFixture {
	t.Helper()
	g := NewWithT(t)
	f := &shellFixture{api: &api{objects: map[string]map[string]any{}}, request: request(), giveUp: make(chan struct{}), waited: map[string]error{}}
	server := httptest.NewServer(f.api)
	t.Cleanup(server.Close)
	binary := filepath.Join(t.TempDir(), "tofu")
	g.Expect(os.WriteFile(binary, []byte("#!/bin/sh\n"+script+"\n"), 0o700)).To(Succeed())
	f.config = Config{Namespace: "n", RunID: "shell-1", API: &rest.Config{Host: server.URL}, Binary: binary, WorkDir: t.TempDir(), Sandbox: SandboxOff}
	f.request.Module = terraform.Module{Source: terraform.SourceInline, Format: terraform.FormatHCL, Content: "output \"a\" { value = 1 }\n"}
	f.options = ShellOptions{
		Print: func(line string) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.lines = append(f.lines, line)
		},
		Waiting: func(what string, err error) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.waited[what] = err
		},
		GiveUp: f.giveUp,
	}
	f.storeState(g, oneResource)
	return f
}

// waitsFor returns why the last attempt of something failed.
func (f *shellFixture) waitsFor(what string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.waited[what]
}

// fail lets requests fail whose method and path contain a text.
func (f *shellFixture) fail(text string) {
	f.api.mu.Lock()
	defer f.api.mu.Unlock()
	f.intercept = func(method, path string, _ []byte) *metav1.Status {
		if method != http.MethodGet && strings.Contains(method+" "+path, text) {
			return status(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable)
		}
		return nil
	}
}

// endedShell is what a shell returned.
type endedShell struct {
	Result *terraform.Result
	Err    error
}

// start opens the shell, and sends what it returned.
func (f *shellFixture) start(ctx context.Context) <-chan endedShell {
	done := make(chan endedShell, 1)
	go func() {
		result, err := Shell(ctx, f.config, f.request, f.options)
		done <- endedShell{result, err}
	}()
	return done
}

func (f *shellFixture) holder(g Gomega) any {
	f.api.mu.Lock()
	defer f.api.mu.Unlock()
	lease := f.objects[leasesPath+"/"+f.request.Backend.LeaseName()]
	g.Expect(lease).NotTo(BeNil())
	spec, _ := lease["spec"].(map[string]any)
	return spec["holderIdentity"]
}

func TestShell_savesTheStateAndReleasesTheLock(t *testing.T) {
	g := NewWithT(t)
	f := newShellFixture(t, "exit 0")
	f.options.Enter = func(_ context.Context, session *command.Session) error {
		g.Expect(f.holder(g)).To(Equal("shell-1"))
		return os.WriteFile(session.StateFile(), []byte(twoResources), 0o600)
	}
	_, err := Shell(t.Context(), f.config, f.request, f.options)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(f.saved(g)).To(Equal(twoResources))
	g.Expect(f.holder(g)).To(BeNil())
	g.Expect(f.waited).To(BeEmpty())
}

// The network fails while the shell is open. The user sees what captctl waits for, and
// gives up.
func TestShell_endsWhenTheUserGivesUp(t *testing.T) {
	g := NewWithT(t)
	f := newShellFixture(t, "exit 0")
	f.options.Enter = func(_ context.Context, session *command.Session) error {
		f.fail("secrets")
		return os.WriteFile(session.StateFile(), []byte(twoResources), 0o600)
	}
	done := f.start(t.Context())
	g.Eventually(func() error { return f.waitsFor("storing a rescued state") }).Should(MatchError(ContainSubstring("ServiceUnavailable")))
	g.Expect(f.lines).To(ContainElement(ContainSubstring("The state could not be saved")))
	close(f.giveUp)
	var last endedShell
	g.Eventually(done).Should(Receive(&last))
	g.Expect(last.Result.StateUncertain).To(BeTrue())
	var left *LockLeftError
	g.Expect(last.Err).To(MatchError(And(ContainSubstring("interrupted"), ContainSubstring("the lock is kept"))))
	g.Expect(errors.As(last.Err, &left)).To(BeTrue())
	g.Expect(f.holder(g)).To(Equal("shell-1"), "a run would create again what the saved state does not have")
	g.Expect(f.saved(g)).To(Equal(oneResource))
}

// The state is in Secrets, from which the next run saves it.
func TestShell_releasesTheLockOfARescuedState(t *testing.T) {
	g := NewWithT(t)
	f := newShellFixture(t, "exit 0")
	f.options.Enter = func(_ context.Context, session *command.Session) error {
		f.fail("PATCH " + secretsPath + "/tfstate")
		return os.WriteFile(session.StateFile(), []byte(twoResources), 0o600)
	}
	done := f.start(t.Context())
	g.Eventually(func() error { return f.waitsFor("saving the state") }).Should(HaveOccurred())
	close(f.giveUp)
	g.Eventually(done).Should(Receive(HaveField("Err", MatchError(ContainSubstring("saving the state: interrupted")))))
	g.Expect(f.holder(g)).To(BeNil())
}

func TestShell_reportsALockThatIsLeft(t *testing.T) {
	g := NewWithT(t)
	f := newShellFixture(t, "exit 0")
	f.options.Enter = func(_ context.Context, session *command.Session) error {
		f.fail("leases")
		return os.WriteFile(session.StateFile(), []byte(twoResources), 0o600)
	}
	done := f.start(t.Context())
	g.Eventually(func() error { return f.waitsFor("releasing the lock") }).Should(HaveOccurred())
	close(f.giveUp)
	var last endedShell
	g.Eventually(done).Should(Receive(&last))
	g.Expect(last.Result.StateUncertain).To(BeFalse())
	var left *LockLeftError
	g.Expect(errors.As(last.Err, &left)).To(BeTrue())
	g.Expect(f.saved(g)).To(Equal(twoResources))
}

func TestShell_canBeCancelledWhileItIsPrepared(t *testing.T) {
	g := NewWithT(t)
	started := filepath.Join(t.TempDir(), "started")
	f := newShellFixture(t, `[ "$1" = init ] || exit 0; : > `+started+`; trap 'exit 1' INT; while :; do sleep 0.1; done`)
	f.request.Backend = request().Backend
	entered := false
	f.options.Enter = func(context.Context, *command.Session) error {
		entered = true
		return nil
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := f.start(ctx)
	g.Eventually(started).Should(BeAnExistingFile())
	cancel()
	g.Eventually(done).Should(Receive(HaveField("Err", HaveOccurred())))
	g.Expect(entered).To(BeFalse())
	g.Expect(f.holder(g)).To(BeNil(), "the lock is released")
}

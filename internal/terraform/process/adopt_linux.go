package process

import (
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
)

// adopt watches a runner that an earlier manager started. Its exit is then
// detected even if it leaves no result.
func (e *Executor) adopt(run terraform.Run, identity *record.Identity) {
	fd, err := unix.PidfdOpen(identity.PID, 0)
	if err != nil || !identity.Alive() {
		return
	}
	e.mu.Lock()
	if _, exists := e.children[keyOf(run)]; exists {
		e.mu.Unlock()
		_ = unix.Close(fd)
		return
	}
	c := &child{run: run, pid: identity.PID, done: make(chan struct{})}
	e.children[keyOf(run)] = c
	e.mu.Unlock()
	go func() {
		defer unix.Close(fd)
		for {
			n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, -1)
			if n > 0 || (err != nil && err != unix.EINTR) {
				break
			}
		}
		e.exited(run, c)
	}()
}

// isAnother reports whether a process is not the runner of a run. A module can change the
// identity of its run, and the manager must not stop, or wait for, a process of others. An
// error does not prove anything.
func isAnother(run terraform.Run, pid int) bool {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
	if err != nil {
		return os.IsNotExist(err)
	}
	args := strings.Split(string(text), "\x00")
	return !slices.Contains(args, namespaceArg(run)) || !slices.Contains(args, runArg(run))
}

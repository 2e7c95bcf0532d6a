package sandbox

import (
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The access rights of Landlock. Execution and the listing of directories are not
// restricted.
const (
	reading = unix.LANDLOCK_ACCESS_FS_READ_FILE
	writing = unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE |
		unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG |
		unix.LANDLOCK_ACCESS_FS_MAKE_SOCK | unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK |
		unix.LANDLOCK_ACCESS_FS_MAKE_SYM | unix.LANDLOCK_ACCESS_FS_REFER
	// ofFiles are the rights that a rule for a file can have.
	ofFiles = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE
	// firstVersion is the first version that allows to move files between directories,
	// and withTruncate the first that restricts truncation.
	firstVersion, withTruncate = 2, 3
)

// Check returns ErrUnavailable if this system has no sandbox.
func Check() error {
	if version() < firstVersion {
		return ErrUnavailable
	}
	return nil
}

// Check returns an error if the sandbox cannot be created.
func (r Rules) Check() error {
	if err := Check(); err != nil {
		return err
	}
	ruleset, err := r.ruleset()
	if err != nil {
		return fmt.Errorf("creating the sandbox: %w", err)
	}
	return unix.Close(ruleset)
}

// version returns the version of Landlock, or 0.
func version() int {
	v, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0
	}
	return int(v)
}

// Start starts the command in the sandbox. The command and all processes that it starts
// also never get more privileges, for example by sudo. No other program is executed before the
// command, as StartBound does: after a crash of this process, the next one must recognize the
// command.
func (r Rules) Start(cmd *exec.Cmd) error {
	if err := Check(); err != nil {
		return err
	}
	ruleset, err := r.ruleset()
	if err != nil {
		return fmt.Errorf("creating the sandbox: %w", err)
	}
	defer func() { _ = unix.Close(ruleset) }()
	started := make(chan error)
	go r.startOnThread(ruleset, cmd, started)
	return <-started
}

// startOnThread starts the command from a thread that ends with it: the rules apply to
// the thread and to the processes that it starts. The main thread must not enter the
// sandbox: it stands for this process, which the command could then inspect.
func (r Rules) startOnThread(ruleset int, cmd *exec.Cmd, started chan<- error) {
	runtime.LockOSThread()
	if unix.Gettid() == unix.Getpid() {
		// This goroutine keeps the main thread, so the next one gets another.
		defer runtime.UnlockOSThread()
		elsewhere := make(chan error)
		go r.startOnThread(ruleset, cmd, elsewhere)
		started <- <-elsewhere
		return
	}
	if err := restrict(ruleset); err != nil {
		started <- fmt.Errorf("entering the sandbox: %w", err)
		return
	}
	started <- cmd.Start()
}

func restrict(ruleset int) error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(ruleset), 0, 0); errno != 0 {
		return errno
	}
	return nil
}

// ruleset returns the file descriptor of the rules.
func (r Rules) ruleset() (int, error) {
	rules, err := r.rules()
	if err != nil {
		return -1, err
	}
	handled := uint64(reading | writing)
	if version() >= withTruncate {
		handled |= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	attr := unix.LandlockRulesetAttr{Access_fs: handled}
	// Only the first field, which all versions have.
	//nolint:gosec // The call has no function in the library.
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr.Access_fs), 0)
	if errno != 0 {
		return -1, errno
	}
	for _, rule := range rules {
		if err := allow(int(fd), rule, handled); err != nil {
			return -1, errors.Join(err, unix.Close(int(fd)))
		}
	}
	return int(fd), nil
}

// allow adds a rule. A file that has disappeared needs none.
func allow(ruleset int, rule rule, handled uint64) error {
	parent, err := unix.Open(rule.path, unix.O_PATH|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EACCES) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("opening %s: %w", rule.path, err)
	}
	defer func() { _ = unix.Close(parent) }()
	var stat unix.Stat_t
	if err := unix.Fstat(parent, &stat); errors.Is(err, unix.ENOTCONN) || errors.Is(err, unix.EIO) {
		// A mount whose server has ended. Nothing can use it.
		return nil
	} else if err != nil {
		return fmt.Errorf("reading the attributes of %s: %w", rule.path, err)
	}
	rights := handled
	if rule.readOnly {
		rights &= reading
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFDIR {
		rights &= ofFiles
	}
	attr := unix.LandlockPathBeneathAttr{Allowed_access: rights, Parent_fd: int32(parent)}
	//nolint:gosec // The call has no function in the library.
	if _, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(ruleset), unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&attr)), 0, 0, 0); errno != 0 {
		return fmt.Errorf("allowing %s: %w", rule.path, errno)
	}
	return nil
}

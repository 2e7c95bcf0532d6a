package served

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// dialTimeout is how long a provider may take to accept a connection.
const dialTimeout = 10 * time.Second

// relay connects one command to a provider. The tool does not authenticate itself to a provider
// that it has not started, so the relay does, and accepts only connections of the command: the
// kernel says which process connects.
type relay struct {
	provider *providerProcess
	listener *net.UnixListener
	// socket is the listening socket in the file system. Its name is removed, so that only a
	// process that inherits the file reaches it.
	socket *os.File
	cancel context.CancelFunc
	// started is closed when tool, the ID of the command's process, is set.
	started chan struct{}
	tool    int
}

// newRelay returns a relay with a socket in a directory. A command that is cancelled uses it until
// it has ended.
func newRelay(ctx context.Context, dir *os.File, provider *providerProcess) (*relay, error) {
	path := descriptorPath(int(dir.Fd())) + "/" + rand.Text()
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: path})
	if err != nil {
		return nil, fmt.Errorf("creating a socket: %w", err)
	}
	listener.SetUnlinkOnClose(false)
	fd, err := unix.Open(path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if removed := os.Remove(path); err == nil && removed != nil {
		err = errors.Join(removed, unix.Close(fd))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening a socket: %w", err), listener.Close())
	}
	r := &relay{provider: provider, listener: listener, socket: os.NewFile(uintptr(fd), "relay"), started: make(chan struct{})}
	ctx, r.cancel = context.WithCancel(context.WithoutCancel(ctx))
	go r.accept(ctx)
	return r, nil
}

// allow lets a process use the relay. It is called once.
func (r *relay) allow(pid int) {
	r.tool = pid
	close(r.started)
}

// close ends all connections.
func (r *relay) close() {
	r.cancel()
	_, _ = r.listener.Close(), r.socket.Close()
}

func (r *relay) accept(ctx context.Context) {
	for {
		conn, err := r.listener.AcceptUnix()
		if err != nil {
			return
		}
		go r.serve(ctx, conn)
	}
}

// serve copies what the tool and the provider send to each other, until one of them ends.
func (r *relay) serve(ctx context.Context, conn *net.UnixConn) {
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	select {
	case <-r.started:
	case <-ctx.Done():
		return
	}
	if pid, err := peer(conn); err != nil || pid != r.tool {
		return
	}
	// The tool connects once more before, only to see whether it can.
	first := make([]byte, 4<<10)
	n, err := conn.Read(first)
	if err != nil {
		return
	}
	dialing, cancel := context.WithTimeout(ctx, dialTimeout)
	provider, err := r.provider.dial(dialing)
	cancel()
	if err != nil {
		return
	}
	defer func() { _ = provider.Close() }()
	if _, err := provider.Write(first[:n]); err != nil {
		return
	}
	go func() {
		// The other direction ends with it.
		defer func() { _ = conn.Close() }()
		_, _ = io.Copy(conn, provider)
	}()
	_, _ = io.Copy(provider, conn)
}

// peer returns the process that connected.
func peer(conn *net.UnixConn) (int, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	var credentials *unix.Ucred
	var failed error
	err = raw.Control(func(fd uintptr) {
		credentials, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err := errors.Join(err, failed); err != nil {
		return 0, err
	}
	return int(credentials.Pid), nil
}

package served

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/appthrust/capt/internal/host/sandbox"
)

// serverEnv makes a provider serve the protocol of plugins. A provider prints everything to
// its log, and leaves it to the tool what to omit: without a tool that reads it, it prints
// nothing.
var serverEnv = []string{
	"TF_PLUGIN_MAGIC_COOKIE=d602bf8f470bc67ca7faa0386276bbdd4330efaf76d1a219cb4d6991ca9872b2",
	"PLUGIN_PROTOCOL_VERSIONS=5,6", "TF_LOG_SDK=off", "TF_LOG_PROVIDER=off",
}

// serverName is the name in the certificates of providers.
const serverName = "localhost"

// providerProcess is a process of a provider. Only this process can use it: both have
// certificates that they have created for each other, as the tool and a provider have.
type providerProcess struct {
	provider lockedProvider
	bound    *sandbox.Bound
	// own is the certificate with which this process authenticates itself.
	own tls.Certificate
	// handshake is the line with which the provider says how it serves.
	handshake chan string
	output    []*os.File
	words     lastWords
	// dir is the directory of the socket, as the provider knows it.
	dir string
	// drained is closed when everything that the provider printed is in words.
	drained chan struct{}

	// Set by await: the version of the providers' protocol, the path of the socket, and how to
	// connect to it.
	version int
	socket  string
	config  *tls.Config
}

// startProvider starts a provider with its sockets in a directory.
func (m *Module) startProvider(provider lockedProvider, dir *os.File) (*providerProcess, error) {
	p := &providerProcess{provider: provider, handshake: make(chan string, 1), drained: make(chan struct{})}
	certificate, err := p.certify()
	if err != nil {
		return nil, err
	}
	stdout, stdoutWriter, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("creating a pipe: %w", err)
	}
	stderr, stderrWriter, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("creating a pipe: %w", err), stdout.Close(), stdoutWriter.Close())
	}
	p.output = []*os.File{stdout, stderr}
	cmd := exec.Command(provider.program)
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = m.Root, stdoutWriter, stderrWriter, []*os.File{dir}
	cmd.Env = slices.Concat(m.Env, serverEnv, []string{
		"PLUGIN_CLIENT_CERT=" + certificate, socketDirEnv + "=" + socketDir(dir),
	})
	p.bound, err = m.Sandbox.StartBound(cmd)
	_, _ = stdoutWriter.Close(), stderrWriter.Close()
	if err != nil {
		p.closeOutput()
		return nil, err
	}
	go p.readOutput(stdout)
	go func() {
		defer close(p.drained)
		_, _ = io.Copy(&p.words, stderr)
	}()
	p.dir, p.socket = socketDir(dir), descriptorPath(int(dir.Fd()))
	return p, nil
}

// certify creates the certificate of this process, and returns it for the provider.
func (p *providerProcess) certify() (string, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", fmt.Errorf("creating a key: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: serverName}, DNSNames: []string{serverName},
		NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().AddDate(1, 0, 0),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		BasicConstraintsValid: true, IsCA: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return "", fmt.Errorf("creating a certificate: %w", err)
	}
	p.own = tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), nil
}

// longestHandshake limits the line with which a provider says how it serves.
const longestHandshake = 16 << 10

// readOutput reads the first line, and discards what follows.
func (p *providerProcess) readOutput(stdout io.Reader) {
	reader := bufio.NewReaderSize(stdout, longestHandshake)
	line, err := reader.ReadSlice('\n')
	if err == nil {
		p.handshake <- strings.TrimSpace(string(line))
	}
	_, _ = io.Copy(io.Discard, reader)
}

// await waits until the provider serves.
func (p *providerProcess) await(ctx context.Context) error {
	select {
	case line := <-p.handshake:
		return p.read(line)
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-p.bound.Ended():
		return fmt.Errorf("it ended: %s", p.lastWords())
	}
}

var errOtherProtocol = errors.New("it does not serve the protocol of plugins with certificates")

// read reads how the provider serves: the version of the plugins' protocol, that of the
// providers', the network, the address, the kind and the certificate.
func (p *providerProcess) read(line string) error {
	fields := strings.Split(line, "|")
	if len(fields) < 6 || fields[0] != "1" || fields[2] != "unix" || fields[4] != "grpc" {
		return errOtherProtocol
	}
	version, err := strconv.Atoi(fields[1])
	if err != nil {
		return errOtherProtocol
	}
	der, err := base64.RawStdEncoding.DecodeString(fields[5])
	if err != nil {
		return errOtherProtocol
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		return errOtherProtocol
	}
	roots := x509.NewCertPool()
	roots.AddCert(certificate)
	p.version = version
	p.config = &tls.Config{
		Certificates: []tls.Certificate{p.own}, RootCAs: roots, ServerName: serverName,
		MinVersion: tls.VersionTLS12, NextProtos: []string{"h2"},
	}
	if filepath.Dir(fields[3]) != p.dir {
		removeSocket(fields[3])
		return errOldProvider
	}
	p.socket = filepath.Join(p.socket, filepath.Base(fields[3]))
	return nil
}

var errOldProvider = errors.New("it is too old: it does not choose the directory of its socket as it is told")

// pluginSocket matches the names of sockets that providers create.
var pluginSocket = regexp.MustCompile(`^plugin[0-9]+$`)

// removeSocket removes the socket that a provider leaves in the directory for temporary files.
// The provider has chosen the path, so it must look like one.
func removeSocket(path string) {
	info, err := os.Lstat(path)
	if err == nil && info.Mode().Type() == os.ModeSocket && pluginSocket.MatchString(filepath.Base(path)) && filepath.Dir(path) == filepath.Clean(os.TempDir()) {
		_ = os.Remove(path)
	}
}

const (
	// socketDirEnv names the directory of a provider's socket.
	socketDirEnv = "PLUGIN_UNIX_SOCKET_DIR"
	// longestSocketDir leaves space for the name of a socket.
	longestSocketDir = 80
)

// socketDir returns the path of the directory for a provider. A long one is replaced by that of
// the open directory, which programs that a provider starts cannot use.
func socketDir(dir *os.File) string {
	if len(dir.Name()) <= longestSocketDir {
		return dir.Name()
	}
	return descriptorPath(firstExtraFile)
}

// dial connects to the provider.
func (p *providerProcess) dial(ctx context.Context) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", p.socket)
	if err != nil {
		return nil, fmt.Errorf("connecting to provider %s: %w", p.provider.address, err)
	}
	secured := tls.Client(conn, p.config)
	if err := secured.HandshakeContext(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("connecting to provider %s: %w", p.provider.address, err), conn.Close())
	}
	return secured, nil
}

func (p *providerProcess) hasEnded() bool {
	select {
	case <-p.bound.Ended():
		return true
	default:
		return false
	}
}

// stop ends the process.
func (p *providerProcess) stop() {
	p.bound.Signal(syscall.SIGTERM)
	select {
	case <-p.bound.Ended():
	case <-time.After(stopTimeout):
		p.bound.Signal(syscall.SIGKILL)
		select {
		case <-p.bound.Ended():
		case <-time.After(stopTimeout):
			// The kernel ends it with this process at the latest.
		}
	}
	p.closeOutput()
}

func (p *providerProcess) closeOutput() {
	for _, file := range p.output {
		_ = file.Close()
	}
}

// lastWords returns why the provider ended, as far as it said so.
func (p *providerProcess) lastWords() string {
	select {
	case <-p.drained:
	case <-time.After(stopTimeout):
		// A process that it has started may still have the pipe.
	}
	return p.words.String()
}

// end says how a provider that served has ended. Only the text of a crash is shown: others may
// contain what the provider has read.
func (p *providerProcess) end() string {
	text := p.lastWords()
	if !p.words.isCrash() {
		return p.bound.State()
	}
	return text
}

// lastWords keeps the end of what a provider prints: from the beginning of a panic on, or the
// last bytes.
type lastWords struct {
	mu    sync.Mutex
	text  []byte
	panic bool
}

// longestWords limits what is kept.
const longestWords = 4 << 10

// crash matches what the runtime prints first when a program crashes.
var crash = regexp.MustCompile(`(?m)^(panic|fatal error): `)

// Write implements io.Writer. It never fails.
func (w *lastWords) Write(text []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text = append(w.text, text...)
	if !w.panic {
		if at := crash.FindIndex(w.text); at != nil {
			w.text, w.panic = w.text[at[0]:], true
		}
	}
	if w.panic {
		w.text = w.text[:min(len(w.text), longestWords)]
	} else {
		w.text = slices.Clone(w.text[max(len(w.text)-longestWords, 0):])
	}
	return len(text), nil
}

func (w *lastWords) isCrash() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.panic
}

// String returns the first line of a crash, or the last line.
func (w *lastWords) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	lines := strings.Split(strings.TrimSpace(string(w.text)), "\n")
	if w.panic {
		return lines[0]
	}
	return lines[len(lines)-1]
}

package command

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/command/binary"
	"github.com/appthrust/capt/internal/testenv/waits"
)

// roleEnv makes the test program another program, with an argument in argumentEnv.
const (
	roleEnv     = "CAPT_TEST_ROLE"
	argumentEnv = "CAPT_TEST_ARGUMENT"
)

func TestMain(m *testing.M) {
	argument := os.Getenv(argumentEnv)
	switch os.Getenv(roleEnv) {
	case "attacker":
		attack(argument)
	case "engine":
		serveForever(argument)
	case "provider":
		panicOnConnection()
	default:
		os.Exit(m.Run())
	}
}

// engineArgument is the argument of serveForever.
type engineArgument struct {
	Tool, Dir, PluginCache, CLIConfig string
	Hidden                            []string
	Request                           *terraform.Request
}

// serveForever serves the providers of a request, prints a line and waits.
func serveForever(argument string) {
	var given engineArgument
	if err := json.Unmarshal([]byte(argument), &given); err != nil {
		panic(err)
	}
	w := &Workdir{Tool: &binary.Tool{Path: given.Tool}, Dir: given.Dir, PluginCache: given.PluginCache, Hidden: given.Hidden, CLIConfig: given.CLIConfig}
	session, err := Prepare(context.Background(), w, given.Request)
	if err != nil {
		panic(err)
	}
	session.ServeProviders(context.Background())
	fmt.Println("serving")
	time.Sleep(time.Hour)
}

// panicOnConnection is a provider that crashes when it is used.
func panicOnConnection() {
	listener, err := net.Listen("unix", filepath.Join(os.Getenv("PLUGIN_UNIX_SOCKET_DIR"), fmt.Sprint("plugin", os.Getpid())))
	if err != nil {
		panic(err)
	}
	certificate := selfSigned()
	fmt.Printf("1|5|unix|%s|grpc|%s\n", listener.Addr(), base64.RawStdEncoding.EncodeToString(certificate.Certificate[0]))
	if _, err := listener.Accept(); err == nil {
		panic("crashed with canary-secret")
	}
}

func selfSigned() tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"localhost"}, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		panic(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// attack tries to use all sockets below a directory, and prints those that it can use.
func attack(dir string) {
	for path := range socketsFor(dir) {
		for name, dial := range map[string]func() (net.Conn, error){
			"plain": func() (net.Conn, error) { return net.DialTimeout("unix", path, waits.Timeout) },
			"TLS": func() (net.Conn, error) {
				return tls.DialWithDialer(&net.Dialer{Timeout: waits.Timeout}, "unix", path, &tls.Config{
					InsecureSkipVerify: true, NextProtos: []string{"h2"}, Certificates: []tls.Certificate{selfSigned()},
				})
			},
		} {
			if conn, err := dial(); err == nil && answers(conn) {
				fmt.Println("can use", name, path)
			}
		}
	}
	fmt.Println("attacked")
}

// answers reports whether a server speaks HTTP/2, as providers do.
func answers(conn net.Conn) bool {
	defer func() { _ = conn.Close() }()
	const settings = 4
	_ = conn.SetDeadline(time.Now().Add(waits.Timeout))
	_, _ = conn.Write([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"))
	header := make([]byte, 9)
	n, _ := conn.Read(header)
	return n == len(header) && header[3] == settings
}

// socketsFor returns the paths of sockets that may be in a directory: those that the kernel lists,
// those that are there, those of other processes, and one that this process has inherited.
func socketsFor(dir string) map[string]bool {
	found := map[string]bool{"/proc/self/fd/3": true}
	listed, _ := os.ReadFile("/proc/net/unix")
	for line := range strings.Lines(string(listed)) {
		if fields := strings.Fields(line); len(fields) > 7 && (strings.HasPrefix(fields[7], dir) || strings.HasPrefix(fields[7], "/proc/")) {
			found[fields[7]] = true
			found[filepath.Join(dir, "workspaces/a/run/sockets", filepath.Base(fields[7]))] = true
		}
	}
	_ = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type()&fs.ModeSocket != 0 {
			found[path] = true
		}
		return nil
	})
	open, _ := filepath.Glob("/proc/[0-9]*/fd/*")
	for _, path := range open {
		if target, err := os.Readlink(path); err == nil && strings.HasPrefix(target, dir) {
			found[path] = true
		}
	}
	environments, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, path := range environments {
		text, _ := os.ReadFile(path)
		for entry := range bytes.SplitSeq(text, []byte{0}) {
			var addresses map[string]struct{ Addr struct{ String string } }
			if value, isOne := bytes.CutPrefix(entry, []byte("TF_REATTACH_PROVIDERS=")); isOne && json.Unmarshal(value, &addresses) == nil {
				for _, address := range addresses {
					found[strings.Replace(address.Addr.String, "self", filepath.Base(filepath.Dir(path)), 1)] = true
				}
			}
		}
	}
	return found
}

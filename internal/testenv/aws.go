package testenv

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
)

// awsEmulator builds the emulator of AWS once.
var awsEmulator = sync.OnceValues(func() (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	program := filepath.Join(root, "bin", "awsemulator")
	cmd := exec.Command("go", "build", "-o", program, "./awsemulator")
	cmd.Dir = filepath.Join(root, "dev")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the emulator of AWS: %w\n%s", err, out)
	}
	// The first start installs moto. This prevents concurrent installations.
	cmd = exec.Command(program, "-install")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("installing moto: %w\n%s", err, out)
	}
	return program, nil
})

// StartAWS starts an emulator of AWS with arguments. It ends when stop is called, or with
// this process.
func StartAWS(args ...string) (url string, stop func(), err error) {
	program, err := awsEmulator()
	if err != nil {
		return "", nil, err
	}
	cmd := exec.Command(program, append([]string{"-attached"}, args...)...)
	cmd.Stderr = os.Stderr
	_, err = cmd.StdinPipe()
	out, outErr := cmd.StdoutPipe()
	if err = errors.Join(err, outErr); err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return "", nil, fmt.Errorf("starting the emulator of AWS: %w", err)
	}
	stop = func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	url, ready := strings.CutPrefix(strings.TrimSpace(line), "ready ")
	if !ready {
		stop()
		return "", nil, errors.Join(fmt.Errorf("the emulator of AWS exited before it was ready: %q", line), err)
	}
	return url, stop, nil
}

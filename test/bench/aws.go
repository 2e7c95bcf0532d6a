package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/appthrust/capt/internal/testenv"
)

// awsApplies is how many workspaces with the AWS provider are applied per round.
const awsApplies = 6

// network is what modules of the AWS provider usually begin with.
const network = `
resource "aws_vpc" "this" {
  cidr_block = "10.0.0.0/16"
  tags       = { Name = var.name }
}
resource "aws_subnet" "this" {
  count      = 2
  vpc_id     = aws_vpc.this.id
  cidr_block = cidrsubnet(aws_vpc.this.cidr_block, 8, count.index)
}
resource "terraform_data" "this" { input = aws_vpc.this.id }
`

// measureAWS compares the engine with the plain tool for modules of the real AWS provider,
// on the emulator of AWS.
func measureAWS(ctx context.Context, o options) (*engineReport, error) {
	provider := providers[0]
	if _, err := exec.LookPath("python3"); err != nil {
		logf("engine with AWS: skipped: the emulator of AWS needs Python 3")
		return &engineReport{Skipped: "the emulator of AWS needs Python 3"}, nil
	}
	url, stop, err := startEmulator(ctx)
	if err != nil {
		return nil, err
	}
	defer stop()
	provider.module = network
	return measureEngine(ctx, o, workload{
		name: "engine with AWS", applies: awsApplies, provider: &provider,
		module: func(round int) string { return fmt.Sprintf("# Round %d.\n%s", round, provider.text()) },
		env: map[string]string{
			"AWS_ENDPOINT_URL": url, "AWS_REGION": "eu-central-1", "AWS_EC2_METADATA_DISABLED": "true",
			"AWS_ACCESS_KEY_ID": "emulated", "AWS_SECRET_ACCESS_KEY": "emulated",
		},
	})
}

// startEmulator starts the emulator of AWS and returns its address.
func startEmulator(ctx context.Context) (url string, stop func(), err error) {
	root, err := testenv.Root()
	if err != nil {
		return "", nil, err
	}
	program := filepath.Join(root, "bin", "awsemulator")
	build := exec.CommandContext(ctx, "go", "build", "-o", program, "./awsemulator")
	build.Dir = filepath.Join(root, "dev")
	if out, err := build.CombinedOutput(); err != nil {
		return "", nil, fmt.Errorf("building the emulator of AWS: %w\n%s", err, out)
	}
	logf("engine with AWS: starting the emulator, which installs moto if it is missing")
	cmd := exec.Command(program, "-attached")
	if _, err := cmd.StdinPipe(); err != nil {
		return "", nil, fmt.Errorf("starting the emulator of AWS: %w", err)
	}
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", nil, fmt.Errorf("starting the emulator of AWS: %w", err)
	}
	if err := cmd.Start(); err != nil {
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
		return "", nil, errors.Join(errors.New("the emulator of AWS exited before it was ready"), err)
	}
	return url, stop, nil
}

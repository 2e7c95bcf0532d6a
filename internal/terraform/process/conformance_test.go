package process_test

import (
	"os"
	"syscall"
	"testing"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/command/commandtest"
	"github.com/appthrust/capt/internal/terraform/process"
	"github.com/appthrust/capt/internal/terraform/record"
	"github.com/appthrust/capt/internal/terraform/runnertest"
	"github.com/appthrust/capt/internal/testenv"
)

var env *testenv.Environment

func TestMain(m *testing.M) {
	os.Exit(testenv.Run(m, &env))
}

func TestConformance(t *testing.T) {
	tofu, err := testenv.Part("tofu")
	if err != nil {
		t.Fatal(err)
	}
	runner, err := testenv.Built("runner")
	if err != nil {
		t.Fatal(err)
	}
	probe := runnertest.BuildProbe(t)

	harness := func(tool string) func(t *testing.T) runnertest.Harness {
		return func(t *testing.T) runnertest.Harness {
			manager, err := env.ManagerAccount()
			if err != nil {
				t.Fatal(err)
			}
			executor := process.New(process.Options{
				Client: manager.Client, Reader: manager.Client, API: manager.Config, Runner: runner, Binary: tool, WorkDir: t.TempDir(),
			})
			return runnertest.Harness{
				Runner: executor, Client: env.Client, Namespace: env.Namespace(t), Probe: probe, ListenAddress: "127.0.0.1",
				Kill:      signal(syscall.SIGKILL),
				Terminate: signal(syscall.SIGTERM),
			}
		}
	}
	t.Run("OpenTofu", func(t *testing.T) {
		runnertest.Run(t, harness(tofu))
		runnertest.RunBackends(t, harness(tofu))
	})
	t.Run("Terraform", func(t *testing.T) {
		if os.Getenv("CAPT_TEST_S3") == "" {
			t.Skip("run `make test-state`")
		}
		tool := commandtest.Terraform()
		if tool == "" {
			t.Skip("Terraform is not installed")
		}
		runnertest.RunBackends(t, harness(tool))
	})
}

// signal sends a signal to the runner of a run.
func signal(sent syscall.Signal) func(testing.TB, terraform.Run, *record.Identity) {
	return func(t testing.TB, _ terraform.Run, identity *record.Identity) {
		if err := syscall.Kill(identity.PID, sent); err != nil {
			t.Fatal(err)
		}
	}
}

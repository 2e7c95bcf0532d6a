package runner

import (
	"os/exec"
	"testing"

	. "github.com/onsi/gomega"
)

func TestIsRunner(t *testing.T) {
	r := &Runner{Config: Config{Namespace: "n", RunID: "a-r2", WorkDir: "/work"}}
	for name, tt := range map[string]struct {
		args []string
		want bool
	}{
		"an earlier run":               {[]string{"runner", "--namespace=n", "--run=a-r1", "--work-dir=/work"}, true},
		"this run":                     {[]string{"runner", "--namespace=n", "--run=a-r2", "--work-dir=/work"}, false},
		"another workspace":            {[]string{"runner", "--namespace=n", "--run=b-r1", "--work-dir=/work"}, false},
		"a workspace with a like name": {[]string{"runner", "--namespace=n", "--run=a-r1-r1", "--work-dir=/work"}, false},
		"another namespace":            {[]string{"runner", "--namespace=m", "--run=a-r1", "--work-dir=/work"}, false},
		"another manager":              {[]string{"runner", "--namespace=n", "--run=a-r1", "--work-dir=/other"}, false},
		"another program":              {[]string{"tofu", "apply"}, false},
	} {
		NewWithT(t).Expect(r.isRunner(tt.args)).To(Equal(tt.want), name)
	}
}

func TestOthersRunning_ignoresYoungerRunners(t *testing.T) {
	g := NewWithT(t)
	r := &Runner{Config: Config{Namespace: "n", RunID: "others-r2", WorkDir: t.TempDir()}}
	cmd := exec.Command("/bin/sh", "-c", "while :; do sleep 1; done", "--namespace=n", "--run=others-r1", "--work-dir="+r.WorkDir)
	g.Expect(cmd.Start()).To(Succeed())
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	g.Expect(r.othersRunning()()).To(BeFalse(), "a younger runner waits for this one")
}

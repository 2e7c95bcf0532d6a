package fleet

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/appthrust/capt/internal/testenv"
)

// memory is the memory of a process.
type memory struct {
	// ResidentMiB is all memory that the process has in RAM (VmRSS).
	ResidentMiB float64 `json:"residentMiB"`
	// AnonymousMiB is the part of it that the kernel cannot reclaim (RssAnon). The other
	// part are pages of the program's file, which the kernel drops and reads again.
	AnonymousMiB float64 `json:"anonymousMiB"`
	// PeakMiB is the maximum of ResidentMiB (VmHWM).
	PeakMiB float64 `json:"peakMiB"`
	// WorkingSetMiB is what a kubelet would measure for the container, and WorkingSetPeakMiB its
	// maximum. Both are 0 where this user cannot create control groups.
	WorkingSetMiB     float64 `json:"workingSetMiB"`
	WorkingSetPeakMiB float64 `json:"workingSetPeakMiB"`
}

// limitedMiB returns the peak of the memory that a limit applies to. All of it is resident.
func (m memory) limitedMiB() float64 {
	if m.WorkingSetPeakMiB > 0 {
		return m.WorkingSetPeakMiB
	}
	return m.PeakMiB
}

// memory returns the memory of the manager.
func (m *managerProcess) memory(t *testing.T) memory {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", m.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for line := range strings.Lines(string(text)) {
		name, rest, _ := strings.Cut(line, ":")
		if value, isMemory := strings.CutSuffix(strings.TrimSpace(rest), " kB"); isMemory {
			kib, err := strconv.Atoi(value)
			if err != nil {
				t.Fatal(err)
			}
			values[name] = float64(kib) / 1024
		}
	}
	return memory{
		ResidentMiB: values["VmRSS"], AnonymousMiB: values["RssAnon"], PeakMiB: values["VmHWM"],
		WorkingSetMiB: m.group.workingSet(), WorkingSetPeakMiB: m.group.peakMiB(),
	}
}

// number returns the number in an environment variable.
func number(t *testing.T, name string, otherwise int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	value, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return value
}

// awaitCaches waits until the manager reconciles.
func awaitCaches(t *testing.T, env *testenv.Environment, namespace string) {
	t.Helper()
	g := NewWithT(t)
	probe := template("probe", vpcModule, nil)
	probe.Namespace = namespace
	g.Expect(env.Client.Create(t.Context(), probe)).To(Succeed())
	g.Eventually(func(g Gomega) {
		g.Expect(env.Client.Get(t.Context(), client.ObjectKeyFromObject(probe), probe)).To(Succeed())
		g.Expect(probe.Status.Conditions).NotTo(BeEmpty())
	}, testTimeout, time.Second).Should(Succeed())
	g.Expect(env.Client.Delete(t.Context(), probe)).To(Succeed())
}

// await waits until a condition of so many objects of a kind is true.
func await(t *testing.T, env *testenv.Environment, namespace string, list client.ObjectList, condition string, count int) {
	t.Helper()
	g := NewWithT(t)
	g.Eventually(func() (found int) {
		g.Expect(env.Client.List(t.Context(), list, client.InNamespace(namespace))).To(Succeed())
		g.Expect(meta.EachListItem(list, func(obj runtime.Object) error {
			if conditions.IsTrue(obj.(conditions.Getter), condition) {
				found++
			}
			return nil
		})).To(Succeed())
		return found
	}, testTimeout, time.Second).Should(Equal(count))
}

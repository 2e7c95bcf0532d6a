package controlplane

import (
	"context"
	"encoding/base64"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/testenv"
)

func TestModules_areFormatted(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	root, err := testenv.Root()
	g.Expect(err).NotTo(HaveOccurred())
	tofu, err := testenv.Part("tofu")
	g.Expect(err).NotTo(HaveOccurred())
	cmd := exec.CommandContext(t.Context(), tofu, "fmt", "-check", "-diff", "-recursive", filepath.Join(root, "modules", "local"))
	cmd.Env = []string{"TF_CLI_CONFIG_FILE=" + os.DevNull}
	out, err := cmd.CombinedOutput()
	g.Expect(err).NotTo(HaveOccurred(), string(out))
}

// A template contains a module as one text, and must not require downloads.
func TestModules_useNoProvider(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	for _, module := range []string{"network", "cluster", "machine", "node-group"} {
		text := string(moduleText(t, module))
		for _, resource := range regexp.MustCompile(`(?m)^(?:resource|data|module) "([^"]+)"`).FindAllStringSubmatch(text, -1) {
			g.Expect(resource[1]).To(Equal("terraform_data"), module)
		}
		for _, block := range regexp.MustCompile(`(?ms)^(?:variable|output) "[^"]+" \{.*?^\}`).FindAllString(text, -1) {
			g.Expect(block).To(MatchRegexp(`(?m)^  description += ".+\."$`), module)
		}
	}
}

func TestModules_rejectInvalidValues(t *testing.T) {
	t.Parallel()
	good := map[string]map[string]any{
		"network":    {"name": "demo"},
		"cluster":    {"cluster_name": "demo", "kubernetes_version": "1.36"},
		"machine":    {"name": "n", "cluster_name": "demo", "kubeconfig": "clusters: [{cluster: {server: x}}]"},
		"node-group": {"name": "n", "cluster_name": "demo", "kubeconfig": "clusters: [{cluster: {server: x}}]"},
	}
	bad := []struct {
		module, variable string
		value            any
		advice           string
	}{
		{"network", "name", "", "must begin with a letter"},
		{"network", "cidr", "10.0.0.0/30", "such as 10.0.0.0/16"},
		{"network", "azs", []string{"a", "a"}, "different zones"},
		{"network", "nat_gateway", "single", "Write Single"},
		{"cluster", "cluster_name", "a/b", "letters, digits, dashes"},
		{"cluster", "kubernetes_version", "latest", "Write the version like 1.36"},
		{"cluster", "directory", "relative/path", "Write an absolute path"},
		{"cluster", "directory", "/tmp/../etc", "Write an absolute path"},
		{"cluster", "endpoint_public_access_cidrs", []string{"all"}, "Write ranges"},
		{"cluster", "with", []string{"kubelet"}, "Choose from controller-manager"},
		{"cluster", "program", "", "Write the path of localcluster"},
		{"machine", "name", "Upper", "lower-case letters"},
		{"machine", "kubeconfig", "", "set it to the output kubeconfig"},
		{"machine", "taints", []map[string]string{{"key": "a", "effect": "Never"}}, "NoSchedule, PreferNoSchedule or NoExecute"},
		{"machine", "availability_zone", "a/b", "The zone becomes a label"},
		{"node-group", "desired_size", 9, "must be between min_size and max_size"},
		{"node-group", "capacity_type", "FREE", "Write ON_DEMAND or SPOT"},
		{"node-group", "instance_types", []string{}, "Set at least one instance type"},
		{"node-group", "min_size", 1.5, "Write a whole number"},
	}
	for module, vars := range good {
		g := NewWithT(t)
		w := newWorkspace(t, module, vars)
		w.must(t, "plan", "-input=false")
		for _, test := range bad {
			if test.module != module {
				continue
			}
			before, had := w.vars[test.variable]
			w.vars[test.variable] = test.value
			out, code := w.run(t, "plan", "-input=false")
			g.Expect(code).To(Equal(1), "%+v: %s", test, out)
			g.Expect(regexp.MustCompile(`\s+`).ReplaceAllString(strings.ReplaceAll(out, "│", ""), " ")).To(ContainSubstring(test.advice), "%+v", test)
			delete(w.vars, test.variable)
			if had {
				w.vars[test.variable] = before
			}
		}
	}
}

func TestNetworkModule(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	w := newWorkspace(t, "network", map[string]any{"name": "demo", "region": "somewhere", "cluster_name": "demo", "azs": []string{"z-a", "z-b"}})
	w.apply(t)
	w.settled(t)
	first := w.outputs(t)
	g.Expect(first["vpc_id"]).To(MatchRegexp(`^vpc-[0-9a-f]{17}$`))
	subnets := append(texts(first["private_subnets"]), texts(first["public_subnets"])...)
	g.Expect(subnets).To(HaveLen(4))
	g.Expect(subnets).To(HaveEach(MatchRegexp(`^subnet-[0-9a-f]{17}$`)))
	unique := map[string]bool{}
	for _, subnet := range subnets {
		unique[subnet] = true
	}
	g.Expect(unique).To(HaveLen(4))
	g.Expect(texts(first["azs"])).To(Equal([]string{"z-a", "z-b"}))
	g.Expect(first["vpc_cidr"]).To(Equal("10.0.0.0/16"))

	w.vars["azs"], w.vars["nat_gateway"] = []string{"z-a", "z-b", "z-c"}, "PerZone"
	g.Expect(w.actions(t)).To(Equal(map[string]string{
		`terraform_data.private_subnet["z-c"]`: "create", `terraform_data.public_subnet["z-c"]`: "create",
		`terraform_data.nat_gateway["z-b"]`: "create", `terraform_data.nat_gateway["z-c"]`: "create",
	}), "existing resources stay")
	w.apply(t)
	w.settled(t)
	g.Expect(w.outputs(t)["vpc_id"]).To(Equal(first["vpc_id"]))
	w.destroy(t)
	w.apply(t)
	g.Expect(w.outputs(t)["vpc_id"]).NotTo(Equal(first["vpc_id"]), "a new network has a new ID")
	w.destroy(t)
}

func TestClusterModule(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	cluster := newCluster(t)
	w := newWorkspace(t, "cluster", map[string]any{
		"cluster_name": "demo", "kubernetes_version": "v1.36.4", "directory": cluster.Dir, "program": program, "with": []string{},
		"region": "somewhere", "vpc_id": "vpc-1", "subnet_ids": []string{"subnet-1"}, "cluster_addons": map[string]any{"coredns": map[string]any{}},
	})
	w.apply(t)
	w.settled(t)
	first := w.outputs(t)
	g.Expect(first["cluster_endpoint"]).To(Equal(trim(read(t, layout(cluster.Dir).endpoint()))))
	g.Expect(first["cluster_version"]).To(Equal("1.36"))
	g.Expect(first["kubeconfig"]).To(Equal(read(t, layout(cluster.Dir).kubeconfig())))
	ca, err := base64.StdEncoding.DecodeString(first["cluster_certificate_authority_data"].(string))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(ca)).To(Equal(read(t, layout(cluster.Dir).caCertificate())))
	g.Expect(first["cluster_arn"]).To(Equal("arn:aws:eks:somewhere:000000000000:cluster/demo"))
	note(t, cluster, "before")
	before := part(t, cluster, APIServer)

	// A variable that only a cloud would use changes the state and nothing else.
	w.vars["tags"] = map[string]string{"team": "a"}
	g.Expect(w.actions(t)).To(Equal(map[string]string{"terraform_data.cluster": "update"}))
	w.apply(t)
	g.Expect(part(t, cluster, APIServer)).To(Equal(before))

	w.vars["kubernetes_version"] = "1.37"
	g.Expect(w.actions(t)).To(Equal(map[string]string{"terraform_data.version": "delete create"}), "the cluster is not replaced")
	w.apply(t)
	w.settled(t)
	upgraded := w.outputs(t)
	g.Expect(upgraded["cluster_version"]).To(Equal("1.37"))
	g.Expect(upgraded["kubeconfig"]).To(Equal(first["kubeconfig"]))
	g.Expect(emulated(t, cluster)).To(Equal("1.37"))
	g.Expect(findNote(t, cluster, "before")).To(Succeed())

	// A plan detects a killed supervisor, for example after a restart of the machine.
	status, err := cluster.Status(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(syscall.Kill(status.Supervisor.PID, syscall.SIGKILL)).To(Succeed())
	g.Eventually(status.Supervisor.alive).Should(BeFalse(), "the supervisor was killed")
	g.Expect(w.actions(t)).To(Equal(map[string]string{"terraform_data.version": "delete create"}))
	// A plan detects a removed directory.
	g.Expect(os.RemoveAll(cluster.Dir)).To(Succeed())
	g.Expect(w.actions(t)).To(Equal(map[string]string{"terraform_data.version": "delete create"}))
	w.must(t, "plan", "-refresh-only", "-input=false")
	w.apply(t)
	w.settled(t)
	g.Expect(w.outputs(t)["kubeconfig"]).NotTo(Equal(first["kubeconfig"]), "it is a new cluster")
	g.Expect(namespacesOf(t, w.outputs(t)["kubeconfig"].(string))).To(Succeed())

	g.Expect(os.RemoveAll(cluster.Dir)).To(Succeed())
	w.destroy(t)
	g.Eventually(testenv.ProcessesOf).WithArguments(cluster.Dir).Should(BeEmpty())
	expectNoKeys(t, w, first["kubeconfig"].(string))
}

// The worst case: tofu is killed while the control plane starts, and the state does not
// contain it.
func TestClusterModule_survivesAKilledApply(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	name := "killed-" + itoa(os.Getpid())
	w := newWorkspace(t, "cluster", map[string]any{"cluster_name": name, "kubernetes_version": "1.37", "with": []string{}})
	cmd, err := w.command(t.Context(), "apply", "-auto-approve", "-input=false", "-no-color")
	g.Expect(err).NotTo(HaveOccurred())
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	g.Expect(cmd.Start()).To(Succeed())
	var found []string
	g.Eventually(func() []string {
		found, _ = filepath.Glob("/tmp/capt-local-" + name + "-*/supervisor")
		return found
	}).Should(HaveLen(1), "the supervisor has started")
	g.Expect(syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)).To(Succeed())
	_ = cmd.Wait()
	cluster, err := New(filepath.Dir(found[0]))
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { g.Expect(cluster.Down(context.Background())).To(Succeed()) })
	states, err := filepath.Glob(filepath.Join(w.dir, "terraform.tfstate*"))
	g.Expect(err).NotTo(HaveOccurred())
	for _, state := range states {
		g.Expect(os.Remove(state)).To(Succeed())
	}

	w.apply(t)
	w.settled(t)
	g.Expect(namespacesOf(t, w.outputs(t)["kubeconfig"].(string))).To(Succeed())
	found, err = filepath.Glob("/tmp/capt-local-" + name + "-*")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(found).To(Equal([]string{cluster.Dir}), "the second apply continues the first")

	// The state contains the directory, so tofu may run elsewhere.
	moved := filepath.Join(t.TempDir(), "elsewhere")
	g.Expect(os.Rename(w.dir, moved)).To(Succeed())
	w.dir = moved
	w.settled(t)
	w.destroy(t)
	g.Expect(cluster.Dir).NotTo(BeADirectory())
	g.Expect(testenv.ProcessesOf(cluster.Dir)).To(BeEmpty())
}

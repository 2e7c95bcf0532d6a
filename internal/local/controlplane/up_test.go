package controlplane

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdv1 "k8s.io/client-go/tools/clientcmd/api/v1"
	"sigs.k8s.io/yaml"

	"github.com/appthrust/capt/internal/host"
	"github.com/appthrust/capt/internal/testenv"
	"github.com/appthrust/capt/internal/testenv/waits"
)

func TestUp_isIdempotent(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	cluster := newCluster(t)
	first := mustUp(t, cluster, spec(func(s *Spec) { s.Incarnation = "one" }))
	g.Expect(first.Endpoint).To(MatchRegexp(`^https://127\.0\.0\.1:\d+$`))
	g.Expect(first.Parts).To(HaveLen(2))
	g.Expect(read(t, layout(cluster.Dir).incarnation())).To(Equal("one"))
	kubeconfig := read(t, layout(cluster.Dir).kubeconfig())
	g.Expect(kubeconfig).NotTo(ContainSubstring("exec"))
	note(t, cluster, "written")

	second := mustUp(t, cluster, spec(func(s *Spec) { s.Incarnation = "one" }))
	g.Expect(second).To(Equal(first), "the same processes with the same restarts")
	g.Expect(read(t, layout(cluster.Dir).kubeconfig())).To(Equal(kubeconfig))

	config, err := clientcmd.RESTConfigFromKubeConfig([]byte(kubeconfig))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(config.CAData).To(Equal([]byte(read(t, filepath.Join(cluster.Dir, "ca.crt")))))

	t.Run("Stop keeps the data for the next Up", func(t *testing.T) {
		g := NewWithT(t)
		g.Expect(cluster.Stop(t.Context())).To(Succeed())
		g.Expect(testenv.ProcessesOf(cluster.Dir)).To(BeEmpty())
		// A process that another test starts has the lock until it executes its program.
		g.Eventually(host.IsLocked).WithArguments(layout(cluster.Dir).supervisorLock()).Should(BeFalse())
		stopped, err := cluster.Status(t.Context())
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(stopped.Exists).To(BeTrue())
		g.Expect(stopped.Running || stopped.Ready || stopped.Parts[0].Running).To(BeFalse())
		third := mustUp(t, cluster, spec())
		g.Expect(third.Endpoint).To(Equal(first.Endpoint))
		g.Expect(findNote(t, cluster, "written")).To(Succeed())
	})
}

// A caller that reads the output to its end, as Terraform does, must not wait for the
// supervisor, and the supervisor must not inherit the caller's environment.
func TestUp_startsASupervisorThatInheritsNothing(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	cluster := newCluster(t)
	ctx, cancel := context.WithTimeout(t.Context(), waits.Timeout)
	defer cancel()
	inherited, err := os.Open(os.DevNull)
	g.Expect(err).NotTo(HaveOccurred())
	defer inherited.Close()
	reader, writer, err := os.Pipe()
	g.Expect(err).NotTo(HaveOccurred())
	defer reader.Close()

	cmd := exec.CommandContext(ctx, program, "up", "--dir", cluster.Dir, "--name", "demo", "--kubernetes-version", "v1.37.9", "--bin-dir", assets)
	cmd.Env = append(os.Environ(), "AWS_SECRET_ACCESS_KEY=secret-of-the-caller")
	cmd.ExtraFiles = []*os.File{writer}
	out, err := cmd.CombinedOutput()
	g.Expect(err).NotTo(HaveOccurred(), string(out))
	g.Expect(string(out)).To(MatchRegexp(`^demo is ready at https://127.0.0.1:\d+ with Kubernetes 1.37 after`))

	g.Expect(writer.Close()).To(Succeed())
	g.Expect(reader.SetReadDeadline(time.Now().Add(waits.Timeout))).To(Succeed())
	g.Expect(reader.Read(make([]byte, 1))).Error().To(MatchError("EOF"), "no process has the other end open")

	status, err := cluster.Status(ctx)
	g.Expect(err).NotTo(HaveOccurred())
	pids := []int{status.Supervisor.PID}
	for _, p := range status.Parts {
		pids = append(pids, p.PID)
	}
	for _, pid := range pids {
		environ, err := os.ReadFile(filepath.Join("/proc", itoa(pid), "environ"))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(string(environ)).To(ContainSubstring("PATH="))
		g.Expect(string(environ)).NotTo(ContainSubstring("secret-of-the-caller"))
	}

	out, err = exec.CommandContext(ctx, program, "status", "--dir", cluster.Dir, "-o", "json").Output()
	g.Expect(err).NotTo(HaveOccurred())
	var printed Status
	g.Expect(json.Unmarshal(out, &printed)).To(Succeed())
	g.Expect(&printed).To(Equal(status))
	out, err = exec.CommandContext(ctx, program, "down", "--dir", cluster.Dir).CombinedOutput()
	g.Expect(err).NotTo(HaveOccurred(), string(out))
	g.Expect(exec.CommandContext(ctx, program, "status", "--dir", cluster.Dir).Run()).NotTo(Succeed(), "it is not ready")
}

func TestUp_recoversFromKilledSupervisor(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	cluster := newCluster(t)
	before := mustUp(t, cluster, spec())
	note(t, cluster, "before")

	g.Expect(syscall.Kill(before.Supervisor.PID, syscall.SIGKILL)).To(Succeed())
	g.Eventually(before.Supervisor.alive).Should(BeFalse(), "the supervisor was killed")
	after := mustUp(t, cluster, spec())
	g.Expect(after.Endpoint).To(Equal(before.Endpoint))
	g.Expect(after.Supervisor.PID).NotTo(Equal(before.Supervisor.PID))
	g.Expect(findNote(t, cluster, "before")).To(Succeed())
	for _, p := range before.Parts {
		g.Expect(p.alive()).To(BeFalse(), p.Name)
	}
}

func TestUp_upgradesInPlace(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	cluster := newCluster(t)
	at := func(version string) Spec { return spec(func(s *Spec) { s.KubernetesVersion = version }) }
	before := mustUp(t, cluster, at("1.36"))
	g.Expect(emulated(t, cluster)).To(Equal("1.36"))
	kubeconfig := read(t, layout(cluster.Dir).kubeconfig())
	note(t, cluster, "before")

	g.Expect(cluster.Up(t.Context(), at("1.12"))).Error().To(MatchError(MatchRegexp(`kube-apiserver cannot run Kubernetes 1\.12: choose a version from 1\.34 to 1\.37`)))
	g.Expect(cluster.Status(t.Context())).To(Equal(before), "a refused version changes nothing")

	after := mustUp(t, cluster, at("1.37"))
	g.Expect(emulated(t, cluster)).To(Equal("1.37"))
	g.Expect(after.KubernetesVersion).To(Equal("1.37"))
	g.Expect(after.Endpoint).To(Equal(before.Endpoint))
	g.Expect(after.Parts[0]).To(Equal(before.Parts[0]), "etcd is not restarted")
	g.Expect(after.Parts[1].PID).NotTo(Equal(before.Parts[1].PID))
	g.Expect(read(t, layout(cluster.Dir).kubeconfig())).To(Equal(kubeconfig))
	g.Expect(findNote(t, cluster, "before")).To(Succeed())
}

// emulated returns the version that the API server emulates.
func emulated(t *testing.T, cluster *Cluster) string {
	t.Helper()
	l := layout(cluster.Dir)
	httpClient, err := l.client(probeTimeout)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := httpClient.Get(trim(read(t, l.endpoint())) + "/version")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var version struct{ EmulationMajor, EmulationMinor string }
	if err := json.NewDecoder(resp.Body).Decode(&version); err != nil {
		t.Fatal(err)
	}
	return version.EmulationMajor + "." + version.EmulationMinor
}

func TestUp_givesUpOnAPartThatExitsRepeatedly(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	cluster := newCluster(t)
	bin := t.TempDir()
	real, err := findProgram(APIServer, assets)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(os.Symlink(real, filepath.Join(bin, APIServer))).To(Succeed())
	broken := "#!/bin/sh\necho the disk is on fire >&2\nexit 3\n"
	g.Expect(os.WriteFile(filepath.Join(bin, Etcd), []byte(broken), 0o755)).To(Succeed())
	g.Expect(cluster.Up(t.Context(), spec(func(s *Spec) { s.BinDir = bin }))).Error().To(MatchError(And(ContainSubstring("etcd exited"), ContainSubstring("exit status 3"), ContainSubstring("the disk is on fire"))))

	t.Run("and recovers when the part is fixed", func(t *testing.T) {
		mustUp(t, cluster, spec())
	})
}

func TestUp_configuresTheTokenWebhook(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	webhook := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review authenticationv1.TokenReview
		_ = json.NewDecoder(r.Body).Decode(&review)
		if review.Spec.Token == "good" {
			review.Status = authenticationv1.TokenReviewStatus{
				Authenticated: true, User: authenticationv1.UserInfo{Username: "user", Groups: []string{"system:masters"}},
			}
		}
		_ = json.NewEncoder(w).Encode(review)
	}))
	defer webhook.Close()
	file := filepath.Join(t.TempDir(), "webhook.yaml")
	content, err := yaml.Marshal(clientcmdv1.Config{
		APIVersion: "v1", Kind: "Config", CurrentContext: "w",
		Clusters: []clientcmdv1.NamedCluster{{Name: "w", Cluster: clientcmdv1.Cluster{
			Server: webhook.URL, CertificateAuthorityData: encodeCertificate(webhook.Certificate().Raw),
		}}},
		AuthInfos: []clientcmdv1.NamedAuthInfo{{Name: "w"}},
		Contexts:  []clientcmdv1.NamedContext{{Name: "w", Context: clientcmdv1.Context{Cluster: "w", AuthInfo: "w"}}},
	})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(os.WriteFile(file, content, 0o600)).To(Succeed())

	cluster := newCluster(t)
	mustUp(t, cluster, spec(func(s *Spec) { s.TokenWebhook = file }))
	admin, err := clientcmd.BuildConfigFromFlags("", layout(cluster.Dir).kubeconfig())
	g.Expect(err).NotTo(HaveOccurred())
	authenticate := func(token string) error {
		config := rest.AnonymousClientConfig(admin)
		config.BearerToken = token
		return namespaces(t, config)
	}
	g.Expect(authenticate("good")).To(Succeed())
	g.Expect(apierrors.IsUnauthorized(authenticate("bad"))).To(BeTrue())
}

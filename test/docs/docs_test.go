// Package docs runs the commands of the documentation: the blocks of one scenario, in
// the order of the pages, in one shell.
package docs

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/testenv"
)

// testTimeout is how long a scenario may take on a busy machine.
const testTimeout = 6 * time.Minute

// scenario is a sequence of command blocks.
type scenario struct {
	name string
	// pages are the pages with its blocks, in order. No other page may have one.
	pages []string
	// before and after are commands that the reader does not run: they prepare the
	// files that the text assumes, and check the result.
	before, after string
}

var scenarios = []scenario{
	{name: "engine", pages: []string{"README.md", "README.ja.md"}},
	{name: "own-module", pages: []string{"docs/own-module.md"}},
	{
		name:  "upgrade",
		pages: []string{"docs/upgrade-tutorial.md"},
		after: `test -z "$(kubectl get workspacetemplateapplies -o name)"`,
	},
	{
		name:   "disaster-recovery",
		pages:  []string{"docs/disaster-recovery.md"},
		before: `ln -s "$NEW_KUBECONFIG" new.kubeconfig; old=$KUBECONFIG`,
		// The first management cluster was not lost.
		after: `
export KUBECONFIG=$old
kubectl delete workspacetemplateapply precious
kubectl delete workspacetemplate precious
`,
	},
	{
		name:  "gitops",
		pages: []string{"docs/gitops.md"},
		after: `test -z "$(kubectl get clusters staging --ignore-not-found -o name)"`,
	},
	{
		name:  "workspace",
		pages: []string{"docs/runs.md", "docs/state.md", "docs/pull-requests.md"},
		before: `
mkdir -p modules/network
cat > modules/network/main.tf <<'EOF'
variable "cidr" {
  type = string
}

resource "terraform_data" "network" {
  input = var.cidr
}

output "cidr" {
  value = terraform_data.network.output
}
EOF
kubectl apply -f - <<EOF
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: WorkspaceTemplate
metadata:
  name: network
spec:
  template:
    spec:
      approval: Manual
      forProvider:
        source: Inline
        module: |
$(sed 's/^/          /' modules/network/main.tf)
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: WorkspaceTemplateApply
metadata:
  name: network-a
spec:
  templateRef: {name: network}
  variables: {cidr: 10.0.0.0/16}
EOF
kubectl wait wsta network-a --for=jsonpath='{.status.conditions[?(@.type=="Ready")].reason}'=WaitingForApproval --timeout=2m
# The module of a pull request.
echo 'output "more" { value = 1 }' >> modules/network/main.tf
`,
		after: `
grep -q network-a comment.md
kubectl delete wsta network-a
kubectl delete workspacetemplate network
`,
	},
	{
		name:  "cluster",
		pages: []string{"docs/captctl.md", "docs/machines.md", "docs/troubleshooting.md", "docs/install.md"},
		before: `
captctl generate cluster demo --flavor local --set WORKER_MACHINE_COUNT=1 --set FLUX_ENABLED=false --set KARPENTER_ENABLED=false | kubectl apply -f -
kubectl wait cluster demo --for=condition=Available --timeout=4m
kubectl apply -f - <<EOF
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: CAPTMachineDeployment
metadata:
  name: workers
spec:
  clusterName: demo
  replicas: 1
  selector:
    matchLabels: {pool: workers}
  template:
    metadata:
      labels: {pool: workers}
    spec:
      workspaceTemplateRef: {name: local-node}
EOF
kubectl wait captmd workers --for=jsonpath='{.status.readyReplicas}'=1 --timeout=2m
`,
		after: `
kubectl wait captmd workers --for=jsonpath='{.status.readyReplicas}'=5 --timeout=2m
kubectl delete cluster demo --timeout=4m
test -z "$(kubectl get captmachines,captcontrolplanes -o name)"
`,
	},
	{
		name:  "from-terraform",
		pages: []string{"docs/migrate-from-terraform.md", "docs/approvals.md"},
		after: `
captctl state list blue | grep -qx terraform_data.network
test "$(kubectl get secret blue-connection -o jsonpath='{.data.network}' | base64 -d)" = "network of green"
test "$(captctl history blue -o json | jq '[.finished[] | select(.operation == "Apply")] | length')" = 1
`,
	},
	{
		name:  "cluster-from-terraform",
		pages: []string{"docs/migrate-from-terraform.md"},
		// The resources are those of the old tool, and CAPT has applied nothing.
		after: `
for part in network=demo-vpc cluster=demo; do
  test "$(captctl state pull "${part#*=}" | jq -c '[.resources[].instances[].attributes.id]')" = "$(jq -c '[.resources[].instances[].attributes.id]' "${part%=*}.tfstate")"
  test "$(captctl history "${part#*=}" -o json | jq '[.finished[] | select(.operation | contains("Apply"))] | length')" = 0
done
test "$(kubectl get captcluster demo -o jsonpath='{.status.vpcId}')" = "$(tofu -chdir=network output -raw vpc_id)"
kubectl delete cluster demo --timeout=4m
kubectl delete workspacetemplate demo-vpc demo-controlplane
`,
	},
	{
		// It continues from-terraform: blue exists.
		name:  "backup",
		pages: []string{"docs/backup.md"},
		// Policies and grants come back with the workspaces, and select namespaces by label.
		before: `
id=$(captctl state pull blue | jq -r '.resources[0].instances[0].attributes.id'); ln -s "$NEW_KUBECONFIG" new.kubeconfig
kubectl label namespace default stage=production
kubectl apply -f - <<'YAML'
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: ClusterWorkspacePolicy
metadata: {name: production}
spec:
  namespaceSelector: {matchLabels: {stage: production}}
  rules:
  - {name: not-black, action: Deny, expression: '!("delete" in resource.actions) && resource.after.input == "network of black"', message: Black is not allowed}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: WorkspacePolicy
metadata: {name: report}
spec:
  rules: [{name: creates, action: Warn, expression: '"create" in resource.actions', message: Something is created}]
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: CAPTReferenceGrant
metadata: {name: lent}
spec:
  from: [{namespaces: [team]}]
  to: [{kind: WorkspaceTemplate}, {kind: WorkspaceProviderConfig}]
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: WorkspaceProviderConfig
metadata: {name: lent}
spec: {}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: WorkspaceTemplate
metadata: {name: lent}
spec:
  template:
    spec:
      providerConfigRef: {name: lent}
      forProvider:
        source: Inline
        module: 'resource "terraform_data" "lent" { input = "lent" }'
---
apiVersion: v1
kind: Namespace
metadata: {name: team}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: WorkspaceTemplateApply
metadata: {name: guest, namespace: team}
spec:
  templateRef: {name: lent, namespace: default}
YAML
kubectl -n team wait --for=condition=Ready wsta/guest --timeout=2m
guest=$(captctl state pull team.guest | jq -r '.resources[0].instances[0].attributes.id')
# A workspace with an owner is not copied.
owner=$(kubectl get serviceaccount default -o jsonpath='{.metadata.uid}')
kubectl apply -f - <<YAML
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: WorkspaceTemplateApply
metadata:
  name: owned
  annotations: {cluster.x-k8s.io/paused: ""}
  ownerReferences: [{apiVersion: v1, kind: ServiceAccount, name: default, uid: "$owner"}]
spec:
  templateRef: {name: team-network}
  variables: {team: owned}
YAML
`,
		after: `
export KUBECONFIG=new.kubeconfig
kubectl get clusterworkspacepolicy/production
kubectl get workspacepolicy/report captreferencegrant/lent
kubectl -n team wait --for=condition=Ready wsta/guest --timeout=2m
test "$(captctl state pull team.guest | jq -r '.resources[0].instances[0].attributes.id')" = "$guest"
kubectl -n team delete wsta guest
test -z "$(kubectl get wsta owned --ignore-not-found -o name)"
test "$(captctl state pull blue | jq -r '.resources[0].instances[0].attributes.id')" = "$id"
test "$(captctl history blue -o json | jq '[.finished[] | select(.operation == "Apply")] | length')" = 0
kubectl patch wsta blue --type=merge -p '{"spec":{"variables":{"team":"black"}}}'
kubectl wait --for=jsonpath='{.status.conditions[?(@.type=="Ready")].reason}'=PolicyDenied wsta/blue --timeout=2m
kubectl patch wsta blue --type=merge -p '{"spec":{"variables":{"team":"red"}}}'
kubectl wait --for=jsonpath='{.status.conditions[?(@.type=="Ready")].reason}'=WaitingForApproval wsta/blue --timeout=2m
captctl approve blue --yes --wait
kubectl delete wsta blue
test -z "$(kubectl get secrets -o name | grep tfstate)"
`,
	},
}

// elsewhere are the scenarios that another test runs.
var elsewhere = map[string]string{
	// It needs an AWS account.
	"docs/aws.md aws-real":                 "test/aws TestReal_livesAndLeavesNothing",
	"docs/aws.md aws":                      "test/aws TestDocs_leadFromAnAccountToAClusterAndBack",
	"docs/backup.md backup-etcd":           "test/clusterctl TestBackup_restoresEtcd",
	"docs/backup.md backup-fence":          "test/clusterctl TestBackup_fencesKubeadm",
	"docs/backup.md backup-hold":           "test/clusterctl TestBackup_holdsByOwnName",
	"docs/backup.md backup-hold-namespace": "test/clusterctl TestBackup_holdsByOwnName",
	"docs/backup.md backup-clusterctl":     "test/clusterctl TestBackup_restoresDirectory",
	"docs/backup.md backup-states":         "test/clusterctl TestBackup_restoresEtcd",
	"docs/backup.md backup-release":        "test/clusterctl TestBackup_restoresEtcd",
}

var named = regexp.MustCompile(`<!-- run: ([a-z-]+) -->`)

func readPage(t *testing.T, root, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return string(text)
}

// Every block that is marked as run belongs to a scenario, and every scenario has
// blocks.
func TestScenarios_haveBlocks(t *testing.T) {
	g := NewWithT(t)
	root, err := testenv.Root()
	g.Expect(err).NotTo(HaveOccurred())
	expected := map[string]bool{}
	for _, s := range scenarios {
		for _, page := range s.pages {
			g.Expect(testenv.Blocks(readPage(t, root, page), s.name)).NotTo(BeEmpty(), "%s has no block of %s", page, s.name)
			expected[page+" "+s.name] = true
		}
	}
	list := exec.Command("git", "ls-files", "-z", "--", "*.md")
	list.Dir = root
	pages, err := list.Output()
	g.Expect(err).NotTo(HaveOccurred())
	for name := range strings.SplitSeq(strings.TrimSuffix(string(pages), "\x00"), "\x00") {
		for _, match := range named.FindAllStringSubmatch(readPage(t, root, name), -1) {
			if elsewhere[name+" "+match[1]] == "" {
				g.Expect(expected).To(HaveKey(name+" "+match[1]), "no scenario runs the block")
			}
		}
	}
}

func TestBlocks_areUnindented(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	text := "1. a\n\n   <!-- run: one -->\n   ```sh\n   a <<E\n     b\n   E\n   ```\n\n<!-- run: two -->\n```sh\nc\n```\n<!-- run: one -->\n```sh\nd\n```\n"
	g.Expect(testenv.Blocks(text, "one")).To(Equal([]string{"\na <<E\n  b\nE", "\nd"}))
	g.Expect(testenv.Blocks(text, "two")).To(Equal([]string{"\nc"}))
}

// environment starts a local management cluster and returns its directory.
func environment(t *testing.T, captctl, base, name string) string {
	t.Helper()
	t.Cleanup(func() {
		out, err := exec.CommandContext(context.Background(), captctl, "local", "down", name, "--dir", base, "--yes").CombinedOutput()
		if err != nil {
			t.Errorf("stopping %s: %v: %s", name, err, out)
		}
	})
	out, err := exec.CommandContext(t.Context(), captctl, "local", "up", name, "--dir", base, "--timeout", testTimeout.String()).CombinedOutput()
	NewWithT(t).Expect(err).NotTo(HaveOccurred(), string(out))
	return filepath.Join(base, name)
}

func TestDocs_runsBlocks(t *testing.T) {
	if os.Getenv("CAPT_TEST_DOCS") == "" {
		t.Skip("run `make test-docs`: the test starts two management clusters")
	}
	g := NewWithT(t)
	root, err := testenv.Root()
	g.Expect(err).NotTo(HaveOccurred())
	captctl, err := testenv.Built("captctl")
	g.Expect(err).NotTo(HaveOccurred())
	base := t.TempDir()
	current, fresh := environment(t, captctl, base, "current"), environment(t, captctl, base, "fresh")
	path := strings.Join([]string{filepath.Join(current, "bin"), filepath.Join(root, "bin", "parts"), os.Getenv("PATH")}, string(os.PathListSeparator))
	for _, s := range scenarios {
		passed := t.Run(s.name, func(t *testing.T) {
			g := NewWithT(t)
			script := []string{s.before}
			for _, page := range s.pages {
				script = append(script, testenv.Blocks(readPage(t, root, page), s.name)...)
			}
			ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
			defer cancel()
			shell := exec.CommandContext(ctx, "bash", "-euxo", "pipefail", "-c", strings.Join(append(script, s.after), "\n"))
			shell.Dir = t.TempDir()
			shell.Env = []string{
				"PATH=" + path, "HOME=" + base, "CAPT_ROOT=" + root,
				"KUBECONFIG=" + filepath.Join(current, "kubeconfig"), "NEW_KUBECONFIG=" + filepath.Join(fresh, "kubeconfig"),
			}
			out, err := shell.CombinedOutput()
			g.Expect(err).NotTo(HaveOccurred(), string(out))
			t.Logf("%s", out)
		})
		if !passed {
			return
		}
	}
}

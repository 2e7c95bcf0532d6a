package chart_test

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/addon/chart"
	"github.com/appthrust/capt/internal/addon/targetpath"
)

func check(c *chart.Chart, path string) error {
	segments, err := targetpath.Parse(path)
	if err != nil {
		return err
	}
	return c.CheckPath(segments)
}

func TestCheckPath_acceptsPathsInTheValues(t *testing.T) {
	c := anchor().load(t)
	for _, path := range []string{
		`replicas`,
		`settings.clusterName`,
		`settings.featureGates.spotToSpot`,
		`serviceAccount.annotations.eks\.amazonaws\.com/role-arn`,
		`affinity.nodeAffinity.anything`,
		`nodeSelector.zone`,
		`resources.requests.memory`,
		`resources.limits.memory`,
		`tolerations[0].key`,
		`tolerations[0].effect`,
		`tolerations[3].key`,
		`extraVolumes[0].name`,
		`global.imageRegistry`,
	} {
		NewWithT(t).Expect(check(c, path)).To(Succeed(), path)
	}
}

func TestCheckPath_suggestsTheNearestPath(t *testing.T) {
	c := anchor().load(t)
	tests := map[string]string{
		`settings.clusterNam`:             "settings.clusterNam does not exist in chart anchor 1.2.3: did you mean settings.clusterName?",
		`setting.clusterName`:             "did you mean settings.clusterName?",
		`settings.ClusterEndpoint`:        "did you mean settings.clusterEndpoint?",
		`clusterName`:                     "did you mean settings.clusterName?",
		`controller.replicas`:             "did you mean replicas?",
		`settings.featureGates.spotTospo`: "did you mean settings.featureGates.spotToSpot?",
		`settings.zone`:                   "settings.zone does not exist in chart anchor 1.2.3: settings has clusterEndpoint, clusterName, featureGates",
		`elsewhere`:                       "elsewhere does not exist in chart anchor 1.2.3: it has affinity, extraVolumes, nodeSelector, replicas, resources, serviceAccount, settings, tolerations",
		`replicas.zone`:                   "replicas.zone continues below replicas, which is a number in chart anchor 1.2.3",
		`settings.clusterName.x`:          "continues below settings.clusterName, which is a string",
		`tolerations.key`:                 "continues below tolerations, which is a list",
		`settings[0]`:                     "settings[0] indexes a value that is not a list in chart anchor 1.2.3",
	}
	for path, want := range tests {
		NewWithT(t).Expect(check(c, path)).To(MatchError(And(HavePrefix(path+" "), ContainSubstring(want))), path)
	}
}

func TestCheckPath_appliesTheSchema(t *testing.T) {
	c := anchor().
		with("values.yaml", "open: {}\nclosed: {}\nnamed: {known: 1}\n").
		with("values.schema.json", `{
		  "$defs": {"resources": {"properties": {"limits": {"type": "object"}}, "additionalProperties": false}},
		  "properties": {
		    "closed": {"properties": {"inside": {"type": "string"}}, "additionalProperties": false},
		    "named": {"properties": {"known": {}, "fromSchema": {"type": "string"}}},
		    "mapped": {"additionalProperties": {"properties": {"port": {"type": "integer"}}, "additionalProperties": false}},
		    "patterned": {"patternProperties": {"^x-": {"type": "string"}}, "additionalProperties": false},
		    "referred": {"$ref": "#/$defs/resources"},
		    "either": {"oneOf": [{"type": "string"}, {"properties": {"secret": {"type": "string"}}}]},
		    "list": {"type": "array", "items": {"properties": {"name": {"type": "string"}}, "additionalProperties": false}},
		    "loop": {"$ref": "#/properties/loop"}
		  }}`).load(t)
	accepted := []string{
		`open.anything`, `closed.inside`, `named.known`, `named.fromSchema`, `mapped.web.port`, `patterned.x-a`,
		`referred.limits.cpu`, `either.secret`, `list[4].name`,
	}
	for _, path := range accepted {
		NewWithT(t).Expect(check(c, path)).To(Succeed(), path)
	}
	refused := map[string]string{
		`closed.insid`:          "closed.insid is not allowed in chart anchor 1.2.3: did you mean closed.inside?",
		`named.fromSchem`:       "did you mean named.fromSchema?",
		`mapped.web.prot`:       "does not exist",
		`patterned.y`:           "patterned.y does not exist",
		`referred.limit`:        "does not exist",
		`list[0].nam`:           "does not exist",
		`either.other`:          "does not exist",
		`loop.something.deeper`: "does not exist",
	}
	for path, want := range refused {
		NewWithT(t).Expect(check(c, path)).To(MatchError(ContainSubstring(want)), path)
	}
}

func TestCheckPath_followsDependencies(t *testing.T) {
	g := NewWithT(t)
	c := anchor().
		with("Chart.yaml", anchorChart+"dependencies: [{name: sub, alias: web}, {name: absent}]\n").
		with("charts/sub/Chart.yaml", "name: sub\nversion: 0.1.0\n").
		with("charts/sub/values.yaml", "service: {port: 80}\n").load(t)

	g.Expect(check(c, "web.service.port")).To(Succeed())
	g.Expect(check(c, "absent.anything.goes")).To(Succeed(), "a missing chart may have any value")
	g.Expect(check(c, "web.service.prot")).To(MatchError(ContainSubstring("did you mean web.service.port?")))
	g.Expect(check(c, "sub.service.port")).To(MatchError(ContainSubstring("does not exist")), "its values are under the alias")
}

func TestCheckPath_acceptsTheValuesOfKarpenter(t *testing.T) {
	g := NewWithT(t)
	c := karpenter(t)
	for _, path := range []string{
		`settings.clusterName`, `settings.clusterEndpoint`, `settings.interruptionQueue`,
		`serviceAccount.annotations.eks\.amazonaws\.com/role-arn`, `controller.resources.requests.cpu`, `nodeSelector.zone`,
	} {
		g.Expect(check(c, path)).To(Succeed(), path)
	}
	g.Expect(check(c, "settings.clusterNam")).To(MatchError(ContainSubstring("did you mean settings.clusterName?")))
	g.Expect(check(c, "settings.aws.clusterName")).To(MatchError(ContainSubstring("did you mean settings.clusterName?")), "the path of charts before 0.33")
}

// karpenter returns the chart in the module of Karpenter.
func karpenter(t *testing.T) *chart.Chart {
	t.Helper()
	command := exec.Command("go", "mod", "download", "-json", "github.com/aws/karpenter-provider-aws@v1.14.1")
	command.Dir = t.TempDir()
	out, err := command.Output()
	var module struct{ Dir string }
	if err == nil {
		err = json.Unmarshal(out, &module)
	}
	if err != nil {
		t.Skipf("cannot download the module of Karpenter: %v", err)
	}
	c, err := chart.Load(filepath.Join(module.Dir, "charts", "karpenter"))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return c
}

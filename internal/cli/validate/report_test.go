package validate_test

import (
	"bytes"
	"encoding/json"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/cli/validate"
	"github.com/appthrust/capt/internal/client/text"
)

var sample = []validate.Finding{{
	File: "a,b.yaml", Line: 3, Column: 5, Object: "CAPTAddon x", Path: "spec.helm", Severity: validate.Error,
	Rule: validate.RuleSchema, Message: "100% wrong\nwrite b",
}}

func written(t *testing.T, format text.Output, findings []validate.Finding) string {
	t.Helper()
	var out bytes.Buffer
	NewWithT(t).Expect(validate.Write(&out, format, findings)).To(Succeed())
	return out.String()
}

func TestWrite_asText(t *testing.T) {
	NewWithT(t).Expect(written(t, "text", sample)).To(Equal("a,b.yaml:3: error: CAPTAddon x: spec.helm: 100% wrong\nwrite b (schema)\n"))
}

func TestWrite_forGitHub(t *testing.T) {
	NewWithT(t).Expect(written(t, "github", sample)).To(Equal("::error file=a%2Cb.yaml,line=3,col=5,title=captctl schema::CAPTAddon x: spec.helm: 100%25 wrong%0Awrite b\n"))
}

func TestWrite_asJSON(t *testing.T) {
	g := NewWithT(t)
	g.Expect(written(t, "json", nil)).To(MatchJSON(`{"findings": []}`))
	var back struct{ Findings []validate.Finding }
	g.Expect(json.Unmarshal([]byte(written(t, "json", sample)), &back)).To(Succeed())
	g.Expect(back.Findings).To(Equal(sample))
}

func TestWrite_asSARIF(t *testing.T) {
	g := NewWithT(t)
	var log struct {
		Version string
		Runs    []struct {
			Tool struct {
				Driver struct{ Rules []struct{ ID string } }
			}
			Results []struct {
				RuleID, Level string
				Locations     []struct {
					PhysicalLocation struct {
						ArtifactLocation struct{ URI string }
						Region           struct{ StartLine int }
					}
				}
			}
		}
	}
	g.Expect(json.Unmarshal([]byte(written(t, "sarif", sample)), &log)).To(Succeed())
	g.Expect(log.Version).To(Equal("2.1.0"))
	g.Expect(log.Runs[0].Tool.Driver.Rules).To(HaveLen(len(validate.Descriptions)))
	result := log.Runs[0].Results[0]
	g.Expect(result.RuleID).To(Equal("schema"))
	g.Expect(result.Level).To(Equal("error"))
	g.Expect(result.Locations[0].PhysicalLocation.ArtifactLocation.URI).To(Equal("a,b.yaml"))
	g.Expect(result.Locations[0].PhysicalLocation.Region.StartLine).To(Equal(3))
	g.Expect(written(t, "sarif", nil)).To(ContainSubstring(`"results": []`), "no findings are an empty list")
}

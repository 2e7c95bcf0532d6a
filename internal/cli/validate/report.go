package validate

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/appthrust/capt/internal/client/text"
)

// Formats are the output formats. The first is the default.
var Formats = []string{"text", "json", "sarif", "github"}

// Write writes findings in a format.
func Write(w io.Writer, format string, findings []Finding) error {
	switch format {
	case "text", "":
		for _, f := range findings {
			fmt.Fprintf(w, "%s (%s)\n", f, f.Rule)
		}
		return nil
	case "json":
		if findings == nil {
			findings = []Finding{}
		}
		return writeJSON(w, map[string]any{"findings": findings})
	case "sarif":
		return writeJSON(w, sarif(findings))
	case "github":
		for _, f := range findings {
			fmt.Fprintln(w, annotation(f))
		}
		return nil
	default:
		return fmt.Errorf("unknown output format %q: use %s", format, strings.Join(Formats, ", "))
	}
}

func writeJSON(w io.Writer, value any) error {
	encoder := json.NewEncoder(text.Raw(w))
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return fmt.Errorf("writing findings: %w", err)
	}
	return nil
}

// annotation returns the workflow command that makes GitHub show a finding at its line.
func annotation(f Finding) string {
	property := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
	message := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	text := f.Message
	if f.Path != "" {
		text = f.Path + ": " + text
	}
	if f.Object != "" {
		text = f.Object + ": " + text
	}
	at := "file=" + property.Replace(filepath.ToSlash(f.File))
	if f.Line > 0 {
		at += fmt.Sprintf(",line=%d", f.Line)
	}
	if f.Column > 0 {
		at += fmt.Sprintf(",col=%d", f.Column)
	}
	return fmt.Sprintf("::%s %s,title=%s::%s", f.Severity, at, property.Replace("captctl "+string(f.Rule)), message.Replace(text))
}

// The used subset of SARIF 2.1.0.
type (
	sarifLog struct {
		Schema  string     `json:"$schema"`
		Version string     `json:"version"`
		Runs    []sarifRun `json:"runs"`
	}
	sarifRun struct {
		Tool    sarifTool     `json:"tool"`
		Results []sarifResult `json:"results"`
	}
	sarifTool struct {
		Driver sarifDriver `json:"driver"`
	}
	sarifDriver struct {
		Name           string      `json:"name"`
		InformationURI string      `json:"informationUri"`
		Rules          []sarifRule `json:"rules"`
	}
	sarifRule struct {
		ID               string    `json:"id"`
		ShortDescription sarifText `json:"shortDescription"`
	}
	sarifText struct {
		Text string `json:"text"`
	}
	sarifResult struct {
		RuleID    string          `json:"ruleId"`
		Level     string          `json:"level"`
		Message   sarifText       `json:"message"`
		Locations []sarifLocation `json:"locations"`
	}
	sarifLocation struct {
		PhysicalLocation sarifPhysical  `json:"physicalLocation"`
		LogicalLocations []sarifLogical `json:"logicalLocations,omitempty"`
	}
	sarifLogical struct {
		FullyQualifiedName string `json:"fullyQualifiedName"`
	}
	sarifPhysical struct {
		ArtifactLocation sarifArtifact `json:"artifactLocation"`
		Region           *sarifRegion  `json:"region,omitempty"`
	}
	sarifArtifact struct {
		URI string `json:"uri"`
	}
	sarifRegion struct {
		StartLine   int `json:"startLine"`
		StartColumn int `json:"startColumn,omitempty"`
	}
)

func sarif(findings []Finding) sarifLog {
	driver := sarifDriver{Name: "captctl", InformationURI: "https://github.com/appthrust/capt"}
	for _, rule := range slices.Sorted(maps.Keys(Descriptions)) {
		driver.Rules = append(driver.Rules, sarifRule{ID: string(rule), ShortDescription: sarifText{Text: Descriptions[rule]}})
	}
	results := []sarifResult{}
	for _, f := range findings {
		location := sarifLocation{PhysicalLocation: sarifPhysical{ArtifactLocation: sarifArtifact{URI: filepath.ToSlash(f.File)}}}
		if f.Line > 0 {
			location.PhysicalLocation.Region = &sarifRegion{StartLine: f.Line, StartColumn: f.Column}
		}
		if f.Object != "" {
			location.LogicalLocations = []sarifLogical{{FullyQualifiedName: strings.TrimSuffix(f.Object+"/"+f.Path, "/")}}
		}
		results = append(results, sarifResult{
			RuleID: string(f.Rule), Level: string(f.Severity), Message: sarifText{Text: f.Message}, Locations: []sarifLocation{location},
		})
	}
	return sarifLog{
		Schema: "https://json.schemastore.org/sarif-2.1.0.json", Version: "2.1.0",
		Runs: []sarifRun{{Tool: sarifTool{Driver: driver}, Results: results}},
	}
}

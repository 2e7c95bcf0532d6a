package validate

import (
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/appthrust/capt/internal/client/text"
)

// Formats are the output formats. The first is the default.
var Formats = []text.Output{"text", "json", "sarif", "github"}

// Write writes findings in a format.
func Write(w io.Writer, format text.Output, findings []Finding) error {
	switch format {
	case "json":
		return text.PrintJSON(w, map[string]any{"findings": text.NonNil(findings)})
	case "sarif":
		return text.PrintJSON(w, sarif(findings))
	case "github":
		for _, f := range findings {
			fmt.Fprintln(w, annotation(f))
		}
		return nil
	default:
		for _, f := range findings {
			fmt.Fprintf(w, "%s (%s)\n", f, f.Rule)
		}
		return nil
	}
}

// annotation returns the workflow command that makes GitHub show a finding at its line.
func annotation(f Finding) string {
	property := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
	message := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	content := f.Message
	if f.Path != "" {
		content = f.Path + ": " + content
	}
	if f.Object != "" {
		content = f.Object + ": " + content
	}
	at := "file=" + property.Replace(filepath.ToSlash(f.File))
	if f.Line > 0 {
		at += fmt.Sprintf(",line=%d", f.Line)
	}
	if f.Column > 0 {
		at += fmt.Sprintf(",col=%d", f.Column)
	}
	return fmt.Sprintf("::%s %s,title=%s::%s", f.Severity, at, property.Replace("captctl "+string(f.Rule)), message.Replace(content))
}

// sarif returns findings in the used subset of SARIF 2.1.0.
func sarif(findings []Finding) map[string]any {
	type object = map[string]any
	rules, results := []object{}, []object{}
	for _, rule := range slices.Sorted(maps.Keys(Descriptions)) {
		rules = append(rules, object{"id": rule, "shortDescription": object{"text": Descriptions[rule]}})
	}
	for _, f := range findings {
		physical := object{"artifactLocation": object{"uri": filepath.ToSlash(f.File)}}
		if f.Line > 0 {
			region := object{"startLine": f.Line}
			if f.Column > 0 {
				region["startColumn"] = f.Column
			}
			physical["region"] = region
		}
		location := object{"physicalLocation": physical}
		if f.Object != "" {
			location["logicalLocations"] = []object{{"fullyQualifiedName": strings.TrimSuffix(f.Object+"/"+f.Path, "/")}}
		}
		results = append(results, object{"ruleId": f.Rule, "level": f.Severity, "message": object{"text": f.Message}, "locations": []object{location}})
	}
	driver := object{"name": "captctl", "informationUri": "https://github.com/appthrust/capt", "rules": rules}
	return object{
		"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0",
		"runs": []object{{"tool": object{"driver": driver}, "results": results}},
	}
}

package file

import (
	"fmt"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Mirror replaces a registry, or a part of one, in images and charts.
type Mirror struct{ From, To string }

// ParseMirrors parses mirrors of the form FROM=TO.
func ParseMirrors(texts []string) ([]Mirror, error) {
	var mirrors []Mirror
	for _, text := range texts {
		from, to, found := strings.Cut(text, "=")
		from, to = strings.Trim(from, "/"), strings.Trim(to, "/")
		if !found || from == "" || to == "" || strings.Contains(from+to, "://") {
			return nil, fmt.Errorf("mirror %q is not FROM=TO: write for example ghcr.io=registry.example.com/ghcr", text)
		}
		mirrors = append(mirrors, Mirror{From: from, To: to})
	}
	return mirrors, nil
}

// UseMirrors replaces registries in the charts, the values of charts and the images of
// add-ons. It returns an error for a mirror that replaces nothing.
func UseMirrors(objects []*unstructured.Unstructured, mirrors []Mirror) error {
	for _, m := range mirrors {
		used := false
		for _, obj := range objects {
			if IsAddon(obj) {
				used = m.inAddon(obj) || used
			} else if data, isMap := obj.Object["data"].(map[string]any); isMap && obj.GetKind() == "ConfigMap" {
				used = m.inManifests(data) || used
			}
		}
		if !used {
			return fmt.Errorf("no chart and no image of the add-ons comes from %s: remove the mirror", m.From)
		}
	}
	return nil
}

// inAddon replaces the registry in an add-on. It reports whether the add-on uses it.
func (m Mirror) inAddon(addon *unstructured.Unstructured) bool {
	used := false
	spec, _ := addon.Object["spec"].(map[string]any)
	if helm, isMap := spec["helm"].(map[string]any); isMap {
		if chart, isMap := helm["chart"].(map[string]any); isMap {
			repository, _ := chart["repository"].(string)
			if registry, oci := strings.CutPrefix(repository, "oci://"); oci && m.matches(registry) {
				chart["repository"], used = "oci://"+m.replace(registry), true
			}
		}
		if values, changed := m.inValues(helm["values"]); changed {
			helm["values"], used = values, true
		}
	}
	manifests, _ := spec["manifests"].([]any)
	for _, source := range manifests {
		if source, isMap := source.(map[string]any); isMap {
			inline := map[string]any{"inline": source["inline"]}
			if m.inManifests(inline) {
				source["inline"], used = inline["inline"], true
			}
		}
	}
	return used
}

// inValues returns values of a chart with the registry replaced in the strings that
// begin with it, and whether there are any.
func (m Mirror) inValues(value any) (replaced any, used bool) {
	switch value := value.(type) {
	case string:
		if m.matches(value) {
			return m.replace(value), true
		}
	case map[string]any:
		for key, item := range value {
			if changed, found := m.inValues(item); found {
				value[key], used = changed, true
			}
		}
	case []any:
		for i, item := range value {
			if changed, found := m.inValues(item); found {
				value[i], used = changed, true
			}
		}
	}
	return value, used
}

// inManifests replaces the registry in the images of YAML texts, and leaves the rest of
// the texts as it is. It reports whether there are any.
func (m Mirror) inManifests(texts map[string]any) bool {
	image := regexp.MustCompile(`(?m)^(\s*(?:-\s+)?"?image"?:\s*["']?)` + regexp.QuoteMeta(m.From) + `/`)
	used := false
	for key, value := range texts {
		text, _ := value.(string)
		if image.MatchString(text) {
			texts[key], used = image.ReplaceAllString(text, "${1}"+strings.ReplaceAll(m.To, "$", "$$")+"/"), true
		}
	}
	return used
}

func (m Mirror) matches(name string) bool {
	return name == m.From || strings.HasPrefix(name, m.From+"/")
}

func (m Mirror) replace(name string) string { return m.To + strings.TrimPrefix(name, m.From) }

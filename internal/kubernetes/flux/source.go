// Package flux reads sources of Flux and downloads their artifacts. It needs only the
// fields that all kinds of sources have, so it imports no API types of Flux.
package flux

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the version of Flux's sources.
var GroupVersion = schema.GroupVersion{Group: "source.toolkit.fluxcd.io", Version: "v1"}

// Artifact is what a source provides.
type Artifact struct {
	// URL is where source-controller serves the archive.
	URL string `json:"url"`
	// Digest is the digest of the archive.
	Digest string `json:"digest"`
	// Revision is the revision of the source.
	Revision string `json:"revision"`
}

// source has the fields of a source that count.
type source struct {
	Spec struct {
		Suspend bool `json:"suspend"`
	} `json:"spec"`
	Status struct {
		ObservedGeneration int64              `json:"observedGeneration"`
		Conditions         []metav1.Condition `json:"conditions"`
		Artifact           *Artifact          `json:"artifact"`
	} `json:"status"`
}

// ArtifactOf returns the artifact of a source, or nil and what the source waits for. Like
// Flux's own controllers it uses the last artifact of a source that is suspended, or whose
// latest revision cannot be fetched, and returns why the artifact may be outdated.
func ArtifactOf(obj *unstructured.Unstructured) (*Artifact, string) {
	s, name := source{}, obj.GetKind()+" "+obj.GetNamespace()+"/"+obj.GetName()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, &s); err != nil {
		return nil, fmt.Sprintf("%s cannot be read: %v", name, err)
	}
	ready := readyCondition(s.Status.Conditions)
	switch {
	case s.Status.Artifact == nil && s.Spec.Suspend:
		return nil, name + " is suspended and has no artifact: resume it"
	case s.Status.Artifact == nil && ready.Message != "":
		return nil, name + " has no artifact yet: " + ready.Message
	case s.Status.Artifact == nil:
		return nil, name + " has no artifact yet: Flux's source-controller has not fetched it"
	case !s.Spec.Suspend && s.Status.ObservedGeneration != obj.GetGeneration() && !failed(ready, obj.GetGeneration()):
		return nil, name + " has changed, and Flux's source-controller has not fetched it yet"
	case s.Status.Artifact.URL == "" || s.Status.Artifact.Digest == "":
		return nil, name + " has an artifact without address or digest: Flux 2.0 or later is required"
	}
	return s.Status.Artifact, outdated(name, s.Spec.Suspend, ready)
}

// outdated returns why the artifact of a source may not be that of its latest revision, or
// an empty string.
func outdated(name string, suspended bool, ready metav1.Condition) string {
	switch {
	case suspended:
		return name + " is suspended: its last artifact is used"
	case ready.Status == metav1.ConditionFalse:
		return name + " is not ready, and its last artifact is used: " + ready.Message
	default:
		return ""
	}
}

func readyCondition(conditions []metav1.Condition) metav1.Condition {
	for _, c := range conditions {
		if c.Type == "Ready" {
			return c
		}
	}
	return metav1.Condition{}
}

// failed reports whether a generation of a source could not be fetched.
func failed(ready metav1.Condition, generation int64) bool {
	return ready.Status == metav1.ConditionFalse && ready.ObservedGeneration == generation
}

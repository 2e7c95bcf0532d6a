// Package policy holds CAPT's admission policies for captctl.
package policy

import (
	"embed"
	"fmt"
	"strings"
	"sync"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/appthrust/capt/internal/kubernetes/manifest"
)

// files are the policies with their bindings.
//
//go:embed *.yaml
var files embed.FS

// prefix is that of the objects in every way to install CAPT.
const prefix = "capt-"

const policyKind, bindingKind = "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"

// Objects returns the policies and their bindings with the names that they have in a cluster, in
// the order of their files. The caller must not change them.
var Objects = sync.OnceValues(func() ([]*unstructured.Unstructured, error) {
	entries, err := files.ReadDir(".")
	if err != nil {
		return nil, fmt.Errorf("reading the policies: %w", err)
	}
	var objects []*unstructured.Unstructured
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), "kustomiz") {
			continue
		}
		text, err := files.ReadFile(entry.Name())
		if err != nil {
			return nil, fmt.Errorf("reading the policies: %w", err)
		}
		found, err := manifest.Parse(text)
		if err != nil {
			return nil, fmt.Errorf("parsing %s: %w", entry.Name(), err)
		}
		for _, object := range found {
			if object.GetKind() == bindingKind {
				of, _, _ := unstructured.NestedString(object.Object, "spec", "policyName")
				if err := unstructured.SetNestedField(object.Object, prefix+of, "spec", "policyName"); err != nil {
					return nil, fmt.Errorf("naming the policy of %s: %w", object.GetName(), err)
				}
			}
			object.SetName(prefix + object.GetName())
			objects = append(objects, object)
		}
	}
	return objects, nil
})

// Policies returns the policies without their bindings.
func Policies() ([]*admissionregistrationv1.ValidatingAdmissionPolicy, error) {
	objects, err := Objects()
	if err != nil {
		return nil, err
	}
	var policies []*admissionregistrationv1.ValidatingAdmissionPolicy
	for _, object := range objects {
		if object.GetKind() != policyKind {
			continue
		}
		policy := &admissionregistrationv1.ValidatingAdmissionPolicy{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, policy); err != nil {
			return nil, fmt.Errorf("decoding policy %s: %w", object.GetName(), err)
		}
		policies = append(policies, policy)
	}
	return policies, nil
}

package webhooks

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// checkSelector rejects selectors that do not parse. The selector may be nil.
func checkSelector(path *field.Path, selector *metav1.LabelSelector) field.ErrorList {
	errs := metav1validation.ValidateLabelSelector(selector, metav1validation.LabelSelectorValidationOptions{}, path)
	for _, err := range errs {
		if strings.HasSuffix(err.Field, ".operator") {
			err.Detail = "must be In, NotIn, Exists or DoesNotExist"
		}
	}
	return errs
}

// checkMachineLabels rejects a template whose machines the selector does not
// match, or that names another cluster.
func checkMachineLabels(spec *field.Path, selector *metav1.LabelSelector, template *clusterv1.ObjectMeta, clusterName string) field.ErrorList {
	errs := checkSelector(spec.Child("selector"), selector)
	path := spec.Child("template", "metadata")
	errs = append(errs, template.Validate(path)...)
	errs = append(errs, checkClusterLabel(path.Child("labels"), template.Labels, clusterName)...)
	if len(errs) > 0 {
		return errs
	}
	parsed, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return field.ErrorList{invalid(spec.Child("selector"), metav1.FormatLabelSelector(selector), err.Error())}
	}
	if !parsed.Matches(labels.Set(template.Labels)) {
		errs = append(errs, invalid(path.Child("labels"), labels.FormatLabels(template.Labels), fmt.Sprintf(
			"must match spec.selector, which selects the machines: add labels for %s", parsed)))
	}
	return errs
}

// checkClusterLabel rejects a cluster label that contradicts spec.clusterName.
func checkClusterLabel(path *field.Path, set map[string]string, clusterName string) field.ErrorList {
	value, ok := set[clusterv1.ClusterNameLabel]
	if !ok || value == clusterName {
		return nil
	}
	return field.ErrorList{invalid(path.Key(clusterv1.ClusterNameLabel), value, fmt.Sprintf(
		"must be %s, the value of spec.clusterName: remove the label, which CAPT sets itself", clusterName))}
}

// defaultClusterLabel sets the cluster label of a set or deployment and of its
// machines, unless the selector would then no longer match them.
func defaultClusterLabel(clusterName string, meta *metav1.ObjectMeta, template *clusterv1.ObjectMeta, selector *metav1.LabelSelector) {
	if clusterName == "" {
		return
	}
	meta.Labels = withClusterLabel(meta.Labels, clusterName)
	labelled := withClusterLabel(template.Labels, clusterName)
	parsed, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil || parsed.Matches(labels.Set(template.Labels)) && !parsed.Matches(labels.Set(labelled)) {
		return
	}
	template.Labels = labelled
}

// withClusterLabel returns the labels with the cluster label. An existing cluster
// label is kept.
func withClusterLabel(set map[string]string, clusterName string) map[string]string {
	return labels.Merge(labels.Set{clusterv1.ClusterNameLabel: clusterName}, set)
}

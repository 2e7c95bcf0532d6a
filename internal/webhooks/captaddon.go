package webhooks

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	"github.com/appthrust/capt/internal/addon/targetpath"
	"github.com/appthrust/capt/internal/addon/versions"
)

// +kubebuilder:webhook:verbs=create;update,path=/validate-addons-cluster-x-k8s-io-v1beta1-captaddon,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,groups=addons.cluster.x-k8s.io,resources=captaddons,versions=v1beta1,name=validation.captaddon.addons.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1

var captAddonRules = rules[*addonsv1.CAPTAddon]{
	kind: &addonsv1.CAPTAddon{},
	object: func(a *addonsv1.CAPTAddon) field.ErrorList {
		spec := field.NewPath("spec")
		known := addonPlaceholders(&a.Spec)
		errs := checkSelector(spec.Child("clusterSelector"), &a.Spec.ClusterSelector)
		for i := range a.Spec.Manifests {
			errs = append(errs, checkManifests(spec.Child("manifests").Index(i).Child("inline"), a.Spec.Manifests[i].Inline, known)...)
		}
		if a.Spec.Helm != nil {
			errs = append(errs, checkHelm(spec.Child("helm"), a.Spec.Helm, known)...)
		}
		if c := a.Spec.Connection; c != nil {
			errs = append(errs, checkConnectionSecret(spec.Child("connection", "secretName"), c.SecretName)...)
		}
		errs = append(errs, checkMatrix(spec, a)...)
		for i := range a.Spec.Readiness {
			errs = append(errs, checkSelector(spec.Child("readiness").Index(i).Child("selector"), a.Spec.Readiness[i].Selector)...)
		}
		return errs
	},
}

// checkMatrix rejects versions that are not in the version matrix: the controller
// would never install them.
func checkMatrix(path *field.Path, a *addonsv1.CAPTAddon) field.ErrorList {
	if a.Spec.Versions == nil || a.Spec.Versions.Matrix == "" {
		return nil
	}
	matrix, err := versions.Default()
	if err != nil {
		return field.ErrorList{field.InternalError(path.Child("versions"), err)}
	}
	at, value := path.Child("versions", "matrix"), a.Spec.Versions.Matrix
	if slices.Contains(matrix.Names(), value) {
		at, value = path.Child("versions", "version"), versions.AddonVersion(a)
		if a.Spec.Helm != nil {
			at = path.Child("helm", "chart", "version")
		}
		if value == "" {
			return field.ErrorList{field.Required(at, "required by versions.matrix: set the version that the manifests install, for example 2.9.5")}
		}
	}
	if _, err := matrix.Requires(a.Spec.Versions.Matrix, value); err != nil {
		return field.ErrorList{invalid(at, value, err.Error()+"; to skip the check, remove versions.matrix")}
	}
	return nil
}

// clusterPlaceholders are the placeholders that every cluster has.
var clusterPlaceholders = []string{workspaceName, "CLUSTER_NAME", "CLUSTER_NAMESPACE", "KUBERNETES_VERSION"}

// addonPlaceholders returns the placeholders that have a value when the add-on is
// rendered for a cluster.
func addonPlaceholders(spec *addonsv1.CAPTAddonSpec) []string {
	known := slices.Clone(clusterPlaceholders)
	for i := range spec.ClusterValues {
		known = append(known, spec.ClusterValues[i].Name)
	}
	if spec.Connection != nil {
		known = append(known, spec.Connection.Keys...)
	}
	if spec.Helm != nil {
		for _, v := range spec.Helm.ValuesFrom {
			if !slices.Contains(known, v.ValuesKey) {
				known = append(known, v.ValuesKey)
			}
		}
	}
	return known
}

// checkConnectionSecret checks the name of the connection Secret. The Secret
// defines the other placeholders, so its name can use only those of the cluster.
func checkConnectionSecret(path *field.Path, name string) field.ErrorList {
	if errs := checkKnownPlaceholders(path, name, clusterPlaceholders); len(errs) > 0 {
		return errs
	}
	return checkName(path, "Secret", name)
}

func checkHelm(path *field.Path, h *addonsv1.HelmRelease, known []string) field.ErrorList {
	var errs field.ErrorList
	check := func(at *field.Path, text string) field.ErrorList { return checkValuePlaceholders(at, text, known) }
	if h.Values != nil {
		errs = eachString(path.Child("values"), h.Values.Raw, check)
	}
	for i := range h.Overrides {
		at, override := path.Child("overrides").Index(i), &h.Overrides[i]
		errs = append(errs, checkSelector(at.Child("clusterSelector"), &override.ClusterSelector)...)
		errs = append(errs, eachString(at.Child("values"), override.Values.Raw, check)...)
	}
	return append(errs, checkTargetPaths(path.Child("valuesFrom"), h.ValuesFrom)...)
}

// checkTargetPaths rejects paths that do not parse, and overlapping paths.
func checkTargetPaths(path *field.Path, values []addonsv1.OutputValue) field.ErrorList {
	var errs field.ErrorList
	paths := make([][]targetpath.Segment, len(values))
	for i, v := range values {
		at := path.Index(i).Child("targetPath")
		segments, err := targetpath.Parse(v.TargetPath)
		if err != nil {
			errs = append(errs, invalid(at, v.TargetPath, err.Error()))
			continue
		}
		for j, other := range paths[:i] {
			if other != nil && (startsWith(segments, other) || startsWith(other, segments)) {
				errs = append(errs, invalid(at, v.TargetPath, fmt.Sprintf(
					"overlaps with %s (valuesFrom[%d]), and one value would overwrite the other: use separate paths", values[j].TargetPath, j)))
			}
		}
		paths[i] = segments
	}
	return errs
}

func startsWith(path, prefix []targetpath.Segment) bool {
	return len(path) >= len(prefix) && slices.Equal(path[:len(prefix)], prefix)
}

package job

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/appthrust/capt/internal/terraform"
)

// invalidPodError is an error in the settings of a pod, which no retry corrects.
type invalidPodError struct{ error }

func (e *invalidPodError) Unwrap() error { return e.error }

// customize adds the settings of a pod template to the pod of a run. It copies field by
// field, so that everything else is what CAPT sets: the account, the security contexts,
// the command and the volumes that the runner needs.
//
// The schema of a WorkspaceProviderConfig has no other fields. But a run may create
// Secrets, among them one with the name of a later run, so a template is not trusted.
func customize(pod *corev1.PodTemplateSpec, text []byte) error {
	if len(text) == 0 {
		return nil
	}
	var template corev1.PodTemplateSpec
	if err := json.Unmarshal(text, &template); err != nil {
		return &invalidPodError{fmt.Errorf("decoding the pod template: %w", err)}
	}
	if err := checkTemplate(&template); err != nil {
		return &invalidPodError{err}
	}
	pod.Labels = merge(template.Labels, pod.Labels)
	pod.Annotations = merge(template.Annotations, pod.Annotations)
	from, to := &template.Spec, &pod.Spec
	to.ImagePullSecrets = from.ImagePullSecrets
	to.Affinity = from.Affinity
	to.TopologySpreadConstraints = from.TopologySpreadConstraints
	to.PriorityClassName = from.PriorityClassName
	to.RuntimeClassName = from.RuntimeClassName
	for i := range from.Volumes {
		v := &from.Volumes[i]
		to.Volumes = append(to.Volumes, corev1.Volume{Name: v.Name, VolumeSource: corev1.VolumeSource{
			EmptyDir: v.EmptyDir, ConfigMap: v.ConfigMap, Secret: v.Secret, PersistentVolumeClaim: v.PersistentVolumeClaim,
		}})
	}
	for i := range from.Containers {
		settings, runner := &from.Containers[i], &to.Containers[0]
		runner.ImagePullPolicy = settings.ImagePullPolicy
		runner.Env = override(runner.Env, settings.Env)
		for _, m := range settings.VolumeMounts {
			runner.VolumeMounts = append(runner.VolumeMounts, corev1.VolumeMount{Name: m.Name, MountPath: m.MountPath, SubPath: m.SubPath, ReadOnly: m.ReadOnly})
		}
	}
	return nil
}

// checkTemplate returns an error if the template would give the pod more than its
// namespace has.
func checkTemplate(template *corev1.PodTemplateSpec) error {
	var errs []error
	if len(template.Spec.Containers) > 1 {
		errs = append(errs, errors.New("a run has one container"))
	}
	if strings.HasPrefix(template.Spec.PriorityClassName, "system-") {
		errs = append(errs, fmt.Errorf("priority class %s: runs must not evict the pods of the system; use a PriorityClass of your own", template.Spec.PriorityClassName))
	}
	for i := range template.Spec.Volumes {
		v := &template.Spec.Volumes[i]
		if v.EmptyDir == nil && v.ConfigMap == nil && v.Secret == nil && v.PersistentVolumeClaim == nil {
			errs = append(errs, fmt.Errorf("volume %s: use emptyDir, configMap, secret or persistentVolumeClaim", v.Name))
		}
	}
	return errors.Join(errs...)
}

// fixedEnv are the variables of the runner that a template does not override.
var fixedEnv = []string{"POD_NAME", "POD_NAMESPACE", "POD_UID", "HOME", "TMPDIR", terraform.ProvidersEnv, terraform.DigestEnv}

// override returns the variables with those of the template instead of others of the
// same name.
func override(variables, template []corev1.EnvVar) []corev1.EnvVar {
	isFixed := func(v corev1.EnvVar) bool { return slices.Contains(fixedEnv, v.Name) }
	template = slices.DeleteFunc(slices.Clone(template), isFixed)
	kept := slices.DeleteFunc(slices.Clone(variables), func(v corev1.EnvVar) bool {
		return slices.ContainsFunc(template, func(t corev1.EnvVar) bool { return t.Name == v.Name })
	})
	return slices.Concat(kept, template)
}

// merge returns both maps. Values of fixed override the others.
func merge(others, fixed map[string]string) map[string]string {
	merged := map[string]string{}
	maps.Copy(merged, others)
	maps.Copy(merged, fixed)
	return merged
}

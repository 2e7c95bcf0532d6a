package sources

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/runs"
	"github.com/appthrust/capt/internal/terraform"
)

// PodSettings returns the settings of the pod, for the job executor.
func (s *Resolved) PodSettings() terraform.PodSettings {
	pod := terraform.PodSettings{ServiceAccountName: s.DefaultAccount}
	config := s.Sources.ProviderConfig
	if template := s.Sources.Template; config == nil && template != nil && template.Namespace != "" && template.Namespace != s.Apply.Namespace {
		// No user of this namespace has agreed that modules of the other one act as this account.
		pod.ServiceAccountName = ""
	}
	if config == nil || config.Spec.Runner == nil {
		return pod
	}
	c := config.Spec.Runner
	pod.Image, pod.NodeSelector = c.Image, c.NodeSelector
	if c.ServiceAccountName != "" {
		pod.ServiceAccountName = c.ServiceAccountName
	}
	if c.Resources != nil {
		pod.Resources = runs.MustJSON(c.Resources)
	}
	if len(c.Tolerations) > 0 {
		pod.Tolerations = runs.MustJSON(c.Tolerations)
	}
	if template := podTemplate(c); !equality.Semantic.DeepEqual(template, podTemplate(&infrav1.RunnerConfig{})) {
		pod.Template = runs.MustJSON(template)
	}
	return pod
}

// podTemplate returns the settings of the pod that have no field of their own in
// terraform.PodSettings.
func podTemplate(c *infrav1.RunnerConfig) *corev1.PodTemplateSpec {
	runner := corev1.Container{ImagePullPolicy: c.ImagePullPolicy}
	for _, v := range c.Env {
		runner.Env = append(runner.Env, corev1.EnvVar{Name: v.Name, Value: v.Value, ValueFrom: v.ValueFrom})
	}
	for _, m := range c.VolumeMounts {
		runner.VolumeMounts = append(runner.VolumeMounts, corev1.VolumeMount{Name: m.Name, MountPath: m.MountPath, SubPath: m.SubPath, ReadOnly: m.ReadOnly})
	}
	pod := &corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		Containers:                []corev1.Container{runner},
		Affinity:                  c.Affinity,
		TopologySpreadConstraints: c.TopologySpreadConstraints,
		PriorityClassName:         c.PriorityClassName,
	}}
	pod.Labels, pod.Annotations = c.PodLabels, c.PodAnnotations
	if c.RuntimeClassName != "" {
		pod.Spec.RuntimeClassName = &c.RuntimeClassName
	}
	for _, s := range c.ImagePullSecrets {
		pod.Spec.ImagePullSecrets = append(pod.Spec.ImagePullSecrets, corev1.LocalObjectReference{Name: s.Name})
	}
	for _, v := range c.Volumes {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: v.Name, VolumeSource: corev1.VolumeSource{
			EmptyDir: v.EmptyDir, ConfigMap: v.ConfigMap, Secret: v.Secret, PersistentVolumeClaim: v.PersistentVolumeClaim,
		}})
	}
	return pod
}

package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// ManifestSource is a set of manifests.
// +kubebuilder:validation:XValidation:rule="[has(self.inline), has(self.configMapRef), has(self.secretRef)].filter(x, x).size() == 1",message="set exactly one of inline, configMapRef and secretRef"
type ManifestSource struct {
	// name identifies the set. Sets are applied in the order of this list.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="name must contain only lower-case letters, digits and '-', for example crds"
	Name string `json:"name"`

	// inline are manifests as YAML; ${...} in them is resolved.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=524288
	Inline string `json:"inline,omitempty"`

	// configMapRef names a ConfigMap whose values are manifests.
	// +optional
	ConfigMapRef *infrav1.LocalReference `json:"configMapRef,omitempty"`

	// secretRef names a Secret whose values are manifests.
	// +optional
	SecretRef *infrav1.LocalReference `json:"secretRef,omitempty"`
}

// ChartSource is the source of a Helm chart.
// +kubebuilder:validation:XValidation:rule="self.repository.startsWith('oci://') || self.repository.startsWith('https://') || self.repository.startsWith('http://')",fieldPath=".repository",message="repository must start with oci://, https:// or http://"
// +kubebuilder:validation:XValidation:rule="!has(self.insecure) || !self.insecure || !self.repository.startsWith('https://')",fieldPath=".insecure",message="insecure is allowed only for oci:// and http:// repositories: remove it"
// +kubebuilder:validation:XValidation:rule="!has(self.provider) || self.provider == 'generic' || self.repository.startsWith('oci://')",fieldPath=".provider",message="provider is allowed only for oci:// repositories: remove it, or set secretRef"
// +kubebuilder:validation:XValidation:rule="!has(self.provider) || self.provider == 'generic' || !has(self.secretRef)",fieldPath=".provider",message="provider and secretRef are mutually exclusive: remove one of them"
// +kubebuilder:validation:XValidation:rule="!has(self.proxySecretRef) || self.repository.startsWith('oci://')",fieldPath=".proxySecretRef",message="proxySecretRef is allowed only for oci:// repositories: set HTTPS_PROXY of Flux's source-controller instead"
// +kubebuilder:validation:XValidation:rule="!has(self.secretRef) || !self.repository.startsWith('http://') || (has(self.insecure) && self.insecure)",fieldPath=".secretRef",message="secretRef would be sent unencrypted: use https://, or set insecure: true"
// +kubebuilder:validation:XValidation:rule="!has(self.certSecretRef) || !(self.repository.startsWith('http://') || (has(self.insecure) && self.insecure))",fieldPath=".certSecretRef",message="certSecretRef has no effect with plain HTTP: remove it, or use https:// or oci:// without insecure"
type ChartSource struct {
	// repository is the address of the chart repository.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	Repository string `json:"repository"`

	// name is the chart's name.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// version is the chart's exact version.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self.matches('^v?[0-9]+\\\\.[0-9]+\\\\.[0-9]+([-+][0-9A-Za-z.+-]+)?$')",message="version must be one exact version such as 1.14.1, not a range"
	Version string `json:"version"`

	// insecure allows plain HTTP to the repository.
	// +optional
	Insecure *bool `json:"insecure,omitempty"`

	// provider specifies how Flux authenticates to an OCI registry: as the identity of its
	// source-controller in a cloud (aws, azure, gcp), or with secretRef or anonymously
	// (generic). Defaults to aws for private registries of AWS, and to generic otherwise.
	// +optional
	// +kubebuilder:validation:Enum=generic;aws;azure;gcp
	Provider string `json:"provider,omitempty"`

	// secretRef names a Secret with the credentials of the repository: of type
	// kubernetes.io/dockerconfigjson for oci://, with the keys username and password for
	// https://. CAPT copies it into the clusters.
	// +optional
	SecretRef *infrav1.LocalReference `json:"secretRef,omitempty"`

	// certSecretRef names a Secret with the certificate authority of the repository in
	// ca.crt, or a client certificate in tls.crt and tls.key, or both. CAPT copies it into
	// the clusters.
	// +optional
	CertSecretRef *infrav1.LocalReference `json:"certSecretRef,omitempty"`

	// proxySecretRef names a Secret with the address of the proxy to an OCI registry, and
	// optionally its username and password. CAPT copies it into the clusters.
	// +optional
	ProxySecretRef *infrav1.LocalReference `json:"proxySecretRef,omitempty"`
}

// OutputValue puts a Terraform output into a chart's values.
// +kubebuilder:validation:XValidation:rule="!has(self.default) || !has(self.optional) || !self.optional",message="default and optional are mutually exclusive: remove one of them"
type OutputValue struct {
	// valuesKey is the key of the connection Secret: the output's name.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[-._a-zA-Z0-9]+$')",message="valuesKey must be a key of a Secret: letters, digits, '-', '_' and '.'"
	ValuesKey string `json:"valuesKey"`

	// targetPath is where the value goes in the chart's values. Dots inside a
	// name are written as \., list items as [0].
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=250
	TargetPath string `json:"targetPath"`

	// default is used when the Secret has no such key.
	// +optional
	// +kubebuilder:validation:MaxLength=65536
	Default *string `json:"default,omitempty"`

	// optional leaves the value out when the Secret has no such key.
	// +optional
	Optional *bool `json:"optional,omitempty"`

	// mode specifies whether the value is passed unchanged (Literal) or parsed as by
	// Helm's --set, so that true becomes a boolean (Parsed).
	// +optional
	// +kubebuilder:default=Literal
	// +kubebuilder:validation:Enum=Literal;Parsed
	Mode string `json:"mode,omitempty"`
}

// HelmRelease is a Helm release that Flux installs in the cluster.
type HelmRelease struct {
	// releaseName is the release's name. Defaults to the add-on's name.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=53
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="releaseName must contain only lower-case letters, digits and '-', for example karpenter"
	ReleaseName string `json:"releaseName,omitempty"`

	// namespace is the namespace of the release; the connection Secret is copied there.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="namespace must be the name of a namespace: lower-case letters, digits and '-', for example team-a"
	Namespace string `json:"namespace"`

	// chart is the source of the chart.
	// +required
	Chart ChartSource `json:"chart"`

	// values are values for the chart; ${...} in them is resolved.
	// +optional
	// +kubebuilder:validation:Type=object
	Values *infrav1.Value `json:"values,omitempty"`

	// overrides change the values in the clusters that they select, in this order.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Overrides []ValuesOverride `json:"overrides,omitempty"`

	// valuesFrom puts Terraform's outputs into the values.
	// +optional
	// +listType=map
	// +listMapKey=targetPath
	// +kubebuilder:validation:MaxItems=128
	ValuesFrom []OutputValue `json:"valuesFrom,omitempty"`

	// interval is how often Flux compares the release with the cluster.
	// Defaults to 5m.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]+([.][0-9]+)?(ms|s|m|h))+$') && duration(self) >= duration('10s')",message="interval must be at least 10s, for example 5m"
	Interval *metav1.Duration `json:"interval,omitempty"`

	// wait specifies whether Flux waits until the release's pods run. Never is for
	// clusters without nodes. Defaults to Never.
	// +optional
	// +kubebuilder:default=Never
	// +kubebuilder:validation:Enum=Always;Never
	Wait string `json:"wait,omitempty"`

	// crds specifies what happens to the chart's CRDs on upgrade.
	// +optional
	// +kubebuilder:default=CreateReplace
	// +kubebuilder:validation:Enum=Skip;Create;CreateReplace
	CRDs string `json:"crds,omitempty"`
}

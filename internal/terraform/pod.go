package terraform

// ProvidersEnv is the environment variable with the runner's directory of installed
// providers.
const ProvidersEnv = "CAPT_PROVIDERS"

// DigestEnv is the environment variable with the digest of the request that the runner
// executes.
const DigestEnv = "CAPT_REQUEST_DIGEST"

// PodSettings configure the pod in which the job executor runs a run. They are a part
// of the request, so that a run has the same pod whichever manager starts it.
type PodSettings struct {
	// Image overrides the executor's image.
	Image string `json:"image,omitempty"`
	// ServiceAccountName overrides the service account created for the run.
	ServiceAccountName string `json:"serviceAccountName,omitempty"`
	// Resources, NodeSelector and Tolerations are those of the pod. Resources and
	// Tolerations are JSON of the Kubernetes API. The executor has a default for
	// each that is empty.
	Resources    []byte            `json:"resources,omitempty"`
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
	Tolerations  []byte            `json:"tolerations,omitempty"`
	// Template is the JSON of a PodTemplateSpec with further settings, of which the
	// executor accepts only those that are safe. Its container is the runner's.
	Template []byte `json:"template,omitempty"`
}

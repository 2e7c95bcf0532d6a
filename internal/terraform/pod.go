package terraform

// PodSettings configure the pod in which the job executor runs a run.
type PodSettings struct {
	// Image overrides the executor's image.
	Image string
	// ServiceAccountName overrides the service account created for the run.
	ServiceAccountName string
	// Resources, NodeSelector and Tolerations are those of the pod. Resources and
	// Tolerations are JSON of the Kubernetes API. The executor has a default for
	// each that is empty.
	Resources    []byte
	NodeSelector map[string]string
	Tolerations  []byte
	// TimeoutSeconds is the timeout of the run. The pod's deadline is a little
	// later.
	TimeoutSeconds int64
}

package terraform

// PodSettings shape the pod that the job executor runs a run in.
type PodSettings struct {
	// Image overrides the executor's image.
	Image string
	// ServiceAccountName overrides the account made for the run.
	ServiceAccountName string
	// Resources, NodeSelector and Tolerations are those of the pod, as JSON in
	// the form of the Kubernetes API; empty is the executor's default.
	Resources    []byte
	NodeSelector map[string]string
	Tolerations  []byte
	// Timeout is the run's own; the pod lives a little longer.
	TimeoutSeconds int64
}

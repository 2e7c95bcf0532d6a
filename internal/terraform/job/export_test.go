package job

// ExplainPod is tested without an API server.
var ExplainPod = explainPod

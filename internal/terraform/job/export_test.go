package job

// ExplainPod is exported for tests without an API server.
var ExplainPod = explainPod

module github.com/appthrust/capt/api

go 1.26.0

require (
	k8s.io/api v0.36.3
	k8s.io/apimachinery v0.36.3
	sigs.k8s.io/cluster-api/api v1.14.2
)

package scheme

import (
	"errors"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// NotInstalled reports whether an error means that a kind is not installed in the
// cluster, and returns the API group of the kind.
func NotInstalled(err error) (group string, missing bool) {
	var kind *meta.NoKindMatchError
	var resource *meta.NoResourceMatchError
	var discovery *apiutil.ErrResourceDiscoveryFailed
	switch {
	case errors.As(err, &kind):
		return kind.GroupKind.Group, true
	case errors.As(err, &resource):
		return resource.PartialResource.Group, true
	case errors.As(err, &discovery):
		for version, cause := range *discovery {
			if !meta.IsNoMatchError(cause) {
				return "", false
			}
			group = version.Group
		}
		return group, group != ""
	}
	return "", false
}

package scheme

import (
	"errors"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// NotInstalled tells whether an error says that the cluster does not know a
// kind, and which group it is of.
func NotInstalled(err error) (group string, is bool) {
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
